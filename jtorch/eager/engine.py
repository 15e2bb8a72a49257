"""The backward engine: plays the tape in reverse.

Dependencies are counted first, then a stack of ready nodes is worked off: no recursion, so a chain of
100,000 ops goes backward. Gradients travel as raw values; the ``xp`` of the evaluator in force computes
with them, so the same engine runs under the tracer. With ``create_graph`` they travel as Tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor, wrap
from jtorch.op import Context

NON_SCALAR = "grad can be implicitly created only for scalar outputs"
NO_GRAD_FN = "element {k} of tensors does not require grad and does not have a grad_fn"


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate d(tensors)/d(leaf) into the ``grad`` of leaves (all of them, or ``inputs``)."""
    wanted = None
    if inputs is not None:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        wanted = inputs
    run = _Run(create_graph, create_graph if retain_graph is None else retain_graph)
    found = run.play(tensors, gradients, wanted)
    if wanted is not None:
        for tensor, g in zip(wanted, found, strict=True):
            if g is not None:
                run.accumulate(tensor, g)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``grad``.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad.html
    """
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None or isinstance(grad_outputs, Tensor):
        grad_outputs = (grad_outputs,) * len(outputs)
    for t in inputs:
        if not t._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    run = _Run(create_graph, create_graph if retain_graph is None else retain_graph)
    found = run.play(outputs, grad_outputs, inputs)
    result = []
    for t, g in zip(inputs, found, strict=True):
        if g is None and materialize_grads:
            g = run.zeros(t._data.shape, t._data.dtype)
        elif g is None and not allow_unused:
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior."
            )
        result.append(g if g is None else run.as_tensor(g))
    return tuple(result)


class _Run:
    """One pass over the tape."""

    def __init__(self, create_graph: bool, retain_graph: bool) -> None:
        self.context: Context = op_module.CONTEXT.get()
        self.create_graph = create_graph
        self.retain_graph = retain_graph
        if create_graph:
            from jtorch.eager.binding import TENSOR_XP

            self.xp: Any = TENSOR_XP
        else:
            self.xp = self.context.xp
        self.buffers: dict[Any, Any] = {}  # node -> gradient, or list of them for several outputs
        self.owned: set[int] = set()  # ids of sums this run made: only they are added to in place
        self.given: set[int] = set()  # ids of arrays that became some leaf's grad
        self.captures: dict[Any, list[int]] = {}
        self.captured: list[Any] = []

    # -- the pass ----------------------------------------------------------------------------------------

    def play(
        self, tensors: Sequence[Tensor], gradients: Sequence[Any], wanted: Sequence[Tensor] | None
    ) -> list[Any]:
        mode = self.context.replace(grad=self.create_graph)
        token = op_module.CONTEXT.set(mode)
        try:
            return self._play(tensors, gradients, wanted)
        finally:
            op_module.CONTEXT.reset(token)

    def _play(self, tensors: Any, gradients: Any, wanted: Any) -> list[Any]:
        self.only_captures = wanted is not None
        self.captured = [None] * len(wanted or ())
        for k, t in enumerate(wanted or ()):
            place = (t._node, t._index) if t._node is not None else (t, 0)
            self.captures.setdefault(place, []).append(k)
        roots = []
        for k, (t, g) in enumerate(zip(tensors, gradients, strict=True)):
            if not t._requires_grad:
                raise RuntimeError(NO_GRAD_FN.format(k=k))
            root = (t._node or t, t._index)
            self._deliver(root, self._seed(t, g))
            if t._node is not None:
                roots.append(t._node)
        waiting = _dependencies(roots)
        ready = [n for n in dict.fromkeys(roots) if waiting[n] == 0]
        while ready:
            node = ready.pop()
            buffer = self.buffers.pop(node, None)
            if buffer is not None:
                self._visit(node, buffer)
            for edge in node.edges:
                if edge is not None and isinstance(edge[0], Node):
                    waiting[edge[0]] -= 1
                    if waiting[edge[0]] == 0:
                        ready.append(edge[0])
        return self.captured

    def _seed(self, tensor: Tensor, gradient: Any) -> Any:
        data = tensor._data
        if gradient is None:
            if data.size != 1:
                raise RuntimeError(NON_SCALAR)
            one = self.context.xp.full(1.0, shape=tuple(data.shape), dtype=data.dtype)
            return wrap(one) if self.create_graph else one
        if not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        if gradient._data.shape != data.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has a "
                f"shape of {tensor.shape}."
            )
        self.given.add(id(gradient._data))  # the caller's array never becomes somebody's grad
        return gradient if self.create_graph else gradient._data

    def _visit(self, node: Node, g: Any) -> None:
        if node.pre_hooks:
            g = self._run_pre_hooks(node, g)
        if self.captures:
            self._capture(node, g)
        if node.n_outputs() > 1:
            g = self._materialize(node, g)
        backward = node.backward_on_tensors if self.create_graph else node.backward
        try:
            grads = backward(self.xp, g)
        except Exception as error:
            _name_forward(node, error)
            raise
        if not self.retain_graph:
            node.release()
        if grads.__class__ is not tuple:
            grads = (grads,)
        if node.post_hooks:
            grads = self._run_post_hooks(node, grads, g)
        if node.trace is not None:
            _check_anomaly(node, grads)
        for edge, part in zip(node.edges, grads, strict=False):
            if edge is not None and part is not None:
                self._deliver(edge, part)

    def _deliver(self, edge: tuple[Any, int], g: Any) -> None:
        target, index = edge
        if isinstance(target, Node):
            meta = target.metadata
            if meta.__class__ is list:
                shape, dtype = meta[index]
                g = self._fit(g, shape, dtype)
                slots = self.buffers.get(target)
                if slots is None:
                    slots = self.buffers[target] = [None] * len(meta)
                slots[index] = g if slots[index] is None else self._sum(slots[index], g)
                return
            g = self._fit(g, meta[0], meta[1])
            before = self.buffers.get(target)
            self.buffers[target] = g if before is None else self._sum(before, g)
            return
        data = target._data
        g = self._fit(g, data.shape, data.dtype)
        if target._hooks:
            g = self._run_leaf_hooks(target, g)
        if self.only_captures:
            self._keep(edge, g)
        else:
            self.accumulate(target, g)

    def _fit(self, g: Any, shape: Any, dtype: np.dtype) -> Any:
        """Undo broadcasting and promotion: the gradient gets its tensor's own shape and dtype."""
        if g.shape != shape:
            g = unbroadcast(self.xp, g, tuple(shape))
        found = g._data.dtype if self.create_graph else g.dtype
        return g if found is dtype else self.xp.cast(g, dtype=dtype)

    def _sum(self, a: Any, b: Any) -> Any:
        if id(a) in self.owned and a.__class__ is np.ndarray:
            np.add(a, b, a)
            return a
        total = a + b
        if total.__class__ is np.ndarray:
            self.owned.add(id(total))
        return total

    # -- where gradients end -----------------------------------------------------------------------------

    def accumulate(self, leaf: Tensor, g: Any) -> None:
        """``leaf.grad += g``, taking the first gradient to arrive as it is."""
        evaluator = self.context.evaluator
        before = evaluator.get_grad(leaf)
        if self.create_graph:
            total = self.as_tensor(g) if before is None else before + self.as_tensor(g)
        elif before is None:
            total = Tensor(evaluator.own(evaluator.as_value(g), self.given))
        else:
            total = Tensor(evaluator.as_value(before._data + g))
        evaluator.set_grad(leaf, total)

    def _keep(self, place: tuple[Any, int], g: Any) -> None:
        for k in self.captures.get(place, ()):
            before = self.captured[k]
            self.captured[k] = g if before is None else self._sum(before, g)

    def _capture(self, node: Node, g: Any) -> None:
        for index in range(node.n_outputs()):
            part = g[index] if node.n_outputs() > 1 else g
            if part is not None:
                self._keep((node, index), part)

    def as_tensor(self, g: Any) -> Tensor:
        return g if isinstance(g, Tensor) else Tensor(self.context.evaluator.as_value(g))

    def zeros(self, shape: Any, dtype: np.dtype) -> Any:
        z = self.context.xp.full(0.0, shape=tuple(shape), dtype=dtype)
        return wrap(z) if self.create_graph else z

    def _materialize(self, node: Node, slots: list[Any]) -> list[Any]:
        return [
            self.zeros(shape, dtype) if g is None and dtype.kind == "f" else g
            for g, (shape, dtype) in zip(slots, node.metadata, strict=True)
        ]

    # -- hooks -------------------------------------------------------------------------------------------

    def _back(self, tensor: Tensor) -> Any:
        return tensor if self.create_graph else tensor._data

    def _run_leaf_hooks(self, leaf: Tensor, g: Any) -> Any:
        for hook in list(leaf._hooks.values()):  # type: ignore[union-attr]
            result = hook(self.as_tensor(g))
            if result is not None:
                g = self._back(result)
        return g

    def _run_pre_hooks(self, node: Node, g: Any) -> Any:
        many = node.n_outputs() > 1
        parts = tuple(p if p is None else self.as_tensor(p) for p in (g if many else (g,)))
        for hook in list(node.pre_hooks.values()):
            result = hook(parts)
            if result is not None:
                parts = tuple(result)
        raw = [p if p is None else self._back(p) for p in parts]
        return raw if many else raw[0]

    def _run_post_hooks(self, node: Node, grads: tuple, g: Any) -> tuple:
        outputs = tuple(
            p if p is None else self.as_tensor(p) for p in (g if isinstance(g, list) else (g,))
        )
        tensors = tuple(p if p is None else self.as_tensor(p) for p in grads)
        for hook in list(node.post_hooks.values()):
            result = hook(tensors, outputs)
            if result is not None:
                tensors = tuple(result)
        return tuple(p if p is None else self._back(p) for p in tensors)


