"""The makers of results: those in Python, and the machine code that stands in for them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import jtorch
from jtorch.eager import results
from jtorch.eager.node import node_class
from jtorch.op import BY_NAME

CLASS = node_class(BY_NAME["tanh"])
SLOTS = [s for s in jtorch.Tensor.__slots__ if s not in ("__weakref__", "_how", "_node")]


@pytest.fixture(scope="module")
def native():
    if results.makers() == (results.on_tape, results.off_tape):
        pytest.skip("no machine code here: Numba is not installed, or JTORCH_JIT is 0")
    return results.makers()


def _arguments():
    return CLASS, np.ones((2, 3), np.float32), [0], ((None, 0),), (1, "two"), ([0], 0)


def test_machine_code_makes_what_python_makes(native):
    given = _arguments()
    for ours, theirs in (
        (native[0](*given), results.on_tape(*given)),
        (native[1](*given[1:3]), results.off_tape(*given[1:3])),
    ):
        assert type(ours) is type(theirs) is jtorch.Tensor
        for slot in SLOTS:
            assert getattr(ours, slot) is getattr(theirs, slot), slot
        assert not hasattr(ours, "_how")
        assert (ours._node is None) == (theirs._node is None)
    ours, theirs = native[0](*given)._node, results.on_tape(*given)._node
    assert type(ours) is type(theirs) is CLASS
    for slot in ("edges", "saved", "versions", "extras"):
        assert getattr(ours, slot) is getattr(theirs, slot), slot
    assert ours.metadata == theirs.metadata == ((2, 3), np.dtype(np.float32))


def test_every_reference_is_counted(native):
    given = _arguments()
    before = [sys.getrefcount(x) for x in given[1:]]
    made = [native[0](*given) for _ in range(100)] + [native[1](*given[1:3]) for _ in range(100)]
    held = [sys.getrefcount(x) for x in given[1:]]
    assert [n - m for n, m in zip(held, before, strict=True)] == [200, 200, 100, 100, 100]
    del made
    gc.collect()
    assert [sys.getrefcount(x) for x in given[1:]] == before
    for _ in range(1000):
        native[0](*given)
    blocks = sys.getallocatedblocks()
    for _ in range(10_000):
        native[0](*given)
    assert sys.getallocatedblocks() - blocks < 100


def test_the_garbage_collector_knows_them(native):
    cell = [0]
    cell.append(native[0](CLASS, np.ones(1), cell, (), (cell,), ()))  # a cycle through both objects
    count = sum(type(x) is CLASS for x in gc.get_objects())
    del cell
    gc.collect()
    assert sum(type(x) is CLASS for x in gc.get_objects()) < count


def test_what_is_no_value_is_an_error(native):
    for function, given in ((native[0], _arguments()), (native[1], _arguments()[1:3])):
        with pytest.raises(TypeError):
            function(*given[:-1])
        with pytest.raises(TypeError):
            function(*given, None)

    class NoDtype:
        shape = (1,)

    for out in (object(), NoDtype()):
        before = sys.getrefcount(out)
        with pytest.raises(AttributeError):
            native[0](CLASS, out, [0], (), (), ())
        assert sys.getrefcount(out) == before


@pytest.mark.parametrize("setting", ["JTORCH_JIT=0", "JTORCH_CACHE=0", f"JTORCH_CACHE={os.devnull}"])
def test_eager_mode_goes_on_without_machine_code_and_says_nothing(setting):
    program = (
        "import jtorch, sys; x = jtorch.ones(2, requires_grad=True); (x * x).sum().backward();"
        "from jtorch.eager import results; print(x.grad.tolist(), results.makers()[0] is results.on_tape,"
        "'llvmlite' in sys.modules)"
    )
    env = os.environ | dict([setting.split("=")])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (done.stdout.strip(), done.stderr) == ("[2.0, 2.0] True False", "")
