"""Loops over time on the tests' device: each turn is some steps of the graph."""

from __future__ import annotations

import time
from itertools import chain

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile.codegen.cuda_launch import Footprint
from jtorch.compile.run import cuda_steps
from jtorch.compile.run.cuda_edges import Edges
from jtorch.compile.run.targets import CPU, on_device
from jtorch.compiler import scan
from jtorch.core.errors import CompileError, CudaError
from tests.compile.chain import Machine, arguments_of, trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.compile.codegen.cuda_programs import tensor
from tests.compile.run.test_cuda import machines, off
from tests.cuda.device import cuda_device
from tests.cuda.marks import compiles
from tests.cuda.test_compiled import leaves, same, trained
from tests.each import each

F = nn.functional
MANY = 14  # steps of time: more than layers unroll by themselves


class Recurrent(nn.Module):
    kind, options = "LSTM", {}
    shape = (3, MANY, 5)

    def __init__(self):
        super().__init__()
        self.layer = getattr(nn, self.kind)(5, 6, batch_first=True, **self.options)
        directions = 2 if self.options.get("bidirectional") else 1
        self.head = nn.Linear(directions * (self.options.get("proj_size") or 6), 4)

    def forward(self, x):
        out, _ = self.layer(x)
        return self.head(out[:, -1])


def network(kind, **options):
    return type(kind, (Recurrent,), {"kind": kind, "options": options})


NETWORKS = {
    "LSTM": network("LSTM"),
    "GRU": network("GRU"),
    "RNN": network("RNN", nonlinearity="relu"),
    "both ways, twice": network("GRU", num_layers=2, bidirectional=True),
    "with projections": network("LSTM", proj_size=3, bias=False),
    "with dropout": network("LSTM", num_layers=2, dropout=0.3),
}


@compiles
@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
@each("name", NETWORKS)
@each("optimizer", ("SGD", "Adam"))
def test_a_training_step(name, optimizer):
    losses, state, step = trained(
        NETWORKS[name], optimizer, "cuda", lambda f: jtorch.compile(f, fullgraph=True), steps=3
    )
    expected_losses, expected, _ = trained(NETWORKS[name], optimizer, "cpu", jtorch.compile, steps=3)
    ((plan,),) = step.plans.values()
    assert plan.program.target.name == "cuda"
    assert len([t for t in plan.program.plan.tasks if t.step.kind == "scan"]) >= 2
    jtorch.testing.assert_close(losses, expected_losses, rtol=1e-6, atol=1e-6)
    for a, b in zip(state, expected, strict=True):
        jtorch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def adding(xs, w, ids):
    return scan(lambda c, x: (c * 0.5 + x, c.sum()), xs[0] * 0, xs)


def backward_in_time(xs, w, ids):
    return scan(lambda c, x: ((c @ w + x).tanh(), c), xs[0], xs, reverse=True)


def several(xs, w, ids):
    def turn(carry, x):
        state, count = carry
        return (state * x + w[0], count + 1), {"state": state, "count": count}

    return scan(turn, (xs[0], ids[0] * 0), xs)


def a_loop_in_a_loop(xs, w, ids):
    def turn(c, x):
        inner, parts = scan(lambda a, b: (a * b + c, a.sum()), c, w)
        return inner.tanh() + x, parts

    return scan(turn, xs[0], xs)


def rows_by_number(xs, w, ids):
    return scan(lambda c, i: (c + w[i], c), xs[0], ids)


def unread(xs, w, ids):
    carry, _ = scan(lambda c, x: ((c @ w + x).tanh(), c * 2), xs[0], xs)
    return carry


def gradients(xs, w, ids):
    w = w.detach().requires_grad_()
    carry, outs = scan(lambda c, x: ((c @ w + x).tanh(), c.sum()), xs[0], xs)
    (carry.sum() + (outs * outs).sum()).backward()
    return w.grad, outs.detach()


LOOPS = {
    function.__name__: function
    for function in (
        adding, backward_in_time, several, a_loop_in_a_loop, rows_by_number, unread, gradients,
    )
}  # fmt: skip


