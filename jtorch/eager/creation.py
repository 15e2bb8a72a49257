"""Functions that make tensors: from data, filled, counted, and random.

Filled and random tensors go through the evaluator, so that compiled code makes them anew at each call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jtorch import devices
from jtorch import dtypes as dt
from jtorch import op as op_module
from jtorch.dtypes import get_default_dtype
from jtorch.eager.binding import APPLY
from jtorch.eager.exchange import as_tensor, from_dlpack, from_numpy
from jtorch.eager.tensor import Tensor, as_tensor_data
from jtorch.ops import axes as ax
from jtorch.random import Generator, default_generator


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of its own memory from nested numbers or an array; floats become float32, ints int64."""
    devices.check(device)
    if isinstance(data, Tensor):
        data = data.detach()._data
    value = op_module.CONTEXT.get().evaluator.new(as_tensor_data(data, dtype))
    return Tensor(value).requires_grad_(requires_grad)


def _finish(result: Tensor, requires_grad: bool) -> Tensor:
    return result.requires_grad_() if requires_grad else result


def _full(shape: tuple[int, ...], value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    devices.check(device)
    context = op_module.CONTEXT.get()
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    data = context.xp.full(value, shape=shape, dtype=dt.to_numpy(dtype or get_default_dtype()))
    return _finish(Tensor(data), requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _full(ax.sizes(size), 0, dtype, device, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return _full(ax.sizes(size), 1, dtype, device, requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Like ``zeros``: memory of unknown content would make two modes differ."""
    return _full(ax.sizes(size), 0, dtype, device, requires_grad)


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    if dtype is None:
        dtype = dt.of(dt.of_number(fill_value))
    return _full(ax.sizes((size,)), fill_value, dtype, device, requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return _full(tuple(input.shape), 0, dtype or input.dtype, None, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return _full(tuple(input.shape), 1, dtype or input.dtype, None, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    return _full(tuple(input.shape), fill_value, dtype or input.dtype, None, requires_grad)


empty_like = zeros_like


def arange(*bounds: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """``start, start + step, ...`` below ``end``; int64 for ints, the default float otherwise."""
    devices.check(device)
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        ints = all(isinstance(b, int) for b in (start, end, step))
        dtype = dt.int64 if ints else get_default_dtype()
    count = math.ceil((end - start) / step)
    target = dt.to_numpy(dtype)
    line = Tensor(op_module.CONTEXT.get().xp.iota(shape=(count,), axis=0, dtype=target))
    if step != 1:
        line = line * step
    return _finish(line + start if start != 0 else line, requires_grad)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included."""
    values = np.linspace(start, end, steps)
    return tensor(values, dtype=dtype or get_default_dtype())


def eye(n: int, m: int | None = None, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return tensor(
        np.eye(n, m), dtype=dtype or get_default_dtype(), requires_grad=requires_grad
    )


# -- random ------------------------------------------------------------------------------------------------


def _bits(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    context = op_module.CONTEXT.get()
    seed, call = context.evaluator.next_call(generator or default_generator)
    return Tensor(context.xp.random_bits(seed, call, shape=shape, dtype=np.dtype(np.uint64)))


def rand(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uniform on [0, 1)."""
    devices.check(device)
    target = dt.to_numpy(dtype or get_default_dtype())
    return _finish(APPLY["uniform"](_bits(ax.sizes(size), generator), dtype=target), requires_grad)


def randn(
    *size: Any, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Standard normal."""
    devices.check(device)
    target = dt.to_numpy(dtype or get_default_dtype())
    return _finish(APPLY["normal"](_bits(ax.sizes(size), generator), dtype=target), requires_grad)


def randint(*args: Any, generator: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """``randint(low=0, high, size)``: integers in [low, high)."""
    devices.check(device)
    low, high, size = args if len(args) == 3 else (0, *args)
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    out = APPLY["bounded"](_bits(ax.sizes((size,)), generator), low, high)
    return out if dtype is None else out.to(dtype)


def randperm(n: int, *, generator: Any = None, dtype: Any = None) -> Tensor:
    """A random order of 0..n-1."""
    out = APPLY["sort_order"](_bits((n,), generator), axis=0)
    return out if dtype is None else out.to(dtype)


def rand_like(input: Tensor, *, dtype: Any = None) -> Tensor:
    return rand(*input.shape, dtype=dtype or input.dtype)


def randn_like(input: Tensor, *, dtype: Any = None) -> Tensor:
    return randn(*input.shape, dtype=dtype or input.dtype)


FACTORIES = {
    f.__name__: f
    for f in (
        tensor, as_tensor, from_numpy, from_dlpack, zeros, ones, empty, full, zeros_like, ones_like,
        full_like, arange, linspace, eye, rand, randn, randint, randperm, rand_like, randn_like,
    )
} | {"empty_like": empty_like}  # fmt: skip
