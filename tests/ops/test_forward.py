"""What must hold of the value of every op, whatever it computes."""

from __future__ import annotations

import numpy as np
import pytest

from jtorch.core.op import BY_NAME, Kind, infer
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, wrap
from tests.each import each
from tests.ops.samples import samples
from tests.ops.support import CASES, call, tensors


def _values(outs):
    return [t._data for t in outs]


@each("name, k", CASES)
def test_results_are_arrays_and_inputs_stay_as_they_were(name, k):
    sample = samples(name)[k]
    arguments = tensors(sample)
    outs = call(name, arguments, sample)
    assert all(type(t._data) is np.ndarray for t in outs)
    for a, given in zip(arguments, sample.args, strict=True):
        if isinstance(a, Tensor):
            np.testing.assert_array_equal(a._data, given)
            assert a._version == 0


@each("name, k", CASES)
def test_memory_is_shared_exactly_where_the_op_says(name, k):
    sample = samples(name)[k]
    if BY_NAME[name].aliases:
        return  # a view, or a copy where no view is possible
    arguments = tensors(sample)
    for t in call(name, arguments, sample):
        for a in arguments:
            assert not isinstance(a, Tensor) or not np.shares_memory(t._data, a._data) or name == "cast"


def _spread(array):
    """The same elements in memory that is neither contiguous nor in order."""
    wide = (
        np.empty((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        if array.ndim
        else np.empty(2, array.dtype)
    )
    view = wide[..., ::2] if array.ndim else wide[0:1].reshape(())
    view = view.swapaxes(0, -1).copy().swapaxes(0, -1) if array.ndim > 1 else view
    view[...] = array
    return view


@each("name, k", CASES)
def test_layout_of_inputs_does_not_matter(name, k):
    sample = samples(name)[k]
    spread = [wrap(_spread(a)) if isinstance(a, np.ndarray) else a for a in sample.args]
    expected = call(name, tensors(sample), sample)
    for a, b in zip(call(name, spread, sample), expected, strict=True):
        np.testing.assert_allclose(a._data, b._data, rtol=1e-12, atol=1e-14)


@each("name, k", CASES)
def test_float32_stays_float32(name, k):
    sample = samples(name)[k]
    if not any(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in sample.args):
        pytest.skip("no floating-point argument")
    small = sample.cast(np.float32)
    wide = call(name, tensors(sample), sample)
    for a, b in zip(call(name, tensors(small), small), wide, strict=True):
        if b._data.dtype == np.float64:
            assert a._data.dtype == np.float32
            np.testing.assert_allclose(a._data, b._data, rtol=2e-4, atol=2e-5)
        else:
            assert a._data.dtype == b._data.dtype


PRIMITIVES = [c for c in CASES if BY_NAME[c.values[0]].kind is not Kind.COMPOSITE]


@each("name, k", PRIMITIVES)
def test_declared_shape_and_dtype_are_the_computed_ones(name, k):
    op, sample = BY_NAME[name], samples(name)[k]
    arguments = tensors(sample)
    arrays = [a for a in arguments if isinstance(a, Tensor)]
    outs = APPLY[name](*arguments, **sample.statics)
    outs = outs if isinstance(outs, tuple) else (outs,)
    shapes = [tuple(a.shape) for a in arrays]
    if op.kind is Kind.ELEMENTWISE and arrays:
        shapes = [np.broadcast_shapes(*shapes)] * len(shapes)
    found = infer(op, [a._data.dtype for a in arrays], shapes, sample.statics)
    if op.dtype == "float" and arrays[0]._data.dtype.kind != "f":
        return
    assert [(t._data.dtype, tuple(t.shape)) for t in outs] == found
