"""The gradient of a function that is mapped: one node on the tape outside for all results of a call.

Its backward plays the tape that the call left inside, under the same batch axis. That pass ends where the
tape leaves the call: at tensors that were mapped over, whose gradients are batches, and at those that all
examples share, which get the sum over the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jtorch.core import op as op_module
from jtorch.eager.batching.boundary import Crossing, from_front, is_inside, to_front
from jtorch.eager.batching.values import Batched, MappedAxis, Pending
from jtorch.eager.engine import Run
from jtorch.eager.node import BACKWARD_TWICE, Node
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import WATCHERS, look_at


class Target(NamedTuple):
    """Where a gradient leaves the call: which tensor inside asks for it, where it goes outside, and which dim
    is the batch there; None where all examples share it."""

    inside: Tensor
    edge: Any
    dim: int | None


def hang(
    crossing: Crossing, inside: Sequence[Tensor], dims: Sequence[int], outside: Sequence[Tensor]
) -> None:
    """Put results on the tape outside: ``outside`` are those ``inside``, with the batch at ``dims``."""
    targets, is_linear = _targets(crossing, inside)
    if not targets:
        return
    evaluator = op_module.CONTEXT.get().evaluator
    batched = [t._data for t in outside if isinstance(t._data, Batched)]
    for tensor in outside:  # under another vmap all of them are of each example there, or none is
        for data in batched:
            tensor._data = evaluator.like(tensor._data, data)
    metadata = [(t._data.shape, t._data.dtype) for t in outside]
    node = VmapNode(tuple(t.edge for t in targets), None, (), metadata)
    node.saved = _Saved(crossing, tuple(inside), tuple(dims), tuple(targets))
    node.linear = is_linear
    if WATCHERS:
        look_at(node)
    for k, tensor in enumerate(outside):
        tensor._node, tensor._index, tensor._requires_grad = node, k, True


def _targets(crossing: Crossing, tensors: Sequence[Tensor]) -> tuple[list[Target], bool]:
    """Where the tape below ``tensors`` leaves the call, and whether ops alone lie in between."""
    is_linear = True
    found: dict[tuple[int, int], Target] = {}
    seen: set[Any] = set()
    stack = [t._node for t in tensors if t._node is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        is_linear = is_linear and (node.linear or not node.foreign)
        for edge in node.edges:
            if edge is None:
                continue
            target, index = edge
            if is_inside(target, crossing.axis):
                stack.append(target)
            elif isinstance(target, Node):
                key = id(target), index
                found.setdefault(key, Target(wrap(_no_value(target, index), edge), edge, None))
            elif id(target) in crossing.entered:
                entry = crossing.entered[id(target)]
                if entry.edge is not None:
                    found.setdefault((id(target), 0), Target(target, entry.edge, entry.dim))
            elif not crossing.is_batched(target):
                found.setdefault((id(target), 0), Target(target, edge, None))
    return list(found.values()), is_linear


class _NoValue:
    """What a tensor has that stands for a place on the tape alone."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def _no_value(node: Node, index: int) -> _NoValue:
    return _NoValue(*(node.metadata[index] if isinstance(node.metadata, list) else node.metadata))


class _Saved(NamedTuple):
    """What the node keeps: the call, its results inside and where their batches are outside, and the
    targets, one for each edge."""

    crossing: Crossing
    results: tuple[Tensor, ...]
    dims: tuple[int, ...]
    targets: tuple[Target, ...]


class VmapNode(Node):
    """The tape's node of one call of a function that is mapped."""

    __slots__ = ("linear",)
    foreign = True
    materializes = False
    linear: bool

    def name(self) -> str:
        return "VmapBackward0"

    def backward(self, xp: Any, g: Any) -> Any:
        crossing, results, dims, targets = self.check_saved()
        with crossing.inside(sums=True) as batching:
            seeds = [
                None if part is None else wrap(Batched(to_front(batching.below, part, d), crossing.axis))
                for part, d in zip(g, dims, strict=True)
            ]
            found = _play(crossing.axis, results, seeds, targets, create_graph=False)
            return tuple(_outside(batching, p, t.dim) for p, t in zip(found, targets, strict=True))

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        """The same pass with a graph: one more call of a function that is mapped, of gradients and of what
        entered the first one."""
        before, results, dims, targets = self.check_saved()
        crossing = Crossing(before.axis, before.entered)
        seeds = [None if p is None else crossing.enter(p, d) for p, d in zip(g, dims, strict=True)]
        with crossing.inside(grad=True):
            found = _play(crossing.axis, results, seeds, targets, create_graph=True)
        there = [(k, t) for k, t in enumerate(found) if t is not None]
        left = crossing.leave([t for _, t in there], [targets[k].dim or 0 for k, _ in there])
        grads: list[Tensor | None] = [None] * len(targets)
        for (k, _), made in zip(there, left, strict=True):
            grads[k] = made.sum(0) if targets[k].dim is None else made
        return tuple(grads)

    def check_saved(self) -> Any:
        if self.saved is None:
            raise RuntimeError(BACKWARD_TWICE)
        return self.saved


def _play(
    axis: MappedAxis, results: Sequence[Tensor], seeds: Sequence[Any], targets: Sequence[Target],
    create_graph: bool,
) -> list[Any]:  # fmt: skip
    given = [(r, s) for r, s in zip(results, seeds, strict=True) if s is not None]
    run = InnerRun(axis, targets, create_graph)
    return run.play([r for r, _ in given], [s for _, s in given], [t.inside for t in targets])


def _outside(batching: Any, value: Any, dim: int | None) -> Any:
    """A gradient as what it is for a tensor outside, whose sum over the examples was made on its way."""
    if value is None or dim is None:
        return value
    return from_front(batching.below, batching.whole(value), dim)


class InnerRun(Run):
    """A pass over the tape of one call. It looks at nothing beyond: the targets' hooks are called outside."""

    def __init__(self, axis: MappedAxis, targets: Sequence[Target], create_graph: bool) -> None:
        super().__init__(create_graph, True)
        self.batching = op_module.CONTEXT.get().evaluator
        self.ends = {t.inside._node or t.inside for t in targets}
        self.shared = {t.inside._node or t.inside for t in targets if t.dim is None}

    def _visit(self, node: Node, g: Any) -> Any:
        if node in self.ends:
            self._capture(node, g)
            return (None,) * len(node.edges)
        grads = super()._visit(node, g)
        if self.on_tensors:
            return grads
        parts = grads if grads.__class__ is tuple else (grads,)
        return tuple(
            self._summed(p) if p is not None and edge is not None and edge[0] in self.shared else p
            for p, edge in zip(parts, node.edges, strict=False)
        )

    def _finish_leaf(self, leaf: Tensor, g: Any) -> None:
        for _, k in (self.captures or {}).get(leaf, ()):
            self.captured[k] = g

    def _summed(self, part: Any) -> Any:
        """The sum of a gradient over the examples."""
        batching: Any = self.batching
        if part.__class__ is Pending and part.axis is batching.axis:
            return part.summed()
        return batching.xp_below.sum(batching.whole(part), axis=(0,), keepdims=False)
