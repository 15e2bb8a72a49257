"""Every op, forward and backward: eager = interpreter = optimised = plain Python source = Numba."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.eager.tensor import Tensor
from tests.compile.chain import assert_chain
from tests.ops.samples import samples
from tests.ops.support import CASES, DIFFERENTIABLE, call


def _program(name, sample):
    """(a function of the sample's tensors alone, those tensors)"""
    places = [k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray)]

    def function(*tensors):
        args = list(sample.args)
        for k, t in zip(places, tensors, strict=True):
            args[k] = t
        return call(name, args, sample)

    return function, [sample.args[k] for k in places]


def _leaves(arrays, requires_grad=False):
    return [Tensor(np.array(a), requires_grad and a.dtype.kind == "f") for a in arrays]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "k"), CASES)
def test_forward(name, k, dtype):
    sample = samples(name)[k].cast(np.dtype(dtype))
    function, arrays = _program(name, sample)
    with jtorch.no_grad():
        assert_chain(lambda *t: [o.clone() for o in function(*t)], _leaves(arrays))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "k"), DIFFERENTIABLE)
def test_backward(name, k, dtype):
    sample = samples(name)[k].cast(np.dtype(dtype))
    function, arrays = _program(name, sample)

    def gradients(*tensors):
        outs = [o for o in function(*tensors) if o.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        seeds = [jtorch.cos(jtorch.arange(o.numel(), dtype=o.dtype)).reshape(o.shape) for o in outs]
        found = jtorch.autograd.grad(outs, wanted, seeds, allow_unused=True)
        return [g.clone() for g in found if g is not None]

    assert_chain(gradients, _leaves(arrays, requires_grad=True))
