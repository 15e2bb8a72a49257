"""The tape: nodes that know how to turn an output's gradient into the inputs' gradients.

An *edge* is ``(target, index)``: the node that made an input and which of its outputs it was, or a leaf
tensor itself. Keeping the leaf, not a node of its own, leaves no reference cycle on the tape, so
a graph nobody holds is freed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch import op as op_module
from jtorch.op import Op

BACKWARD_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)

Edge = tuple[Any, int] | None


class Node:
    """One op on the tape. Subclasses, made per op, carry the op and the name PyTorch prints."""

    __slots__ = (
        "__weakref__",
        "edges",  # one Edge per input
        "metadata",  # (shape, dtype) of the output, a list of them for several
        "post_hooks",
        "pre_hooks",
        "saved",  # what the vjp asked for, in its order; None once freed
        "trace",  # where the op was called, under detect_anomaly
        "versions",  # (version cell, version then) of each saved array
    )

    op: Op

    def __init__(self, edges: tuple[Edge, ...], saved: Any, versions: Any, metadata: Any) -> None:
        self.edges = edges
        self.saved = saved
        self.versions = versions
        self.metadata = metadata
        self.pre_hooks: Any = None
        self.post_hooks: Any = None
        self.trace: Any = None

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """``((node, index), ...)`` for each input, ``(None, 0)`` where no gradient flows."""
        return tuple(_next_function(edge) for edge in self.edges)

    def n_outputs(self) -> int:
        return len(self.metadata) if isinstance(self.metadata, list) else 1

    def release(self) -> None:
        """Free what was saved: what ``backward()`` does unless asked to retain the graph."""
        self.saved = None
        self.versions = ()

    def backward(self, xp: Any, g: Any) -> Any:
        """The inputs' gradients on raw values."""
        return op_module.CONTEXT.get().vjps[self.op.index](xp, g, *self.check_saved())

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        """The inputs' gradients on Tensors, so that they can be differentiated again."""
        saved = list(self.check_saved())
        for position, source in saved_arrays(self.op):
            saved[position] = self._rewrap(saved[position], source)
        return self.op.vjp_function(xp, g, *saved)  # type: ignore[misc]

    def _rewrap(self, value: Any, source: tuple[str, int]) -> Any:
        from jtorch.eager.tensor import Tensor, wrap

        if isinstance(value, tuple):  # a variadic argument
            return tuple(self._rewrap(v, (source[0], source[1] + k)) for k, v in enumerate(value))
        if value is None or isinstance(value, (bool, int, float)):
            return value
        kind, index = source
        edge = (self, index) if kind == "out" else self.edges[index]
        if edge is None:
            return wrap(value)
        if isinstance(edge[0], Tensor) and edge[0]._data is value:
            return edge[0]
        return wrap(value, edge) if edge is not None else wrap(value)

    def check_saved(self) -> Any:
        """What was saved, after PyTorch's two checks: not freed, not changed in place."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(BACKWARD_TWICE)
        for cell, version in self.versions:
            if cell[0] != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: [{self._saved_summary(cell)}], which is an input or output of "
                    f"{self.name()}, is at version {cell[0]}; expected version {version} instead. Hint: "
                    "enable anomaly detection to find the operation that failed to compute its gradient, "
                    "with torch.autograd.set_detect_anomaly(True)."
                )
        return saved

    def _saved_summary(self, cell: Any) -> str:
        meta = self.metadata[0] if isinstance(self.metadata, list) else self.metadata
        return f"jtorch.Tensor {list(meta[0])}"

    def register_hook(self, hook: Callable) -> Any:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; it may return new grad_inputs."""
        from jtorch.eager.hooks import add_hook

        self.post_hooks, handle = add_hook(self.post_hooks, hook)
        return handle

    def register_prehook(self, hook: Callable) -> Any:
        """Call ``hook(grad_outputs)`` before this node runs; it may return new grad_outputs."""
        from jtorch.eager.hooks import add_hook

        self.pre_hooks, handle = add_hook(self.pre_hooks, hook)
        return handle

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class AccumulateGrad:
    """How a leaf shows in ``next_functions``: the place where its gradient is added up."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    next_functions = ()

    def name(self) -> str:
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


def _next_function(edge: Edge) -> tuple[Any, int]:
    if edge is None:
        return (None, 0)
    target, index = edge
    return (target, index) if isinstance(target, Node) else (AccumulateGrad(target), 0)


_node_classes: dict[str, type[Node]] = {}
_saved_arrays: dict[str, list[tuple[int, tuple[str, int]]]] = {}


def node_class(op: Op) -> type[Node]:
    """The subclass of Node for ``op``, named as PyTorch prints it."""
    found = _node_classes.get(op.name)
    if found is None:
        found = type(op.grad_name, (Node,), {"__slots__": (), "op": op, "__module__": __name__})
        _node_classes[op.name] = found
    return found


def saved_arrays(op: Op) -> list[tuple[int, tuple[str, int]]]:
    """(position in the save list, ("in" or "out", which)) of each array that ``op`` saves."""
    found = _saved_arrays.get(op.name)
    if found is None:
        found = []
        for position, name in enumerate(op.save_list):
            if name in op.arrays:
                found.append((position, ("in", op.arrays.index(name))))
            elif name.startswith("out"):
                found.append((position, ("out", int(name[3:] or 0))))
        _saved_arrays[op.name] = found
    return found
