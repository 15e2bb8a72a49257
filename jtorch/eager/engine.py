"""The backward engine: plays the tape in reverse.

Dependencies are counted first, then a stack of ready nodes is worked off: no recursion, so a chain of
100,000 ops goes backward. Gradients travel as raw values; the ``xp`` of the evaluator in force computes
with them, so the same engine runs under the tracer. With ``create_graph`` they travel as Tensors.

The loops that every op pays for, and what they keep of each node, are in ``passes.py``.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.op import Context
from jtorch.eager import anomaly, duals, passes, shortcuts
from jtorch.eager.evaluate import EAGER
from jtorch.eager.hooks import PostAccumulate, check_returned, checked
from jtorch.eager.node import Node
from jtorch.eager.passes import GRAD, LEAF, LEFT, META, TARGET, slot_of
from jtorch.eager.sparse_gradient import RowsGradient, accumulated, from_tensor
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import complex_is_expected
from jtorch.ops import axes

NON_SCALAR = "grad can be implicitly created only for scalar outputs"
NOT_REAL = "grad can be implicitly created only for real scalar outputs but got torch.{dtype}"
MOVED = "leaf variable has been moved into the graph interior"
NO_GRAD_FN = "element {k} of tensors does not require grad and does not have a grad_fn"


# While a gradient is read, added to and put back: NumPy lets other threads run as it adds. One for all
# tensors, as it is asked for once per parameter and pass and costs 0.05 us; a thread may come in twice, as
# hooks of saved tensors are called where a sum has a graph.
_accumulating = threading.RLock()

_RUN: ContextVar[Run | None] = ContextVar("jtorch_backward_run", default=None)
_numbers = itertools.count()


def current_run() -> Run:
    """The pass that calls the hook which asks."""
    run = _RUN.get()
    assert run is not None, "expected this hook to be called inside a backward call"
    return run


def in_backward() -> bool:
    """Whether this is called from inside a backward pass: by a hook, or a function that is run again."""
    return _RUN.get() is not None


def reached(targets: Iterable[Any]) -> list[Any]:
    """Those of these nodes and leaves that the pass which calls the hook leads to; none outside a pass."""
    run = _RUN.get()
    return [] if run is None else [t for t in targets if run.reaches(t)]


def call_at_end(function: Callable[[], None]) -> None:
    """Let the pass that calls the hook call this when all gradients are there; not if it raises before."""
    current_run().at_end.append(function)


class Run:
    """One pass over the tape."""

    def __init__(self, create_graph: bool, retain_graph: bool) -> None:
        self.context: Context = op_module.CONTEXT.get()
        self.grad = bool(create_graph)
        # whether gradients travel as Tensors: with a graph, or with tangents
        self.on_tensors = self.grad or self.context.level is not None
        self.retain_graph = bool(retain_graph)
        self.xp: Any = self.context.xp
        if self.on_tensors:
            from jtorch.eager.binding import TENSOR_XP

            self.xp = TENSOR_XP
        self.given: set[int] = set()  # ids of arrays that somebody else holds: no leaf may own them
        self.slots: dict[Any, list] = {}
        self.ready: list[list] = []
        self.captures: dict[Any, list[tuple[int, int]]] | None = None  # target -> (output, result)
        self.captured: list[Any] = []
        self.at_end: list[Callable[[], None]] = []
        self.number = next(_numbers)
        self.running: Any = None  # the nodes that lead to a captured one, where only these are wanted

    # -- the pass ----------------------------------------------------------------------------------------

    def play(
        self, tensors: Sequence[Tensor], gradients: Sequence[Any], wanted: Sequence[Tensor] | None
    ) -> list[Any]:
        """Run backward from ``tensors``; the gradients of ``wanted`` where that is given."""
        before, outer = op_module.CONTEXT.get(), _RUN.get()
        try:  # before the change: Ctrl-C may come right after it
            op_module.CONTEXT.set(self.context.replace(grad=self.grad))
            _RUN.set(self)
            roots = [t._node or t for t in tensors]
            for k, t in enumerate(tensors):
                if not t._requires_grad:
                    raise RuntimeError(NO_GRAD_FN.format(k=k))
            self.slots = _count_dependencies(roots)
            if wanted is not None:
                self._limit(wanted)
            self.context.evaluator.walk(self.slots)
            for t, g in zip(tensors, gradients, strict=True):
                self._seed(t, g)
            for root in dict.fromkeys(roots):
                slot = self.slots.get(root)
                if slot is not None and slot[LEFT] == 0:
                    self.ready.append(slot)
            self._work()
            for function in self.at_end:
                function()
            return self.captured
        finally:
            _RUN.set(outer)
            op_module.CONTEXT.set(before)

    def reaches(self, target: Any) -> bool:
        """Whether this pass shows the gradient of that node or leaf to its hooks."""
        return target in self.slots

    def _work(self) -> None:
        """Visit slots until none is ready."""
        ready, slots, xp = self.ready, self.slots, self.xp
        evaluator = self.context.evaluator
        plain = not self.on_tensors and self.captures is None and evaluator.runs_nodes
        plain = plain and not anomaly.is_anomaly_check_nan_enabled()  # or each node is looked at
        propagate = _loops()[1] if evaluator is EAGER else passes.propagate
        while ready:
            slot = propagate(ready, slots, xp, self.retain_graph, self._take) if plain else ready.pop()
            if slot is None:
                return
            g, node = slot[GRAD], slot[TARGET]
            slot[GRAD] = None
            if slot[LEAF]:
                self._finish_leaf(node, g)
                continue
            grads = (None,) * len(node.edges) if g is None else self._visit(node, g)
            if grads.__class__ is not tuple:
                grads = (grads,)
            if node.foreign:  # user code may hold on to what it returned
                self.given.update(id(p._data if isinstance(p, Tensor) else p) for p in grads)
            passes.hand_on(node.edges, grads, ready, slots, self._take)
            g = grads = None  # the memory is needed

    def _take(self, target: list, index: int, part: Any) -> None:
        """``part`` is what a node gives for output ``index`` of ``target``, and not as usual."""
        meta = target[META]
        if meta.__class__ is list:
            self._add_output(target, index, part)
        else:
            self._put_in(target, self._fit(part, meta[0], meta[1]))

    def _put_in(self, slot: list, part: Any) -> None:
        if slot[GRAD] is None:
            slot[GRAD] = part
        else:
            passes.add_to(slot, part)

    def _visit(self, node: Node, g: Any) -> Any:
        """What ``node`` gives its inputs, where there are hooks, captures, several outputs, or Tensors."""
        extras = node.extras
        if extras is not None and extras.pre_hooks:
            g = self._run_pre_hooks(node, g)
        if self.captures is not None and not self._capture(node, g):
            return (None,) * len(node.edges)
        if g.__class__ is list:
            g = self._materialize(node, g)
        try:
            if not self.on_tensors:
                grads = self.context.evaluator.backward(node, self.xp, g)
            elif node.takes_arrays and not self.grad:
                grads = self._through_arrays(node, g)
            else:
                grads = node.backward_on_tensors(self.xp, g)
        except Exception as error:
            anomaly.name_forward(node, error)
            raise
        anomaly.check(node, grads)
        if node.frees and not self.retain_graph:
            node.release()
        if extras is not None and extras.post_hooks:
            grads = self._run_post_hooks(node, grads if isinstance(grads, tuple) else (grads,), g)
        return grads

    def _through_arrays(self, node: Node, g: Any) -> Any:
        """What a node gives that computes with arrays alone, which have no tangents."""
        evaluator = self.context.evaluator
        duals.refuse(node.name(), *(g if g.__class__ is list else (g,)))
        raw = [p if p is None else evaluator.lift(p._data) for p in (g if g.__class__ is list else (g,))]
        grads = evaluator.backward(node, self.context.xp, raw if g.__class__ is list else raw[0])
        grads = grads if grads.__class__ is tuple else (grads,)
        return tuple(p if p is None else self.as_tensor(p) for p in grads)

    # -- gradients on their way -----------------------------------------------------------------------------

    def _seed(self, tensor: Tensor, gradient: Any) -> None:
        slot = self.slots.get(tensor._node or tensor)
        g = self._initial(tensor, gradient)
        if slot is None:
            return
        if slot[META].__class__ is list:
            self._add_output(slot, tensor._index, g)
        else:
            self._put_in(slot, g)

    def _initial(self, tensor: Tensor, gradient: Any) -> Any:
        data = tensor._data
        if gradient is None:
            if data.size != 1:
                raise RuntimeError(NON_SCALAR)
            if data.dtype.kind == "c":
                raise RuntimeError(NOT_REAL.format(dtype=tensor.dtype.name))
            one = self.context.evaluator.namespace(data).full(1.0, shape=tuple(data.shape), dtype=data.dtype)
            return wrap(one) if self.on_tensors else one
        if not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        if gradient._data.shape != data.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a "
                f"shape of {tensor.shape}."
            )
        self.given.add(id(gradient._data))
        g = gradient if self.on_tensors else self.context.evaluator.lift(gradient._data)
        return g if gradient._data.dtype is data.dtype else self._xp_beside(g).cast(g, dtype=data.dtype)

    def _add_output(self, slot: list, index: int, part: Any) -> None:
        """The same for a node of several outputs, whose gradient is a list."""
        shape, dtype = slot[META][index]
        part = self._fit(part, shape, dtype)
        if slot[GRAD] is None:
            slot[GRAD] = [None] * len(slot[META])
        before = slot[GRAD][index]
        slot[GRAD][index] = part if before is None else before + part

    def _fit(self, g: Any, shape: Any, dtype: np.dtype) -> Any:
        """Undo broadcasting and promotion: the gradient gets its tensor's own shape and dtype."""
        if g.shape != shape:
            g = unbroadcast(self._xp_beside(g), g, tuple(shape))
        found = g._data.dtype if self.on_tensors else g.dtype
        return g if found is dtype else self._xp_beside(g).cast(g, dtype=dtype)

    def _xp_beside(self, g: Any) -> Any:
        """``xp`` where ``g`` lies."""
        return self.xp if self.on_tensors else self.context.evaluator.namespace(g)

    def _materialize(self, node: Node, parts: list[Any]) -> list[Any]:
        """Zeros for the outputs that no gradient reached, unless hidden or not wanted."""
        if not node.materializes:
            return parts
        shown = len(parts) - node.hidden
        known = next((g for g in parts if g is not None), None)
        return [
            self.zeros(shape, dtype, known) if g is None and k < shown and dtype.kind in "fcV" else g
            for k, (g, (shape, dtype)) in enumerate(zip(parts, node.metadata, strict=True))
        ]

    def zeros(self, shape: Any, dtype: np.dtype, beside: Any = None) -> Any:
        """Zeros where ``beside`` lies."""
        value = beside._data if isinstance(beside, Tensor) else beside
        z = self.context.evaluator.namespace(value).full(0.0, shape=tuple(shape), dtype=dtype)
        return wrap(z) if self.on_tensors else z

    def as_tensor(self, g: Any) -> Any:
        if g.__class__ is RowsGradient:
            return g.as_tensor()
        return g if isinstance(g, Tensor) else wrap(self.context.evaluator.as_value(g))

    def result(self, g: Any) -> Any:
        """A gradient to hand out, on the tape only where a graph was asked for."""
        tensor = self.as_tensor(g)
        if g.__class__ is RowsGradient:
            return tensor.clone()  # its memory may be that of a gradient that was given
        return duals.carry(tensor, tensor.detach()) if tensor._requires_grad and not self.grad else tensor

    # -- where gradients end -----------------------------------------------------------------------------

    def _finish_leaf(self, leaf: Tensor, g: Any) -> None:
        """All gradients of ``leaf`` are in: show the sum to its hooks and keep it; not if it was frozen after
        the forward pass."""
        if g is None or not self.context.evaluator.takes_grad(leaf):
            return
        if leaf._node is not None and self.captures is None:
            raise RuntimeError(MOVED)
        if leaf._data.dtype.kind == "c":
            assert complex_is_expected(), "a complex leaf got a gradient by the rules of reals"
        hooks = leaf._hooks
        if hooks:
            g = self._run_leaf_hooks(leaf, g)
        if self.captures is not None:
            for _, k in self.captures.get(leaf, ()):
                self.captured[k] = g
            return
        self.accumulate(leaf, g)
        if hooks:
            self.after_accumulation(leaf)

    def after_accumulation(self, leaf: Tensor) -> None:
        for hook in list((leaf._hooks or {}).values()):
            if isinstance(hook, PostAccumulate):
                check_returned(hook.function(leaf), leaf)

    def deliver(self, wanted: Sequence[Tensor], found: Sequence[Any]) -> None:
        """Add what ``play`` found to the ``grad`` of those that were wanted; hooks may ask for this pass."""
        outer = _RUN.get()
        try:
            _RUN.set(self)
            once = {id(t): (t, g) for t, g in zip(wanted, found, strict=True)}  # whoever is wanted twice
            for tensor, g in once.values():
                if g is not None:
                    self.accumulate(tensor, g)
                    self.after_accumulation(tensor)
            for function in self.at_end:
                function()
        finally:
            _RUN.set(outer)

    def accumulate(self, leaf: Tensor, g: Any) -> None:
        """``leaf.grad += g``, taking the first gradient to arrive as it is.

        With a graph the first is copied: the graph, or whoever gave it, may hold it, and later passes add to
        it in place.
        """
        evaluator = self.context.evaluator
        with _accumulating:
            before = evaluator.get_grad(leaf)
            if self.on_tensors and not self.grad:
                g = g._data
            if g.__class__ is RowsGradient and (before is None or before.is_sparse):
                total = accumulated(before, g, evaluator, self.given)
            elif self.grad or (before is not None and before.is_sparse):  # sparse and dense: dense
                total = self.as_tensor(g).clone() if before is None else before + self.as_tensor(g)
            elif before is None:
                total = wrap(evaluator.own(evaluator.as_value(g), self.given))
            else:
                total = evaluator.add_to_grad(before, g)
                if total is None:
                    total = wrap(evaluator.as_value(before._data + g))
            evaluator.set_grad(leaf, total)

    # -- only what is wanted -----------------------------------------------------------------------------

    def _limit(self, wanted: Sequence[Tensor]) -> None:
        """Keep only the slots on a way from the roots to ``wanted``, and note what to capture where."""
        self.context.evaluator.limit(wanted, self.slots)
        self.captured = [None] * len(wanted)
        self.captures = {}
        for k, t in enumerate(wanted):
            if t._node is not None and t._node.inner:
                self._check_only_way(t._node)
            self.captures.setdefault(t._node or t, []).append((t._index, k))
        users: dict[Any, list[Node]] = {}
        for target in self.slots:
            if isinstance(target, Node) and target.broken:
                target.backward(self.xp, None)  # which raises
            for edge in target.edges if isinstance(target, Node) else ():
                if edge is not None:
                    users.setdefault(edge[0], []).append(target)
        self.running = set()
        stack = list(self.captures)
        while stack:
            for user in users.get(stack.pop(), ()):
                if user not in self.running:
                    self.running.add(user)
                    stack.append(user)
        kept = self.running.union(self.captures)
        self.slots = {t: s for t, s in self.slots.items() if t in kept}

    def _check_only_way(self, node: Any) -> None:
        """Raise where this pass has a way around ``node``, whose gradient would lack a part."""
        slot = self.slots.get(node.edges[0][0])
        if node.past in self.slots or (slot is not None and (slot[LEFT] > 1 or node not in self.slots)):
            node.register_prehook(None)

    def _capture(self, node: Node, g: Any) -> bool:
        """Keep what is wanted of this node's gradients; whether the pass goes on below it."""
        for index, k in self.captures.get(node, ()):  # type: ignore[union-attr]
            self.captured[k] = g[index] if isinstance(node.metadata, list) else g
        return node in self.running

    # -- hooks -------------------------------------------------------------------------------------------

    def _shown(self, g: Any) -> Any:
        """``g`` as a Tensor that a hook may keep: no leaf's ``grad`` will share its memory."""
        tensor = self.as_tensor(g)
        if g.__class__ is RowsGradient:
            self.given.add(id(g.rows))
            return tensor
        self.given.add(id(tensor._data))
        return tensor

    def _back(self, tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            raw = from_tensor(tensor)
            self.given.add(id(raw.rows))
            return raw
        self.given.add(id(tensor._data))
        return tensor if self.on_tensors else self.context.evaluator.lift(tensor._data)

    def _run_leaf_hooks(self, leaf: Tensor, g: Any) -> Any:
        for hook in list(leaf._hooks.values()):  # type: ignore[union-attr]
            if isinstance(hook, PostAccumulate):
                self._shown(g)
                continue
            shown = self._shown(g)
            result = hook(shown)
            if result is not None:
                g = self._back(checked(hook, result, shown))
        return g

    def _run_pre_hooks(self, node: Node, g: Any) -> Any:
        many = isinstance(node.metadata, list)
        parts = tuple(p if p is None else self._shown(p) for p in (g if many else (g,)))
        for hook in list(node.extend().pre_hooks.values()):
            result = hook(parts)
            if result is not None:
                parts = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        raw = [p if p is None else self._back(p) for p in parts]
        return raw if many else raw[0]

    def _run_post_hooks(self, node: Node, grads: tuple, g: Any) -> tuple:
        outputs = tuple(p if p is None else self._shown(p) for p in (g if isinstance(g, list) else (g,)))
        tensors = tuple(p if p is None else self._shown(p) for p in grads)
        for hook in list(node.extend().post_hooks.values()):
            result = hook(tensors, outputs)
            if result is not None:
                tensors = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        return tuple(p if p is None else self._back(p) for p in tensors)


def _count_dependencies(roots: Sequence[Any]) -> dict[Any, list]:
    """The slots of everything below ``roots``, with the number of edges that lead to each."""
    slots = {r: slot_of(r, 0) for r in roots}
    _loops()[0](slots, [r for r in slots if isinstance(r, Node)])
    return slots


@functools.cache
def _loops() -> tuple[Callable, Callable]:
    """``count_edges`` and ``propagate``, in machine code where there is some."""
    return shortcuts.engine_loops() or (passes.count_edges, passes.propagate)


def _after_fork() -> None:
    global _accumulating
    _accumulating = threading.RLock()  # the thread that had the old one does not exist in the child


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``g`` over the axes that broadcasting added or stretched to reach its shape."""
    new = len(g.shape) - len(shape)
    if new > 0 and g.shape[new:] == shape:  # rows only: nearly all cases
        return xp.sum(g, axis=axes.ALL[new], keepdims=False)
    if new < 0 and g.shape == shape[-new:] and all(n == 1 for n in shape[:-new]):
        return xp.reshape(g, shape=shape)  # of a leaf that got more dims in place since
    if new < 0 or any(n != 1 and m != n for n, m in zip(shape, g.shape[new:], strict=True)):
        raise RuntimeError(
            f"a gradient of shape {tuple(g.shape)} for a tensor of shape {tuple(shape)}: it was given "
            "another shape in place between the forward and the backward pass"
        )
    if new:
        g = xp.sum(g, axis=tuple(range(new)), keepdims=False)
    stretched = tuple(k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1)
    return xp.sum(g, axis=stretched, keepdims=True) if stretched else g
