"""The gradient of ``as_strided`` where its input has not all of the places, or not side by side.

The gradient is put into memory as the result lies in it, and what lies there where the input is, is the
input's. Where several elements of the input are one place, each gets its share of that place's.

Source: PyTorch's ``as_strided_backward``, torch/csrc/autograd/FunctionsManual.cpp
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.strides import is_crowded
from jtorch.eager.binding import APPLY
from jtorch.eager.creation import ones
from jtorch.eager.function import Function
from jtorch.eager.storage import storage_offset
from jtorch.eager.tensor import Tensor

_Places = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides, offset, in elements


class AsStrided(Function):
    """``window()``, the elements of the memory of ``input`` at other places."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, window: Callable, size: tuple, stride: tuple, start: int) -> Tensor:
        ctx.given = tuple(input.shape), input.stride(), storage_offset(input)
        ctx.taken = size, stride, start
        return window()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _moved(grads[0], ctx.taken, ctx.given, ctx.given), None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        tangent, first = tangents[0], ctx.taken[2] - ctx.given[2]
        if tangent.stride() == ctx.given[1]:  # it lies in a tangent of what ``input`` is a part of
            place = storage_offset(tangent) + first
            end = _end((*ctx.taken[:2], place))
            if place >= 0 and end * tangent.element_size() <= tangent.untyped_storage().nbytes():
                return tangent.as_strided(*ctx.taken[:2], place)
        return _moved(tangent, ctx.given, ctx.taken, ctx.given)


def _moved(values: Tensor, source: _Places, target: _Places, shared: _Places) -> Tensor:
    """``values`` put at the places ``source`` of empty memory, as that then has them at ``target``. A place
    that several elements of ``shared`` have is divided by their number."""
    first = min(source[2], target[2])
    n = max(_end(source), _end(target)) - first
    placed = _put(values, source, first, n)
    if is_crowded(*shared[:2]):
        count = _put(ones(*shared[0], dtype=values.dtype, device=values.device), shared, first, n)
        placed = placed / (count + (count == 0))
    size, steps, start = target
    return APPLY["strided"](placed, size=size, steps=steps, start=start - first)


def _put(values: Tensor, places: _Places, first: int, n: int) -> Tensor:
    _, steps, start = places
    return APPLY["strided_add"](values, n=n, steps=steps, start=start - first)


def _end(places: _Places) -> int:
    """The number of elements of memory up to the last place."""
    size, steps, start = places
    return start if 0 in size else start + 1 + sum((n - 1) * s for n, s in zip(size, steps, strict=True))
