"""Gradients of tables of which some rows were looked up: these rows, with their numbers.

``RowsGradient`` goes through a backward pass beside arrays, as raw values do, from the lookup to the leaf,
where it becomes a ``sparse.SparseTensor``. Two of them added up are one again; with an array, an array.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jtorch.core import higher, op as op_module
from jtorch.core.op import BY_NAME
from jtorch.eager.evaluate import EAGER
from jtorch.eager.node import Node, node_class
from jtorch.eager.tensor import Tensor, wrap

_WAY_OUT = (
    "Look rows up outside of the compiled function, or leave sparse=True out: the gradient is dense then."
)


class SparseGradientError(RuntimeError, AttributeError):
    """Where a dense gradient is needed. An AttributeError, too: who asks for memory is told no."""


class RowsGradient:
    """Zeros of ``shape`` but for ``rows`` (n, width), added up where ``ids`` (n,) say. Raw values."""

    __slots__ = ("ids", "rows", "shape")

    def __init__(self, ids: Any, rows: Any, shape: tuple[int, ...]) -> None:
        self.ids, self.rows, self.shape = ids, rows, shape

    dtype = property(lambda self: self.rows.dtype)

    def __add__(self, other: Any) -> Any:
        if other.__class__ is not RowsGradient:
            return self.__radd__(other)
        return RowsGradient(_joined(self.ids, other.ids), _joined(self.rows, other.rows), self.shape)

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return self.add_to(other.copy())
        return wrap(other).index_add(0, wrap(self.ids), wrap(self.rows))._data

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *operands: Any, **options: Any) -> Any:
        """``array + this`` and ``np.add(array, this, array)``: all that the engine asks for."""
        (into,) = options.get("out", (None,))
        if ufunc is not np.add or method != "__call__" or operands[1] is not self:
            return NotImplemented
        return self.__radd__(operands[0]) if into is None else self.add_to(into)

    def add_to(self, array: np.ndarray) -> np.ndarray:
        """Added to ``array`` in place, row after row, as PyTorch does."""
        np.add.at(array, self.ids, self.rows)
        return array

    def as_tensor(self) -> Any:
        """The same as a COO tensor with one sparse dim."""
        assert higher.sparse is not None
        ids = wrap(self.ids).unsqueeze(0)
        return higher.sparse().SparseTensor(ids, wrap(self.rows), self.shape, len(self.ids) < 2)


def _joined(a: Any, b: Any) -> Any:
    assert higher.named is not None
    return higher.named("cat")([wrap(a), wrap(b)])._data


def from_tensor(gradient: Any) -> Any:
    """The raw value of what a hook gives for a sparse gradient."""
    if gradient.sparse_dim() != 1:
        raise SparseGradientError(f"a gradient by rows has 1 sparse dim, got {gradient.sparse_dim()}")
    return RowsGradient(gradient._indices()[0]._data, gradient._values()._data, tuple(gradient.shape))


def accumulated(before: Any, g: RowsGradient, evaluator: Any, given: set[int]) -> Any:
    """The gradient of a leaf that had none, or ``before``, a sparse one that ``g`` is added to in place."""
    rows = evaluator.own(g.rows, given)  # not the memory of a gradient that somebody else holds
    new = RowsGradient(g.ids, rows, g.shape).as_tensor()
    return new if before is None else before._take(before + new)


# -- lookups ---------------------------------------------------------------------------------------------


def by_rows(looked_up: Tensor) -> Tensor:
    """``looked_up``, the result of ``embedding``, with a sparse gradient where its table is a leaf.

    In compiled code it is refused. Where anything else is between the two (autocast, a mapped axis, a table
    that was computed) its gradient stays dense.
    """
    if not looked_up._requires_grad:
        return looked_up
    op_module.CONTEXT.get().evaluator.refuse("looks up rows with sparse=True", _WAY_OUT)
    node: Any = looked_up._node
    plain: Any = node_class(BY_NAME["embedding"])
    if node.__class__ is plain and isinstance(node.edges[0][0], Tensor):
        looked_up._node = _sparse_class()(node.edges, node.saved, node.versions, node.metadata)
    return looked_up


@functools.cache
def _sparse_class() -> type[Node]:
    made = node_class(BY_NAME["embedding"])
    return type(made.__name__, (made,), {"__slots__": (), "__module__": __name__, "backward": _backward})


def _backward(node: Node, xp: Any, g: Any) -> Any:
    """What the lookup gives its table: the rows of ``g`` with the numbers they were looked up by."""
    shape, places, padding, by_frequency = node.check_saved()
    if by_frequency:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if op_module.CONTEXT.get().evaluator is not EAGER:
        return node.vjp(xp, g, shape, places, padding, by_frequency)
    ids, rows = wrap(places).reshape(-1).long(), wrap(g).reshape(-1, shape[1])
    if padding is not None:
        counts = ids != padding
        ids, rows = ids[counts], rows[counts]
    return RowsGradient(ids.clone()._data, rows._data, tuple(shape)), None
