"""Functions that make tensors: from data, filled, and counted.

Filled and counted tensors go through the evaluator, so that compiled code makes them anew at each call.
Source: https://docs.pytorch.org/docs/stable/torch.html#creation-ops
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import devices, dtypes as dt, op as op_module
from jtorch.core.dim import Dim, is_symbolic
from jtorch.core.dtypes import get_default_dtype
from jtorch.core.number_ranges import check_factor, check_number, check_scalar, element, require_number
from jtorch.core.sizes import count_of
from jtorch.eager.binding import APPLY
from jtorch.eager.drawing import FUNCTIONS as RANDOM, rand, rand_like, randint, randn, randn_like, randperm  # noqa: F401
from jtorch.eager.exchange import as_tensor, from_dlpack, from_numpy
from jtorch.eager.factory import check_layout, factory, like, number, size_named, size_tuple, sizes
from jtorch.eager.nested import tensor_of
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_WIDER: dict[np.dtype, np.dtype] = {np.dtype(np.float32): _FLOAT64, _FLOAT64: np.dtype(np.longdouble)}


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor of its own memory from nested numbers or an array; floats become float32, ints int64.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.tensor.html
    """
    if pin_memory:
        check_layout(None, pin_memory, "tensor")
    if isinstance(data, Tensor):
        place = data.device if device is None else devices.check(device)
        made = data.detach().to(place, dtype=dtype, copy=True)
        return (made.pin_memory() if pin_memory else made).requires_grad_(requires_grad)
    made, place = tensor_of(data, dtype), devices.chosen(device)
    made = made if place is devices.CPU else made.to(place)
    return (made.pin_memory() if pin_memory else made).requires_grad_(requires_grad)


def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor; of the default float type unless told otherwise."""
    check_layout(layout, pin_memory, "scalar_tensor")
    dtype = dtype or get_default_dtype()
    check_scalar(s, dtype.numpy)
    return tensor(s, dtype=dtype, device=device, requires_grad=requires_grad, pin_memory=bool(pin_memory))


# -- filled ------------------------------------------------------------------------------------------------


def _full(shape: tuple[int, ...], value: Any, dtype: Any, beside: Tensor | None = None) -> Tensor:
    """``beside``: the tensor where whose elements these lie."""
    context = op_module.CONTEXT.get()
    xp = context.xp if beside is None else context.evaluator.namespace(beside._data)
    return wrap(xp.full(value, shape=shape, dtype=dt.to_numpy(dtype or get_default_dtype())))


@factory
def zeros(*size: Any, dtype: Any = None, **named: Any) -> Tensor:
    """0 in every element."""
    return _full(sizes(size, size_named(named, "zeros"), "zeros"), 0, dtype)


@factory
def ones(*size: Any, dtype: Any = None, **named: Any) -> Tensor:
    """1 in every element."""
    return _full(sizes(size, size_named(named, "ones"), "ones"), 1, dtype)


@factory
def empty(*size: Any, dtype: Any = None, memory_format: Any = None, **named: Any) -> Tensor:
    """Like ``zeros``: memory of unknown content would make two modes differ."""
    return _full(sizes(size, size_named(named, "empty"), "empty"), 0, dtype)


@factory
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """``fill_value``, a number or a 0-d tensor, in every element; its type decides the dtype.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.full.html
    """
    shape = size_tuple(size, "full")
    if isinstance(fill_value, Tensor):
        return fill_value.detach().to(dtype or fill_value.dtype).expand(shape).clone()
    fill_value = number(fill_value)
    if dtype is None:
        dtype = dt.of(dt.of_number(getattr(fill_value, "as_runtime_scalar", fill_value)))
    return _full(shape, element(fill_value, dtype.numpy, "full(): argument 'fill_value'"), dtype)


@factory
def zeros_like(input: Tensor, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    """0 in every element, in the shape and dtype of ``input``."""
    return like(input, _full(tuple(input.shape), 0, dtype or input.dtype, input))


@factory
def ones_like(input: Tensor, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    """1 in every element, in the shape and dtype of ``input``."""
    return like(input, _full(tuple(input.shape), 1, dtype or input.dtype, input))


@factory
def empty_like(input: Tensor, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    """Like ``zeros_like``: memory of unknown content would make two modes differ."""
    return like(input, _full(tuple(input.shape), 0, dtype or input.dtype, input))


@factory
def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, memory_format: Any = None) -> Tensor:
    """``fill_value`` in every element, in the shape and dtype of ``input``."""
    return like(input, full(tuple(input.shape), fill_value, dtype=dtype or input.dtype, device=input.device))


@factory
def empty_strided(size: Any, stride: Any, *, dtype: Any = None) -> Tensor:
    """Zeros with the memory order that ``stride``, in elements, tells."""
    shape, steps = size_tuple(size, "empty_strided"), tuple(stride)
    if len(shape) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(steps)} strides for {len(shape)} dims"
        )
    count = 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) if math.prod(shape) else 0
    return _full((count,), 0, dtype).as_strided(shape, steps)


@factory
def eye(n: int, m: int | None = None, *, dtype: Any = None) -> Tensor:
    """Ones on the diagonal of an n by m matrix of zeros."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    shape, xp = (n, n if m is None else m), op_module.CONTEXT.get().xp
    row, column = (wrap(xp.iota(shape=shape, axis=axis, dtype=_INT64)) for axis in (0, 1))
    return APPLY["cast"](APPLY["eq"](row, column), dtype=dt.to_numpy(dtype or get_default_dtype()))


