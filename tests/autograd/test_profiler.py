"""Profiles hold every op, gradient and named block once, with times that add up, and leave nothing behind."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import jtorch
from jtorch.autograd.profiler import profile, record_function
from jtorch.eager.evaluate import EAGER


def names(prof):
    return [event.name for event in prof.function_events]


def test_ops_and_gradients_are_recorded():
    w = jtorch.ones(3, requires_grad=True)
    with profile() as prof:
        y = (w * 2).exp()
        y.sum().backward()
    assert [n for n in names(prof) if n in ("mul", "exp", "sum")] == ["mul", "exp", "sum"]
    assert {"SumBackward0", "ExpBackward0", "MulBackward0"} <= set(names(prof))
    np.testing.assert_allclose(w.grad.numpy(), np.full(3, 2 * np.exp(2)), rtol=1e-6)
    (w * 2).sum().backward()
    assert names(prof).count("mul") == 1


def test_times_add_up():
    x = jtorch.ones(50, 50)
    with profile() as prof:
        with record_function("outer"):
            with record_function("inner"):
                x @ x
            x + x
        x - x
    events = {event.name: event for event in prof.function_events}
    outer, inner, product = events["outer"], events["inner"], events["mm"]
    assert inner.cpu_parent is outer and product.cpu_parent is inner and events["sub"].cpu_parent is None
    assert outer.cpu_children == [inner, events["add"]]
    assert outer.cpu_time_total >= inner.cpu_time_total >= product.cpu_time_total > 0
    own = outer.cpu_time_total - inner.cpu_time_total - events["add"].cpu_time_total
    assert outer.self_cpu_time_total == pytest.approx(own)
    assert outer.time_range.start <= inner.time_range.start <= inner.time_range.end <= outer.time_range.end
    whole = outer.cpu_time_total + events["sub"].cpu_time_total
    assert prof.self_cpu_time_total == pytest.approx(whole)
    assert prof.total_average().self_cpu_time_total == pytest.approx(whole)


def test_sums_by_name_and_shapes():
    with profile(record_shapes=True) as prof:
        for n in (2, 3, 3):
            jtorch.ones(n, 4) @ jtorch.ones(4, 5)
    (row,) = [row for row in prof.key_averages() if row.key == "mm"]
    assert row.count == 3 and row.cpu_time == pytest.approx(row.cpu_time_total / 3)
    found = {
        str(row.input_shapes): row.count
        for row in prof.key_averages(group_by_input_shape=True)
        if row.key == "mm"
    }
    assert found == {"[[2, 4], [4, 5]]": 1, "[[3, 4], [4, 5]]": 2}


def test_a_name_inside_itself_is_counted_once():
    @record_function("step")
    def step(depth):
        return step(depth - 1) if depth else jtorch.ones(2) + 1

    with profile() as prof:
        assert step(2).tolist() == [2, 2]
    (row,) = [row for row in prof.key_averages() if row.key == "step"]
    outermost = prof.function_events[0]
    assert row.count == 3 and row.cpu_time_total == pytest.approx(outermost.cpu_time_total)


def test_the_table():
    with profile() as prof:
        for _ in range(3):
            jtorch.ones(4).exp()
        with record_function("a name that is much too long for the table's first column, by far"):
            jtorch.ones(4).log()
    text = prof.key_averages().table(sort_by="count", row_limit=2, header="mine")
    lines = text.splitlines()
    assert lines[1] == "mine" and lines[3].split("  ")[-1].strip() == "# of Calls"
    assert len(lines) == 9 and lines[-1].startswith("Self CPU time total: ")
    counts = [int(line.split()[-1]) for line in lines[5:7]]
    assert counts == sorted(counts, reverse=True) and counts[0] >= 3
    assert "a name that is much too long for the table's first c..." in prof.table()
    assert str(prof) == prof.table() and "exp" in prof.table(sort_by="self_cuda_time_total")
    assert "exp" not in prof.table(sort_by="cpu_time", row_limit=0)
    top = prof.table(top_level_events_only=True)
    assert "exp" in top and " log" not in top
    with pytest.raises(AttributeError, match="nonsense"):
        prof.table(sort_by="nonsense")


def test_chrome_trace(tmp_path):
    with profile(record_shapes=True) as prof, record_function("block"):
        jtorch.ones(2).exp()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == names(prof) and {e["ph"] for e in events} == {"X"}
    (exp,) = [e for e in events if e["name"] == "exp"]
    assert exp["args"] == {"Input Dims": [[2]]} and exp["dur"] > 0


def test_all_threads_are_recorded():
    def work():
        with record_function("in a thread"):
            jtorch.ones(2).exp()

    with profile() as prof, record_function("here"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    here, there = [e for e in prof.function_events if e.name in ("here", "in a thread")]
    assert here.thread != there.thread and there.cpu_parent is None
    assert [e.name for e in there.cpu_children if e.name == "exp"] == ["exp"]


def test_nothing_stays_behind():
    table = list(EAGER.table)
    with pytest.raises(ZeroDivisionError), profile() as prof:
        jtorch.ones(2).exp()
        raise ZeroDivisionError
    assert EAGER.table == table and EAGER.runs_nodes and "backward" not in vars(EAGER)
    assert "exp" in names(prof)
    with pytest.raises(RuntimeError), profile() as prof:
        jtorch.ones(2) + jtorch.ones(3)
    assert EAGER.table == table
    with record_function("outside"):
        assert jtorch.ones(2).sum().item() == 2


def test_double_gradients_and_closures():
    x = jtorch.tensor([0.5, 2.0], dtype=jtorch.float64, requires_grad=True)
    optimizer = jtorch.optim.LBFGS([x], max_iter=30)
    with profile():
        (g,) = jtorch.autograd.grad(x.exp().sum(), x, create_graph=True)
        (h,) = jtorch.autograd.grad(g.sum(), x)

        def closure():
            optimizer.zero_grad()
            loss = (x - 1).square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
    np.testing.assert_allclose(h.numpy(), np.exp([0.5, 2.0]))
    np.testing.assert_allclose(x.detach().numpy(), [1, 1], rtol=1e-6)


def test_turned_off():
    with profile(enabled=False) as prof:
        jtorch.ones(2).exp()
    with pytest.raises(RuntimeError, match="Profiler didn't finish running"):
        prof.key_averages()
    assert str(prof) == "<unfinished torch.autograd.profile>"


def test_what_is_refused():
    for option in ("profile_memory", "with_stack", "with_flops", "with_modules"):
        with pytest.raises(NotImplementedError, match=f"{option}=True"):
            profile(**{option: True})
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        profile(use_cuda=True)
    with profile() as prof:
        with pytest.raises(RuntimeError, match="already enabled"), profile():
            pass
        with pytest.raises(RuntimeError, match="not reentrant"):
            prof.__enter__()
    with pytest.raises(NotImplementedError, match="stacks are not recorded"):
        prof.key_averages(group_by_stack_n=5)
