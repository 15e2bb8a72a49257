"""What optimizers do to parameters: raw values go through an update op, memory is overwritten.

An update op takes (parameter, gradient, state..., numbers...) and returns (parameter, state...): see
``ops/update.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jtorch.core import op
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import Tensor

_NEG, _MUL = BY_NAME["neg"].index, BY_NAME["mul"].index


def update_each(
    states: Mapping[Tensor, dict[str, Any]],
    group: dict[str, Any],
    context: op.Context,
    name: str,
    pieces: Sequence[str | None],
    numbers: Sequence[Any],
    params: Iterable[Tensor] | None = None,
    **statics: Any,
) -> None:
    """Run the update op called ``name`` on each parameter of a group that has a gradient.

    ``pieces`` name the state, None where an option leaves one out; ``params`` are some of the group's.
    """
    evaluator, table = context.evaluator, context.table
    function, negate, write = table[BY_NAME[name].index], table[_NEG], evaluator.write
    maximize = evaluator.option(group, "maximize")
    for p in group["params"] if params is None else params:
        grad = evaluator.get_grad(p)
        if grad is None:
            continue
        g = negate(grad._data) if maximize else grad._data
        if not pieces:
            write(p, function(p._data, g, *numbers, **statics))
            p._cell[0] += 1
            continue
        state = states[p]
        tensors: list[Any] = [state[piece] if piece else _NOTHING for piece in pieces]
        raw = [t._data for t in tensors]
        values = function(p._data, g, *raw, *numbers, **statics)
        for tensor, value in zip((p, *tensors), values, strict=True):
            if tensor is not _NOTHING:
                write(tensor, value)
                tensor._cell[0] += 1


class _Nothing:
    """In the place of a piece of state that an option leaves out."""

    _data = 0.0


_NOTHING = _Nothing()


def fill(context: op.Context, tensor: Tensor, number: float) -> None:
    """Overwrite all elements: ``fill_`` for where the tape is known to be off."""
    data = tensor._data
    context.evaluator.write(tensor, context.xp.full(number, shape=data.shape, dtype=data.dtype))
    tensor._cell[0] += 1


def scaled(context: op.Context, tensor: Tensor, factor: Any) -> Any:
    """``tensor * factor`` as one of the numbers of an update."""
    return context.table[_MUL](tensor._data, factor)