# -- counted -----------------------------------------------------------------------------------------------


@factory
def arange(*bounds: Any, dtype: Any = None, start: Any = 0, end: Any = None, step: Any = 1) -> Tensor:
    """``start, start + step, ...`` below ``end``; int64 for ints, the default float otherwise.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.arange.html
    """
    start, end, step = _bounds("arange", bounds, start, end, step)
    if dtype is None:
        ints = all(isinstance(b, int) for b in (start, end, step))
        dtype = dt.int64 if ints else get_default_dtype()
    target = dt.to_numpy(dtype)
    assert target is not None
    if target.kind == "b":
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if target == _INT64:  # PyTorch counts in the type of the result: the bounds are cut off first
        for bound in (start, end, step):
            check_number(bound, _INT64)
        if not _has_sizes(start, end, step):
            start, end, step = int(start), int(end), int(step)
    elif target.kind in "fV" and target.itemsize == 2:
        for bound in (start, end, step):
            check_factor(bound, target)
    _check_range(start, end, step)
    if _has_sizes(start, end, step):
        length = count_of(start, end, step)  # the same of integers, which stay exact
    else:
        length = math.ceil((end - start) / step) if step != 1 else math.ceil(end - start)
    if not is_symbolic(length) and length >= 2**63:
        raise RuntimeError("invalid size, possible overflow?")
    return _counted(start, step, length, target)


