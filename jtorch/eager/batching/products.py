"""Matrix products of batches. A factor that all examples share stays one matrix: the examples' rows (or
columns) stand below each other, and it is one large product instead of many."""

from __future__ import annotations

from typing import Any, NamedTuple

from jtorch.core.op import BY_NAME, ContractionAxes, Op
from jtorch.eager.batching.rules import rule
from jtorch.eager.batching.values import Pending

_DOT_GENERAL = BY_NAME["dot_general"].index


@rule("matmul", "dot_general")
def product(batching: Any, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
    """Any contraction, as the one of ``dot_general`` with the batch axis as one axis more."""
    op = BY_NAME[op.renames or op.name]
    x, y = values
    x_is, y_is = batching.has(x), batching.has(y)
    if x_is and y_is and batching.sums:
        return _put_off(batching, op, x, y, statics)
    if op.name == "matmul" and x_is and ((y_is and x.ndim == y.ndim) or (not y_is and y.ndim == 2)):
        return batching.wrap(batching.table_below[op.index](x.value, y.value if y_is else y))
    assert op.contracted is not None
    axes = op.contracted(x.ndim, y.ndim, **statics)
    return batching.wrap(_product(batching, _with_batch(axes, x_is, y_is), x, y, turned=not x_is))


class _Part(NamedTuple):
    """Axes of the factors by name: those of the result are named in its order."""

    x: tuple[Any, ...]
    y: tuple[Any, ...]
    out: tuple[Any, ...]


def _named(axes: ContractionAxes) -> tuple[dict[int, Any], dict[int, Any], tuple[Any, ...]]:
    """A name for each axis of x, of y, and of the result: axes of one name go together, those that are none
    of the result are summed over."""
    of_x: dict[int, Any] = {}
    of_y: dict[int, Any] = {}
    made: list[Any] = []
    for k, (a, b) in enumerate(axes.batch):
        made.append(("batch", k))
        if a is not None:
            of_x[a] = made[-1]
        if b is not None:
            of_y[b] = made[-1]
    for k, a in enumerate(axes.rows):
        made.append(("row", k))
        of_x[a] = made[-1]
    for k, b in enumerate(axes.columns):
        made.append(("column", k))
        of_y[b] = made[-1]
    for k, (a, b) in enumerate(axes.inner):
        of_x[a] = of_y[b] = ("inner", k)
    return of_x, of_y, tuple(made[k] for k in axes.out)


_EXAMPLES = "examples"


def _with_batch(axes: ContractionAxes, x_is: bool, y_is: bool, summed: bool = False) -> _Part:
    """The axes of the factors, and of the result with the batch axis in front, unless it is summed."""
    of_x, of_y, out = _named(axes)
    x = ((_EXAMPLES,) if x_is else ()) + tuple(of_x[k] for k in range(len(of_x)))
    y = ((_EXAMPLES,) if y_is else ()) + tuple(of_y[k] for k in range(len(of_y)))
    return _Part(x, y, out if summed else (_EXAMPLES, *out))


def _product(batching: Any, part: _Part, x: Any, y: Any, turned: bool = False) -> Any:
    """``turned``: with the factors exchanged, so that the examples are rows."""
    left, right = (batching.as_value(v) for v in (x, y))
    left, right = (v.value if batching.has(v) else v for v in (left, right))
    if turned:
        part, left, right = _Part(part.y, part.x, part.out), right, left
    together = [n for n in part.x if n in part.y and n in part.out]
    inner = [n for n in part.x if n in part.y and n not in part.out]
    made = [*together, *(n for n in part.x if n not in part.y), *(n for n in part.y if n not in part.x)]
    return batching.table_below[_DOT_GENERAL](
        left, right,
        batch=tuple(tuple(map(names.index, together)) for names in (part.x, part.y)),
        inner=tuple(tuple(map(names.index, inner)) for names in (part.x, part.y)),
        order=tuple(made.index(n) for n in part.out),
    )  # fmt: skip


def _put_off(batching: Any, op: Op, x: Any, y: Any, statics: dict[str, Any]) -> Any:
    """A product of each example, of which perhaps only the sum is wanted: that is one product, over the
    examples, too."""
    assert op.contracted is not None and op.shape is not None
    axes = op.contracted(x.ndim, y.ndim, **statics)
    shape = tuple(op.shape(tuple(x.shape), tuple(y.shape), **statics))

    def one_by_one() -> Any:
        return _product(batching, _with_batch(axes, True, True), x, y)

    def summed() -> Any:
        return _product(batching, _with_batch(axes, True, True, summed=True), x, y)

    return Pending(batching.axis, x.dtype, shape, one_by_one, summed)
