"""What all factories share: the keywords that say where, how and into what a tensor is made.

Source: https://docs.pytorch.org/docs/stable/torch.html#creation-ops
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from jtorch.core import devices, dtypes as dt, memory_formats as formats, op as op_module
from jtorch.core.number_ranges import number_type
from jtorch.core.sizes import has_negative
from jtorch.eager.binding import into
from jtorch.eager.messages import long_name
from jtorch.eager.meta import without_elements
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax

# of as many numbers as ``out`` has elements, whatever its shape: they fill it in order
_LINES = frozenset({"arange", "linspace", "logspace", "range"})


def factory(core: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``core(..., dtype=...)`` with the keywords of every factory.

    ``out`` takes the result, ``device`` and ``layout`` must be ones this build has (the CPU, strided),
    ``requires_grad`` starts recording on the result. One that names ``memory_format`` gets its result in it.
    """
    name = core.__name__
    takes_order = "memory_format" in inspect.signature(core).parameters
    is_like = name.endswith("_like")  # of a tensor, and where that is

    @functools.wraps(core)
    def made(
        *args: Any,
        out: Tensor | None = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: Any,
    ) -> Tensor:
        place = devices.chosen(device)
        if layout is not None or pin_memory:
            check_layout(layout, pin_memory, name)
        if is_like and device is not None and args and args[0].device != place:
            args = (_outline(args[0]), *args[1:])
        if place is devices.META and out is None:
            with without_elements():
                result = core(*args, dtype=dtype, **named)
            return result.requires_grad_() if requires_grad else result
        if out is not None:
            dtype = _of_out(out, dtype)
            result = core(*args, dtype=dtype, **named)
            if name in _LINES and result._data.size == out._data.size:
                result = result.reshape(out.shape)
            result = into(out, result, name)
        else:
            if place is devices.CPU:
                result = core(*args, dtype=dtype, **named)
            else:
                result = _at(place, core, *args, dtype=dtype, **named)
            if place is not devices.CPU and (device is not None or not is_like):
                result = result.to(place)
        if takes_order and "memory_format" in named:
            order = formats.asked(named["memory_format"], f"{name}()")
            result = result if order is None else result.contiguous(memory_format=order)
        result = result.pin_memory() if pin_memory else result
        return result.requires_grad_() if requires_grad else result

    return made


def _at(place: Any, core: Callable, *args: Any, **named: Any) -> Tensor:
    """What ``core`` makes, which may draw it on ``place``."""
    before = PLACE.set(place)
    try:
        return core(*args, **named)
    finally:
        PLACE.reset(before)


PLACE: ContextVar[Any] = ContextVar("jtorch_place", default=devices.CPU)
"""Where the factory that runs puts its result: draws may be made there."""


def _outline(tensor: Tensor) -> Tensor:
    """The shape and dtype of a tensor that is somewhere else, on the host."""
    return wrap(np.broadcast_to(np.zeros((), tensor._data.dtype), tensor.shape))


def like(input: Tensor, made: Tensor) -> Tensor:
    """``made``, of each example of a batch where ``input`` is one."""
    data = input._data
    if data.__class__ is np.ndarray:
        return made
    value = op_module.CONTEXT.get().evaluator.like(made._data, data)
    return made if value is made._data else wrap(value).requires_grad_(made._requires_grad)


def check_layout(layout: Any, pin_memory: bool, name: str) -> None:
    """Raise for what memory can't be here: sparse, or pinned where there is no device."""
    if layout is not None and layout is not formats.strided:
        raise NotImplementedError(f"{name}(): layout={layout}: jtorch's tensors are strided")
    if pin_memory and not devices.cuda_is_available():
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is "
            "available on this system."
        )


def _of_out(out: Tensor, dtype: Any) -> dt.dtype:
    wanted = dt.to_numpy(dtype)
    if wanted is not None and wanted != out._data.dtype:
        raise RuntimeError(
            f"dtype {long_name(wanted)} does not match dtype of out tensor ({long_name(out._data.dtype)})"
        )
    return out.dtype


def sizes(given: tuple, named: Any, name: str) -> tuple[int, ...]:
    """The shape from ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``, or PyTorch's TypeError."""
    if named is not None:
        if given:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        given = (named,)
    if not given:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    try:
        shape = ax.sizes(given)
    except (AttributeError, TypeError):
        raise TypeError(_not_ints(given, name)) from None
    if has_negative(shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def size_named(named: dict[str, Any], name: str) -> Any:
    """``size`` among the keywords: the only one that may be there."""
    size = named.pop("size", None)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    return size


def size_tuple(given: Any, name: str) -> tuple[int, ...]:
    """The shape where only a tuple will do."""
    if hasattr(given, "__index__"):
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(given).__name__}"
        )
    return sizes((given,), None, name)


def _not_ints(given: tuple, name: str) -> str:
    place = f"{name}(): argument 'size' (position 1) must be tuple of ints"
    if len(given) == 1 and not isinstance(given[0], (tuple, list)):
        return f"{place}, not {type(given[0]).__name__}"
    entries = given[0] if len(given) == 1 else given
    kinds = [number_type(v) for v in entries]
    others = ((k, c) for k, c in enumerate(kinds) if c is bool or c is float or not hasattr(c, "__index__"))
    k, wrong = next(others)
    return f"{place}, but found element of type {wrong.__name__} at pos {k}"


def number(value: Any) -> Any:
    """A bound as a Python number: from a number, a tensor of one element or one of NumPy's."""
    return value.item() if isinstance(value, (Tensor, np.generic)) else value
