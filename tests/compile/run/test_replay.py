"""Running a plan: statuses, library calls between kernels, runtime scalars, memory that moves."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.codegen.elements import Elements
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.run.replay import HostCall, Native
from jtorch.compile.run.targets import CPU, PYTHON
from tests.compile.chain import Machine, arguments_of, destinations_of, optimised, planned, trace


def _line(function, text):
    """``file:line`` of the line of ``function`` that contains ``text``."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [first + k for k, line in enumerate(lines) if text in line]
    return f"test_replay.py:{at}"


@pytest.fixture(params=["numba", "plain Python"])
def mode(request, monkeypatch):
    monkeypatch.setenv("JTORCH_JIT", "1" if request.param == "numba" else "0")
    return request.param


def test_a_division_by_zero_names_the_line_and_keeps_what_was_done_before(mode):
    counts, total = jtorch.tensor([4, 6, 8]), jtorch.zeros(3, dtype=jtorch.int64)

    @jtorch.compile
    def program(n):
        total.add_(n)
        return counts // n

    assert program(jtorch.tensor([1, 2, 3])).tolist() == [4, 3, 2]
    with pytest.raises(RuntimeError, match=f"integer division by zero.*{_line(program.function, '//')}"):
        program(jtorch.tensor([1, 0, 3]))
    assert total.tolist() == [2, 2, 6]
    assert program(jtorch.tensor([1, 1, 1])).tolist() == [4, 6, 8]
    assert total.tolist() == [3, 3, 7]


def test_a_negative_power_of_integers(mode):
    """What PyTorch gives: 1 / x without its fraction. By a number it is PyTorch's error."""
    program = jtorch.compile(lambda x, y: x**y)
    assert program(jtorch.tensor([2, -3]), jtorch.tensor([3, 2])).tolist() == [8, 9]
    assert program(jtorch.tensor([2, -1, 1]), jtorch.tensor([-3, -1, -2])).tolist() == [0, -1, 1]
    number = jtorch.compile(lambda x, y: x**y)  # without axes
    assert number(jtorch.tensor(2), jtorch.tensor(5)).item() == 32
    assert number(jtorch.tensor(2), jtorch.tensor(-5)).item() == 0
    with pytest.raises(RuntimeError, match="negative integer powers"):
        jtorch.compile(lambda x: x**-1)(jtorch.tensor([2, 3]))


def test_an_index_out_of_range_names_the_line_and_changes_nothing(mode):
    weight = jtorch.arange(12.0).reshape(4, 3).requires_grad_(True)

    @jtorch.compile
    def program(ids):
        loss = (F.embedding(ids, weight) ** 2).sum()
        loss.backward()
        with jtorch.no_grad():
            weight.sub_(0.1 * weight.grad)
        return loss

    program(jtorch.tensor([0, 3]))
    before, grad = weight.detach().numpy().copy(), weight.grad.numpy().copy()
    for bad in ([4, 0], [0, -5]):
        with pytest.raises(IndexError, match=f"out of range.*{_line(program.function, 'F.embedding')}"):
            program(jtorch.tensor(bad))
        np.testing.assert_array_equal(weight.detach().numpy(), before)
        np.testing.assert_array_equal(weight.grad.numpy(), grad)
    assert np.isfinite(program(jtorch.tensor([1, 1])).item())


def test_of_two_reads_the_one_that_fails_is_named(mode):
    """Both are in one kernel; then each in a kernel of its own, of equal text."""
    table = jtorch.arange(5.0)

    @jtorch.compile
    def together(i, j):
        a = table[i]
        b = table[j]
        return a + b

    @jtorch.compile
    def apart(i, j):
        a = table[i]
        b = table[j]
        return a, b

    good, bad = jtorch.tensor([1, 2, 3]), jtorch.tensor([1, 2, 7])
    for program in (together, apart):
        program(good, good)
        with pytest.raises(IndexError, match=_line(program.function, "table[i]")):
            program(bad, good)
        with pytest.raises(IndexError, match=_line(program.function, "table[j]")):
            program(good, bad)


def test_a_constant_index_out_of_range_is_an_error_too(mode):
    @jtorch.compile
    def program(x):
        return x[jtorch.arange(5)]

    assert program(jtorch.arange(5.0)).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(IndexError, match=_line(program.function, "arange(5)")):
        program(jtorch.arange(4.0))


def test_library_calls_between_kernels_and_before_them(mode):
    """float16 has no kernels: the first segment is a library call that reads a runtime scalar."""

    @jtorch.compile
    def program(x, s):
        half = x.to(jtorch.float16) * s
        return half, (half.float() + 1.0).exp(), jtorch.argsort(x)

    x = jtorch.tensor([0.5, -1.0, 2.0])
    for s in (2.0, 0.25, -1.0):
        for found, expected in zip(program(x, s), program.function(x, s), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    if mode == "numba":
        kinds = {type(segment) for segment in program._latest.runner.segments}
        assert kinds == {Native, HostCall}


def test_an_error_in_a_library_call_keeps_what_was_done_before(mode):
    """Writing at computed positions is a library call, checked by NumPy."""
    seen = jtorch.zeros(2)

    @jtorch.compile
    def program(x, ids):
        seen.add_(1.0)
        y = x * 2.0
        y[ids] = 5.0
        return y

    assert program(jtorch.ones(3), jtorch.tensor([1])).tolist() == [2, 5, 2]
    with pytest.raises(IndexError):
        program(jtorch.ones(3), jtorch.tensor([3]))
    assert seen.tolist() == [2, 2]


def test_plain_python_kernels_do_not_address_outside_of_an_array():
    memory = Elements(np.arange(4.0), 1, "x")
    assert (memory[0], memory[-1], memory[2]) == (1.0, 0.0, 3.0)
    memory[0] = 7.0
    assert memory.elements[1] == 7.0
    for outside in (3, -2):
        with pytest.raises(IndexError, match="of 4 of x"):
            memory[outside]


def _machine(function, leaves, target):
    made = trace(function, leaves)
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    return Machine(plan, target, arguments_of(made))


@pytest.mark.parametrize("target", [CPU, PYTHON], ids=lambda target: target.name)
def test_runs_are_repeatable(target):
    """Nothing of one run is left for the next: the arena is full of the last one's values."""
    rng = np.random.default_rng(0)
    x, w = (jtorch.from_numpy(rng.normal(size=(4, 4)).astype(np.float32)) for _ in range(2))
    with jtorch.no_grad():
        machine = _machine(lambda x, w: F.softmax(x @ w, -1).sum(0), [x, w], target)
    assert machine.run() == 0
    first = [a.copy() for a in machine.outputs]
    assert machine.run() == 0
    for a, b in zip(machine.outputs, first, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_products_of_empty_matrices(shape, mode):
    program = jtorch.compile(lambda x: (x @ x.t() + 1.0, x.t() @ x + 1.0))
    x = jtorch.zeros(shape)
    for found, expected in zip(program(x), program.function(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
