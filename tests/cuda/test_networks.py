"""Training steps of the fifteen networks as plans on the tests' device: what the CPU's plans give."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import jtorch
from benchmarks.agree import Record, record
from benchmarks.models.rows import MODELS
from benchmarks.program import Program
from jtorch.compile.run import device_memory
from tests.cuda.device import cuda_device
from tests.cuda.networks import NETWORKS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)

# How far they may be apart after a step, see ``off``. A parameter whose gradient is 0 but for rounding, as of
# the biases of keys, is moved by Adam as by any other gradient, one way or the other: in float64 its 1e-8 is
# larger than that.
LOSSES = {"float32": 5e-7, "float64": 2e-15}
GRADIENTS = {"float32": 5e-6, "float64": 1e-12}
PARAMETERS = {"float64": 5e-7}
SMALL = 1e-3  # of the largest gradient: a tensor of smaller ones is compared with that
STEP = 1e-3  # of Adam, by which a parameter moves
LONG = ("mobilenet", "resnet")  # half a minute each

CASES = [
    (name, dtype) for name in NETWORKS for dtype in LOSSES if dtype == "float64" or name not in LONG
]  # fmt: skip


def test_all_of_them_are_here():
    assert list(NETWORKS) == list(MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("name, dtype", CASES)
def test_a_training_step_is_that_of_the_cpu(name, dtype):
    found, expected = first_step(name, "cuda", dtype), first_step(name, "cpu", dtype)
    assert off(found, expected, "losses") <= LOSSES[dtype]
    assert off(found, expected, "gradients") <= GRADIENTS[dtype]
    assert off(found, expected, "parameters") <= PARAMETERS.get(dtype, np.inf)


def first_step(name: str, device: str, dtype: str) -> Record:
    """What a compiled step gives and leaves behind; on a device it is one graph there, or an error."""
    if device == "cpu":
        program = built(name, device, dtype)
        return record(program, jtorch.compile(program.step, fullgraph=True), 1)
    there = cuda_device()
    device_memory.use(device_memory.DeviceMemory(there))
    try:
        program = built(name, device, dtype)
        step = jtorch.compile(program.step, fullgraph=True)
        found = record(program, step, 1)
        ((plan,),) = step.plans.values()
        assert plan.program.target.name == "cuda"
        before = len(there.fake.calls)
        step(*program.arguments[1])
        assert there.fake.calls[before:].count("cuGraphLaunch") == 1
        there.synchronize()
        assert there.fake.fault is None, there.fake.fault
        return found
    finally:
        device_memory.use(None)


def built(name: str, device: str, dtype: str) -> Program:
    """The network with parameters, state and data on a device."""
    wanted = getattr(jtorch, dtype)
    before = jtorch.get_default_dtype(), jtorch.get_default_device()
    jtorch.set_default_dtype(wanted)
    jtorch.set_default_device(device)
    try:
        program = NETWORKS[name](jtorch)
    finally:
        jtorch.set_default_dtype(before[0])
        jtorch.set_default_device(before[1])
    program.arguments = [
        tuple((a.to(wanted) if a.is_floating_point() else a).to(device) for a in row)
        for row in program.arguments
    ]
    return program


def off(found: Record, expected: Record, what: str) -> float:
    """The largest difference, of the largest element of each tensor, or what SMALL and STEP say if that is
    more: sums that are 0 but for rounding have nothing to be compared with."""
    ours, theirs = getattr(found, what), getattr(expected, what)
    if what == "losses":
        ours, theirs = dict(enumerate(ours)), dict(enumerate(theirs))
    assert ours.keys() == theirs.keys() and ours
    least = {"losses": 0.0, "parameters": STEP, "gradients": SMALL * max(map(_largest, theirs.values()))}[
        what
    ]
    return max(_off(ours[key], theirs[key], least) for key in theirs)


def _off(found: np.ndarray, expected: np.ndarray, least: float) -> float:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.isfinite(expected).all()
    return _largest(found.astype(np.float64) - expected) / (max(_largest(expected), least) or 1.0)


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array).max())