@compiles
@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
@each("name", LOOPS)
@each("steps", (1, 2, 9))
def test_loops_of_a_program(name, steps):
    compared(name, steps)


def compared(name, steps):
    """One of LOOPS gives on the device what it gives on the host."""
    compiled, on_host = jtorch.compile(LOOPS[name], fullgraph=True), jtorch.compile(LOOPS[name])
    for seed in range(2):
        given = tensor(steps, 3, seed=seed), tensor(4, 3, seed=7)[:3], jtorch.arange(steps) % 3
        found = leaves(compiled(*(x.cuda() for x in given)))
        for a, b in zip(found, leaves(on_host(*given)), strict=True):
            same(a, b, 1e-6)


@compiles
@pytest.mark.slow
@each("row", (2, 7, -4))
def test_an_error_of_a_turn_is_that_of_the_host_and_nothing_is_written(row):
    weight, ids = tensor(3, 3), jtorch.tensor([0, 1, row, 2, 9 if row == 7 else 0])

    def step(xs, ids):
        weight.mul_(2.0)
        carry, parts = scan(lambda c, i: (c + weight[i], c.sum()), xs, ids)
        return [carry, parts]

    cpu, cuda = machines(step, [tensor(3), ids])
    before = [array.copy() for array in (*cuda.inputs, *cuda.outputs)]
    statuses = cpu.run(), cuda.run()
    assert (statuses[0] == 0) == (statuses[1] == 0) == (row == 2)
    same = [np.array_equal(a, b) for a, b in zip((*cuda.inputs, *cuda.outputs), before, strict=True)]
    assert all(same) == (row != 2)
    if row != 2:
        failure = cuda.runner.failure(statuses[1])
        assert failure.sentence == "index out of range in self"
        assert "test_loops.py" in str(failure.source)


@compiles
@pytest.mark.slow
@pytest.mark.usefixtures("cuda")
def test_an_index_out_of_range_in_a_turn_is_an_error_as_on_the_host():
    found = []
    for device in ("cpu", "cuda"):
        step = jtorch.compile(lambda x, w, i: scan(lambda c, k: (c + w[k], c), x, i), fullgraph=True)
        x, weight, ids = (t.to(device) for t in (tensor(3), tensor(3, 3), jtorch.arange(9) % 3))
        step(x, weight, ids)
        ids[5] = 7
        with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3") as error:
            step(x, weight, ids)
        found.append(str(error.value))
    assert found[0] == found[1] and "test_loops.py:" in found[0]


@compiles
@pytest.mark.slow
def test_a_long_loop_has_its_graph_soon():
    """And what it gives is still that of the host."""
    jtorch.manual_seed(0)
    layer, steps = nn.GRU(2, 3), 400
    machines(lambda x: [layer(x)[0].detach()], [tensor(MANY, 1, 2)])  # compiles the kernels
    made = trace(lambda x: [layer(x)[0].detach()], [tensor(steps, 1, 2)])
    plan, arguments = plan_of(made), arguments_of(made)
    cpu = Machine(plan, CPU, arguments)
    begin = time.perf_counter()
    cuda = Machine(plan, on_device(cuda_device(caching=False)), arguments)
    assert time.perf_counter() - begin < 0.02 * steps  # takes some 2 ms a step
    assert len(cuda.runner.graph.batches) >= 2 * steps
    assert cpu.run() == 0 == cuda.run()
    assert off(cpu.outputs[0], cuda.outputs[0]) <= 1e-6


@compiles
def test_what_was_compiled_shows_the_turn(cuda):
    layer = nn.GRU(3, 4).cuda()
    step = jtorch.compile(lambda x: layer(x)[0].detach(), fullgraph=True)
    step(tensor(MANY, 2, 3).cuda())
    assert "gru_scan" in str(step.graph()) and "tanh" in step.source()


# -- edges ---------------------------------------------------------------------------------------------------


def random_footprint(draws):
    """Of bytes that others touch, too; some are empty."""
    spans = [range(b, b + n) for b, n in draws.integers(0, (40, 9), (4, 2)).tolist()]
    n = int(draws.integers(0, 5))
    return Footprint(tuple(spans[:n]), tuple(spans[n:]))