def _dependencies(roots: list[Node]) -> dict[Node, int]:
    """How many edges of the graph below ``roots`` lead to each node."""
    waiting = dict.fromkeys(roots, 0)
    stack = list(waiting)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and isinstance(edge[0], Node):
                target = edge[0]
                if target in waiting:
                    waiting[target] += 1
                else:
                    waiting[target] = 1
                    stack.append(target)
    return waiting


def unbroadcast(xp: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``g`` over the axes that broadcasting added or stretched to reach its shape."""
    new = len(g.shape) - len(shape)
    if new < 0 or any(n != 1 and m != n for n, m in zip(shape, g.shape[new:], strict=True)):
        raise AssertionError(f"a gradient of shape {tuple(g.shape)} for a tensor of shape {shape}")
    if new:
        g = xp.sum(g, axis=tuple(range(new)), keepdims=False)
    stretched = tuple(k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1)
    return xp.sum(g, axis=stretched, keepdims=True) if stretched else g


def _name_forward(node: Node, error: Exception) -> None:
    if node.trace is not None:
        error.add_note(f"the forward op was called at:\n{node.trace}")


def _check_anomaly(node: Node, grads: tuple) -> None:
    for k, g in enumerate(grads):
        data = g._data if isinstance(g, Tensor) else g
        if isinstance(data, np.ndarray) and data.dtype.kind == "f" and np.isnan(data).any():
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {k}th output. "
                f"The forward op was called at:\n{node.trace}"
            )


