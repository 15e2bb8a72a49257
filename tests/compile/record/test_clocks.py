"""Clocks in compiled functions: each call reads them, where the function does."""

from __future__ import annotations

import time

import pytest

import jtorch
from jtorch.core.errors import CompileError

CLOCKS = (time.time, time.perf_counter, time.monotonic, time.process_time)
IN_NANOSECONDS = (time.time_ns, time.perf_counter_ns, time.monotonic_ns, time.process_time_ns)


@pytest.mark.parametrize("clock", [*CLOCKS, *IN_NANOSECONDS], ids=lambda clock: clock.__name__)
def test_each_call_reads_them(clock):
    compiled = jtorch.compile(lambda x: (clock(), x * 2), fullgraph=True)
    before = clock()
    for _ in range(4):
        found, y = compiled(jtorch.ones(2))
        after = clock()
        assert type(found) is type(before) and before <= found <= after and y.tolist() == [2, 2]
        before = after
    assert len(compiled.retraces) == 0


def test_what_is_computed_between_two_takes_the_time_between():
    def f(x):
        start = time.perf_counter()
        for _ in range(6):
            x = x @ x / 100
        return x, time.perf_counter() - start

    compiled, x = jtorch.compile(f, fullgraph=True), jtorch.full((400, 400), 0.25)
    for _ in range(4):
        start = time.perf_counter()
        _, inside = compiled(x)
        whole = time.perf_counter() - start
    assert whole / 2 < inside < whole


def test_a_training_step_that_prints_how_long_it_took(capsys):
    jtorch.manual_seed(0)
    model = jtorch.nn.Linear(3, 1)
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    @jtorch.compile(fullgraph=True)
    def step(x):
        start = time.time()
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f} in {time.time() - start:.3f} s")
        return loss

    losses = [step(jtorch.ones(n, 3)).item() for n in (4, 4, 5, 6, 7)]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" in ")[0] for line in lines] == [f"loss {loss:.4f}" for loss in losses]
    assert all(0 <= float(line.split()[-2]) < 60 for line in lines)
    assert losses == sorted(losses, reverse=True)
    assert len(step.retraces) <= 2  # the size has moved


def test_a_branch_on_the_time():
    now = time.monotonic()

    def f(x, late):
        return x + 1 if time.monotonic() > now + (0.0 if late else 1e6) else x - 1

    compiled = jtorch.compile(f, fullgraph=True)
    for late in (True, False, True, False):
        assert compiled(jtorch.zeros(1), late).item() == (1 if late else -1)


def test_what_is_kept_of_them():
    seen = {}

    @jtorch.compile(fullgraph=True)
    def f(x):
        seen["at"] = time.perf_counter()
        return x + 1

    times = []
    for _ in range(3):
        f(jtorch.ones(1))
        times.append(seen["at"])
    assert times == sorted(times) and len(set(times)) == 3


def test_digits_of_them_are_refused():
    with pytest.raises(CompileError, match=r"test_clocks.py:\d+ in .*int\(\)|number"):
        jtorch.compile(lambda x: x * [1, 2][int(time.time()) % 2], fullgraph=True)(jtorch.ones(1))
    with pytest.raises(CompileError, match="would keep"):
        jtorch.compile(lambda x: x * len(time.ctime()), fullgraph=True)(jtorch.ones(1))