@factory
def range(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """``arange`` with ``end`` included and of the default float type: deprecated in PyTorch, too."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
        "[start, end).",
        UserWarning,
        stacklevel=3,
    )
    bounds = (start,) if end is None else (start, end, step)
    start, end, step = _bounds("range", bounds, 0, None, 1)
    _check_range(start, end, step)
    length = math.floor((end - start) / step) + 1
    target = dt.to_numpy(dtype or get_default_dtype())
    assert target is not None
    return _counted(start, step, length, target)


def _bounds(name: str, given: tuple, start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """(start, end, step) from one, two or three positional bounds and the keywords."""
    if len(given) == 1:
        if end is not None:  # arange(2, end=5)
            start = given[0]
        else:
            end = given[0]
    elif given:
        start, end, step = (*given, step) if len(given) == 2 else given
    if end is None or len(given) > 3:
        told = ", ".join(type(b).__name__ for b in given)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({told}), but expected "
            "(Number end) or (Number start, Number end, Number step = 1)"
        )
    return number(start), number(end), number(step)


def _check_range(start: Any, end: Any, step: Any) -> None:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not ((type(start) is Dim or math.isfinite(start)) and (type(end) is Dim or math.isfinite(end))):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _has_sizes(start: Any, end: Any, step: Any) -> bool:
    """Whether these are integers, some of which are symbols."""
    kinds = (type(start), type(end), type(step))
    return Dim in kinds and all(kind in (int, Dim) for kind in kinds)


def _counted(start: Any, step: Any, length: int, target: np.dtype) -> Tensor:
    """start + step * k, in int64 or float64, rounded once to the target."""
    ints = target.kind in "iu"
    if ints and not _has_sizes(start, start, step):
        start, step = int(start), int(step)
    exact = target if target == _FLOAT64 else _INT64 if ints else _FLOAT64
    plain = start == 0 and step == 1
    xp = op_module.CONTEXT.get().xp
    line = wrap(xp.iota(shape=(length,), axis=0, dtype=target if plain else exact))
    if step != 1:
        line = line * step
    if start != 0:
        line = line + start
    return APPLY["cast"](line, dtype=target) if line._data.dtype != target else line


@factory
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.linspace.html
    """
    steps = ax.integer("linspace", "steps", steps)
    target = _float_target("linspace", dtype, start, end)
    if target.kind == "b":
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    first, last = (element(number(bound), target) for bound in (start, end))
    moving = is_symbolic(steps) or any(hasattr(bound, "as_runtime_scalar") for bound in (first, last))
    if target == _FLOAT32 and moving:
        return _changing_line(first, last, number(steps))
    return tensor(_line(first, last, number(steps), target))


def _changing_line(start: Any, end: Any, steps: int) -> Tensor:
    """``_line`` in float32 where an end or how many there are changes from call to call."""
    if steps < 2:
        return (
            full((int(steps),), start, dtype=dt.float32)
            if steps >= 0
            else tensor(_line(0, 0, steps, _FLOAT32))
        )
    first, last = (_full((), end, dt.float32) for end in (start, end))
    step: Any = (last - first) / (steps - 1)
    wide = [t.to(dt.float64) for t in (first, last, step)]
    places = arange(steps)
    away = (places.to(dt.float64), (steps - 1 - places).to(dt.float64))
    near, far = wide[0] + wide[2] * away[0], wide[1] - wide[2] * away[1]
    return APPLY["cast"](APPLY["where"](places < steps // 2, near, far), dtype=_FLOAT32)


def _line(start: Any, end: Any, steps: int, target: np.dtype) -> np.ndarray:
    """From both ends to the middle, in the arithmetic of the result: symmetric, and ``end`` exactly."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    kind = target if target.kind in "fc" else _FLOAT64
    if target == dt.BFLOAT16:
        kind = np.dtype(np.float32)
    if target.kind in "iub":
        start, end = int(start), int(end)
    first, last = kind.type(start), kind.type(end)
    if steps <= 1:
        return np.full(steps, first).astype(target)
    places = np.arange(steps)
    step = (last - first) / kind.type(steps - 1)
    wide = _WIDER.get(kind, kind)  # rounded once, as the fused multiply-add of PyTorch's kernel does
    near = wide.type(first) + wide.type(step) * places.astype(wide)
    far = wide.type(last) - wide.type(step) * (steps - 1 - places).astype(wide)
    return np.where(places < steps // 2, near, far).astype(kind).astype(target)


@factory
def logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None) -> Tensor:
    """``base`` to the power of ``steps`` evenly spaced exponents from ``start`` to ``end``.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.logspace.html
    """
    steps = ax.integer("logspace", "steps", steps)
    target = _float_target("logspace", dtype, start, end)
    first, last = number(start), number(end)
    if target.kind in "iub":  # the exponents' ends are of the result's kind, those between need not be
        first, last = int(first), int(last)
    exponents = _line(first, last, number(steps), _FLOAT64)
    return tensor(np.power(float(base), exponents).astype(target))


def _float_target(name: str, dtype: Any, *bounds: Any) -> np.dtype:
    """The dtype asked for, else the default float, complex beside complex bounds."""
    for argument, bound in zip(("start", "end"), bounds, strict=True):
        require_number(number(bound), f"{name}(): argument '{argument}'")
    if dtype is None and any(isinstance(number(b), complex) for b in bounds):
        return get_default_dtype().to_complex().numpy
    target = dt.to_numpy(dtype or get_default_dtype())
    assert target is not None
    return target


FACTORIES: dict[str, Callable[..., Tensor]] = {
    f.__name__: f
    for f in (
        tensor, as_tensor, from_numpy, from_dlpack, scalar_tensor, zeros, ones, empty, full, zeros_like,
        ones_like, empty_like, full_like, empty_strided, arange, range, linspace, logspace, eye,
    )
} | RANDOM  # fmt: skip
__all__ = [*FACTORIES, "FACTORIES"]
