"""Tensors on their way into a function that is mapped, and out of it.

Inside, a tensor that is mapped over is a leaf of its own over a batched value. Outside, all results together
have one node on the tape, see ``gradient.py``; those that no example has a part in are the tensors that they
are, repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jtorch.core import op as op_module
from jtorch.core.op import Evaluator
from jtorch.eager.batching.evaluator import Batching
from jtorch.eager.batching.values import Batched, MappedAxis
from jtorch.eager.duals import KEY, beneath, tangent_of
from jtorch.eager.node import Node
from jtorch.eager.rebase import edge_of
from jtorch.eager.tensor import Tensor, wrap

TRACKED = (
    "vmap: a tensor that is mapped over was changed in place with values that require grad, which the tensor "
    "outside cannot follow: change its clone(), or map over one that requires no grad with values of none."
)
DUAL_WRITTEN = (
    "vmap: a tensor that is mapped over was changed in place, and forward mode can't follow that to the "
    "tensor outside: change its clone()."
)
DUAL_APART = (
    "vmap: examples differ in the tangent of a result, but not in its value: return its tangent, "
    "unpack_dual(result).tangent."
)


class Entered(NamedTuple):
    """A tensor inside, what it is outside, and which of its dims is mapped over there."""

    inside: Tensor
    outside: Tensor
    edge: Any
    dim: int


class Crossing:
    """One call of a function that is mapped, over ``axis``. What ``entered`` is known to all passes that go
    back through it, too."""

    def __init__(self, axis: MappedAxis, entered: dict[int, Entered] | None = None) -> None:
        self.axis = axis
        self.entered: dict[int, Entered] = {} if entered is None else dict(entered)
        self.tangents: dict[int, Tensor] = {}  # that entered

    @contextmanager
    def inside(self, grad: bool | None = None, sums: bool = False) -> Iterator[Batching]:
        """Ops of the block are of all examples."""
        before = op_module.CONTEXT.get()
        batching = Batching(self.axis, before.evaluator, sums)
        try:  # before the change: Ctrl-C may come right after it
            op_module.CONTEXT.set(before.replace(evaluator=batching, grad=grad))
            yield batching
        finally:
            op_module.CONTEXT.set(before)

    def enter(self, tensor: Tensor, dim: int) -> Tensor:
        """What ``tensor``, mapped over ``dim``, is inside."""
        evaluator = op_module.CONTEXT.get().evaluator
        made = wrap(Batched(to_front(evaluator, evaluator.as_value(tensor._data), dim), self.axis))
        made._cell = tensor._cell
        made._requires_grad = tensor._requires_grad
        if (tangent := tangent_of(tensor)) is not None:
            op_module.CONTEXT.get().level.give(made, self.enter(tangent, dim))
            self.tangents[id(made)] = made.__dict__[KEY].value
        self.entered[id(made)] = Entered(made, tensor, edge_of(tensor), dim)
        return made

    def is_batched(self, tensor: Tensor) -> bool:
        """Whether examples differ in it."""
        return isinstance(tensor._data, Batched) and tensor._data.axis is self.axis

    def leave(self, tensors: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
        """What ``tensors`` are outside, the batch at ``dims``; those that are no example's are the same."""
        from jtorch.eager.batching.gradient import hang

        if op_module.CONTEXT.get().level is not None:
            return self._leave_at_level(tensors, dims)
        self._check_entered()
        found = [self._left(t, d) for t, d in zip(tensors, dims, strict=True)]
        hung = [
            (t, d, made) for t, d, made in zip(tensors, dims, found, strict=True)
            if self.is_batched(t) and t._requires_grad and id(t) not in self.entered
        ]  # fmt: skip
        if hung:
            hang(self, *zip(*hung, strict=True))
        return found

    def _leave_at_level(self, tensors: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
        """The same, with the tangents that some of them have."""
        context = op_module.CONTEXT.get()
        for key, entry in self.entered.items():
            cell = entry.inside.__dict__.get(KEY)
            if (None if cell is None else cell.value) is not self.tangents.get(key):
                raise RuntimeError(DUAL_WRITTEN)
        with self.inside():
            tangents = [tangent_of(t) for t in tensors]
        there = [(k, t) for k, t in enumerate(tangents) if t is not None]
        if any(dims[k] is None and self.is_batched(t) for k, t in there):
            raise RuntimeError(DUAL_APART)
        with beneath(context):
            left = self.leave([*tensors, *(t for _, t in there)], [*dims, *(dims[k] for k, _ in there)])
        for (k, _), tangent in zip(there, left[len(tensors) :], strict=True):
            if left[k] is not tensors[k]:
                context.level.give(left[k], tangent)
        return left[: len(tensors)]

    def _check_entered(self) -> None:
        for entry in self.entered.values():
            if entry.inside._node is not None:
                raise RuntimeError(TRACKED)

    def _left(self, tensor: Tensor, dim: int | None) -> Tensor:
        if not self.is_batched(tensor):
            return tensor if dim is None else self._repeated(tensor, dim)
        assert dim is not None
        known = self.entered.get(id(tensor))
        if known is not None:
            return known.outside.movedim(known.dim, dim)
        evaluator = op_module.CONTEXT.get().evaluator
        value = from_front(evaluator, tensor._data.value, dim)
        if not tensor._requires_grad:
            made = wrap(value)
            made._cell = tensor._cell
            return made
        # no view of the tensor that it was made of: the tape would not follow writes
        aliases = any(entry.outside._cell is tensor._cell for entry in self.entered.values())
        return wrap(evaluator.xp.clone(value) if aliases else value)

    def _repeated(self, tensor: Tensor, dim: int) -> Tensor:
        shape = list(tensor.shape)
        shape.insert(dim, self.axis.size)
        return tensor.unsqueeze(dim).expand(shape)


def holds(tensor: Tensor) -> bool:
    """Whether a bool tensor without dims holds: for all examples, where they may differ in it."""
    return bool(wrap(op_module.CONTEXT.get().evaluator.every(tensor._data)))


def to_front(evaluator: Evaluator, value: Any, dim: int) -> Any:
    """``value`` with the axis ``dim`` first."""
    if not dim:
        return value
    return evaluator.xp.permute(value, axes=(dim, *[k for k in range(len(value.shape)) if k != dim]))


def from_front(evaluator: Evaluator, value: Any, dim: int) -> Any:
    """``value`` with its first axis at ``dim``."""
    if not dim:
        return value
    axes = list(range(1, len(value.shape)))
    axes.insert(dim, 0)
    return evaluator.xp.permute(value, axes=tuple(axes))


def is_inside(node: Any, axis: MappedAxis) -> bool:
    """Whether a node of the tape made something that differs from example to example."""
    if not isinstance(node, Node):
        return False
    metadata = node.metadata if isinstance(node.metadata, list) else [node.metadata]
    return any(getattr(shape, "axis", None) is axis for shape, _ in metadata)
