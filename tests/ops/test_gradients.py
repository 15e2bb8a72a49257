"""gradcheck and gradgradcheck in float64 for every differentiable op, on all its samples."""

from __future__ import annotations

import numpy as np

from jtorch.autograd import gradcheck, gradgradcheck
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import Tensor
from tests.each import each
from tests.ops.samples import samples
from tests.ops.support import DIFFERENTIABLE, call, tensors


def _function(name, sample):
    def function(*arguments):
        outs = call(name, list(arguments), sample)
        return tuple(t for t in outs if t.is_floating_point())

    return function


def _given(name, k):
    sample = samples(name)[k]
    return sample, tensors(sample, requires_grad=True)


@each("name, k", DIFFERENTIABLE, parts=2)
def test_gradient_equals_finite_differences(name, k):
    sample, arguments = _given(name, k)
    assert gradcheck(_function(name, sample), arguments)


@each("name, k", DIFFERENTIABLE, parts=4)
def test_second_gradient_equals_finite_differences(name, k):
    sample, arguments = _given(name, k)
    assert gradgradcheck(_function(name, sample), arguments)


@each("name, k", DIFFERENTIABLE)
def test_gradients_have_the_dtype_and_shape_of_their_inputs(name, k):
    sample = samples(name)[k].cast(np.float32)
    arguments = tensors(sample, requires_grad=True)
    outs = [t for t in call(name, arguments, sample) if t.requires_grad]
    sum((t.double().sum() for t in outs[1:]), outs[0].double().sum()).backward()
    for a in arguments:
        if isinstance(a, Tensor) and a.grad is not None:
            assert (a.grad.shape, a.grad.dtype) == (a.shape, a.dtype)
            assert a.grad._data.dtype is a._data.dtype


@each("name, k", DIFFERENTIABLE)
def test_saves_no_more_than_it_says(name, k):
    sample, arguments = _given(name, k)
    node = next(t.grad_fn for t in call(name, arguments, sample) if t.requires_grad)
    assert len(node.saved) == len(BY_NAME[name].save_list)
    assert node.name() == BY_NAME[name].grad_name
