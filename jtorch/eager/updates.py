"""What optimizers do to parameters: raw values go through an update op, memory is overwritten.

An update op takes (parameter, gradient, state..., numbers...) and returns (parameter, state...): see
``ops/update.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.core import op
from jtorch.core.device_array import DeviceArray
from jtorch.core.op import BY_NAME
from jtorch.eager.duals import refuse_written
from jtorch.eager.rebase import NOTED, tell_noted
from jtorch.eager.sixteen_bits import HALVES
from jtorch.eager.sparse_gradient import SparseGradientError
from jtorch.eager.tensor import Tensor

_NEG, _MUL, _CAST = (BY_NAME[name].index for name in ("neg", "mul", "cast"))
_FLOAT32 = np.dtype(np.float32)


def update_each(
    states: Mapping[Tensor, dict[str, Any]],
    group: dict[str, Any],
    context: op.Context,
    name: str,
    pieces: Sequence[str | None],
    numbers: Sequence[Any],
    params: Iterable[Tensor] | None = None,
    on_sparse: Callable[[Tensor, Any], Tensor | None] | None = None,
    **statics: Any,
) -> None:
    """Run the update op called ``name`` on each parameter of a group that has a gradient.

    ``pieces`` name the state, None where an option leaves one out; ``params`` are some of the group's. A
    sparse gradient goes to ``on_sparse(parameter, gradient)``, which gives a dense one to go on with, or
    None where it has made the update; without it that is an error.
    """
    evaluator, table = context.evaluator, context.table
    function, negate, write = table[BY_NAME[name].index], table[_NEG], evaluator.write
    maximize = evaluator.option(group, "maximize")
    for p in group["params"] if params is None else params:
        grad = evaluator.get_grad(p)
        if grad is None:
            continue
        if context.level is not None:
            refuse_written(p)
        try:
            g = grad._data
        except SparseGradientError:
            if on_sparse is None:
                raise
            grad = on_sparse(p, grad)
            if grad is None:
                continue
            g = grad._data
        if maximize:
            g = negate(g)
        if p._data.dtype in HALVES:
            _update_half(context, p, g, states.get(p), function, pieces, numbers, statics)
            continue
        if not pieces:
            write(p, function(p._data, g, *numbers, **statics))
            _advance(p._cell)
            continue
        state = states[p]
        if p._data.__class__ is DeviceArray and p.is_meta:  # no elements to update, and no step to count
            continue
        tensors: list[Any] = [state[piece] if piece else _NOTHING for piece in pieces]
        raw = [t._data for t in tensors]
        values = function(p._data, g, *raw, *numbers, **statics)
        for tensor, value in zip((p, *tensors), values, strict=True):
            if tensor is not _NOTHING:
                write(tensor, value)
                _advance(tensor._cell)


def _advance(cell: list) -> None:
    """The memory of ``cell`` was written to."""
    cell[0] += 1
    if NOTED:
        tell_noted(cell)


def _update_half(
    context: op.Context, p: Tensor, g: Any, state: Any, function: Any, pieces: Sequence[str | None],
    numbers: Sequence[Any], statics: dict[str, Any],
) -> None:  # fmt: skip
    """The same for a parameter of 16 bits: computed in float32, and what is written is rounded once, as
    PyTorch's ``fused=True`` does. An eps of 1e-8 would be 0, and the square of a gradient of 300 infinite."""
    cast = context.table[_CAST]

    def wide(data: Any) -> Any:
        return cast(data, dtype=_FLOAT32) if getattr(data, "dtype", None) in HALVES else data

    tensors: list[Any] = [p, *(state[piece] if piece else _NOTHING for piece in pieces)]
    raw = [wide(t._data) for t in tensors]
    values = function(raw[0], wide(g), *raw[1:], *map(wide, numbers), **statics)
    for tensor, value in zip(tensors, values if pieces else (values,), strict=True):
        if tensor is not _NOTHING:
            context.evaluator.write(tensor, cast(value, dtype=tensor._data.dtype))
            _advance(tensor._cell)


class _Nothing:
    """In the place of a piece of state that an option leaves out."""

    _data = 0.0


_NOTHING = _Nothing()


def fill(context: op.Context, tensor: Tensor, number: float) -> None:
    """Overwrite all elements: ``fill_`` for where the tape is known to be off."""
    data = tensor._data
    xp = context.evaluator.namespace(data)
    context.evaluator.write(tensor, xp.full(number, shape=data.shape, dtype=data.dtype))
    _advance(tensor._cell)


def scaled(context: op.Context, tensor: Tensor, factor: Any) -> Any:
    """``tensor * factor`` as one of the numbers of an update."""
    return context.table[_MUL](tensor._data, factor)


# -- of some elements alone ------------------------------------------------------------------------------


def add_at(tensor: Tensor, places: tuple[Tensor, ...], values: Tensor) -> None:
    """Add ``values`` to the elements at ``places`` in place, one after the other; off the tape."""
    data = tensor._data
    if data.__class__ is np.ndarray and data.flags.writeable:
        np.add.at(data, _places(places), values._data)  # the others are not even read
        _advance(tensor._cell)
    else:
        tensor.index_put_(places, values, accumulate=True)


def put_at(tensor: Tensor, places: tuple[Tensor, ...], values: Tensor) -> None:
    """Overwrite the elements at ``places``, each of which is there once; off the tape."""
    data = tensor._data
    if data.__class__ is np.ndarray and data.flags.writeable:
        data[_places(places)] = values._data
        _advance(tensor._cell)
    else:
        tensor.index_put_(places, values)


def _places(places: tuple[Tensor, ...]) -> Any:
    """One index where one is enough: NumPy is faster then."""
    return places[0]._data if len(places) == 1 else tuple(p._data for p in places)