def in_conflict(one, other):
    (r, w), (s, v) = (({*chain(*f.reads)}, {*chain(*f.writes)}) for f in (one, other))
    return bool(w & (s | v) or r & v)


@each("seen", (1, 3, 1000))
def test_paths_lead_to_all_that_a_step_must_wait_for(seen, monkeypatch):
    """And no edge is there for what other edges say, where all steps are known."""
    monkeypatch.setattr("jtorch.compile.run.cuda_edges._SEEN", seen)
    for seed in range(60):
        draws = np.random.default_rng(seed)
        steps, edges = [random_footprint(draws) for _ in range(25)], Edges()
        after = [edges.add(footprint) for footprint in steps]
        before: list[set[int]] = []
        for k, own in enumerate(after):
            before.append(set(own).union(*(before[other] for other in own)))
            conflicts = {j for j in range(k) if in_conflict(steps[j], steps[k])}
            assert conflicts <= before[k]
            assert all(seen < 25 or not any(a in before[b] for b in own) for a in own)


def loop_of_two_layers(x):
    return [LAYER(x)[0].detach()]


LAYER = nn.RNN(2, 3, bidirectional=True)


@compiles
@pytest.mark.slow
def test_each_edge_of_a_loop_is_needed(monkeypatch):
    """Without any one of them a run names two steps that nothing orders."""
    added, edges = Edges.add, []

    def without(missing):
        def add(self, footprint):
            step = len(self._before)
            found = added(self, footprint)
            edges.extend((step, other) for other in found if missing is None)
            return [other for other in found if (step, other) != missing]

        return add

    monkeypatch.setattr(Edges, "add", without(None))
    machines(loop_of_two_layers, [tensor(4, 1, 2)])
    assert len(edges) >= 16
    for missing in edges:
        monkeypatch.setattr(Edges, "add", without(missing))
        _, cuda = machines(loop_of_two_layers, [tensor(4, 1, 2)])
        with pytest.raises(CudaError, match=r"no edge of the graph says|nobody has written|workspace"):
            cuda.run()


@compiles
@pytest.mark.slow
def test_any_order_of_the_graph_gives_the_same_bits():
    found = set()
    for seed in range(4):
        _, cuda = machines(loop_of_two_layers, [tensor(MANY, 2, 2)], seed)
        assert cuda.run() == 0
        found.add(cuda.outputs[0].tobytes())
    assert len(found) == 1


MOVED = {
    "stride": lambda a: a.stride + 4,
    "mask": lambda a: -1 if a.mask == 1 else 0,
    "late": lambda a: a.late + 1,
}


@compiles
@pytest.mark.slow
@each("what", MOVED)
def test_turns_that_look_elsewhere_are_seen(what, monkeypatch):
    """A turn whose addresses move on otherwise reads what nobody has written, or gives other numbers."""
    real = cuda_steps._address_at
    changed = lambda a, *where: real(a._replace(**{what: MOVED[what](a)}), *where)  # noqa: E731
    monkeypatch.setattr(cuda_steps, "_address_at", changed)
    cpu, cuda = machines(loop_of_two_layers, [tensor(MANY, 1, 2)])
    assert cpu.run() == 0
    try:
        assert cuda.run() == 0
    except CudaError as error:
        assert any(text in str(error) for text in ("nobody has written", "in no allocation", "aligned"))
    else:
        assert off(cpu.outputs[0], cuda.outputs[0]) > 1e-3


# -- what is refused -----------------------------------------------------------------------------------------


@compiles
@pytest.mark.usefixtures("cuda")
def test_a_graph_of_too_many_steps_runs_eagerly(monkeypatch):
    monkeypatch.setattr(cuda_steps, "MOST_STEPS", 20)
    step = jtorch.compile(lambda x: LAYER(x)[0].detach(), fullgraph=True)
    with pytest.raises(CompileError, match=r"test_loops\.py:.*a graph of \d+ steps.*given 20 at most"):
        LAYER.cuda()
        step(tensor(MANY, 1, 2).cuda())
    LAYER.cpu()
