"""From an update op to the parameters of a group: raw values in, memory overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jtorch.core import op
from jtorch.eager.tensor import Tensor

_NEG = op.BY_NAME["neg"].index


def update_each(
    states: Mapping[Tensor, dict[str, Any]],
    group: dict[str, Any],
    context: op.Context,
    index: int,
    names: Sequence[str | None],
    numbers: Sequence[Any],
    params: Iterable[Tensor] | None = None,
    **statics: Any,
) -> None:
    """Run the update op number ``index`` on each parameter of a group that has a gradient.

    The op takes (parameter, gradient, state..., numbers...) and returns (parameter, state...); ``names``
    are those of the state, None where an option leaves one out; ``params`` are some of the group's.
    """
    evaluator, table = context.evaluator, context.table
    function, negate, write = table[index], table[_NEG], evaluator.write
    maximize = evaluator.option(group, "maximize")
    for p, g in with_gradients(evaluator, group["params"] if params is None else params):
        state = states[p]
        tensors: list[Any] = [state[name] if name else _NOTHING for name in names]
        raw = [t._data for t in tensors]
        values = function(p._data, negate(g) if maximize else g, *raw, *numbers, **statics)
        for tensor, value in zip((p, *tensors), values, strict=True):
            if tensor is not _NOTHING:
                write(tensor, value)
                tensor._cell[0] += 1  # as overwrite does, without a call for each piece of state


class _Nothing:
    """In the place of a piece of state that an option leaves out."""

    _data = 0.0


_NOTHING = _Nothing()


def overwrite(evaluator: op.Evaluator, tensor: Tensor, value: Any) -> None:
    """Write a raw value over a tensor's memory: ``copy_`` for where shape, dtype and tape are known."""
    evaluator.write(tensor, value)
    tensor._cell[0] += 1


def with_gradients(evaluator: op.Evaluator, params: Iterable[Tensor]) -> Iterator[tuple[Tensor, Any]]:
    """(parameter, raw gradient) of those that have one."""
    for p in params:
        g = evaluator.get_grad(p)
        if g is not None:
            yield p, g._data
