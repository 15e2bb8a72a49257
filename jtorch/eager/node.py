"""The tape: nodes that know how to turn an output's gradient into the inputs' gradients.

An *edge* is ``(target, index)``: the node that made an input and which of its outputs it was, or a leaf
tensor itself. Keeping the leaf, not a node of its own, leaves no reference cycle on the tape, so
a graph nobody holds is freed at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jtorch.core import op as op_module
from jtorch.core.op import Op
from jtorch.eager import formulas, shortcuts
from jtorch.eager.hooks import FromNode, OnOutput, RemovableHandle, RetainGrad, add_hook

BACKWARD_TWICE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


def modified_in_place(data: Any, made_by: str, now: int, then: int) -> RuntimeError:
    """PyTorch's error for a saved array that was written over; ``made_by`` is " of a node" or ""."""
    from jtorch.eager.messages import long_name

    kind = f"torch.{long_name(data.dtype)}Tensor {list(data.shape)}"
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind}]{made_by} is at version {now}; expected version {then} instead. Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


Edge = tuple[Any, int] | None


def _pairs(versions: tuple) -> Any:
    return zip(versions[::2], versions[1::2], strict=True)


def produced_by(edge: Any) -> str:
    """How the error says which output of which op something is."""
    return f", which is output {edge[1]} of {edge[0].name().partition('Backward')[0]},"


class Node:
    """One op on the tape. Subclasses, made per op, carry the op and the name PyTorch prints."""

    __slots__ = (
        "__weakref__",
        "edges",  # one Edge per input
        "extras",  # Extras: hooks and the forward stack; None for nearly all
        "metadata",  # (shape, dtype) of the output, a list of them for several
        "saved",  # what the vjp asked for, in its order; None once freed
        "versions",  # version cell, version then; for each saved array
    )

    op: Op
    vjp: Callable  # the op's gradient
    frees = True  # whether backward() frees what was saved: not where that holds no array
    foreign = False  # whether its gradients are not an op's: user code makes them, or a pass of its own
    takes_arrays = False  # foreign: whether they are computed of arrays alone
    linear = False  # foreign: whether they come of those that it gets alone, as an op's do
    materializes = True  # whether outputs that no gradient reached get zeros
    hidden = 0  # trailing outputs that only the vjp sees
    inner = False  # whether ways lead past it to what lies under it
    broken = False  # whether nobody knows what lies under it: no pass may go by

    def __init__(self, edges: tuple[Edge, ...], saved: Any, versions: Any, metadata: Any) -> None:
        self.edges = edges
        self.saved = saved
        self.versions = versions
        self.metadata = metadata
        self.extras: Extras | None = None

    def name(self) -> str:
        return type(self).__name__

    def usable(self) -> Node:
        """Itself. Raises RuntimeError where it is known already that its gradient is refused."""
        return self

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

    @property
    def is_released(self) -> bool:
        """Whether ``backward()`` went through it and freed what it saved."""
        return self.saved is None

    @property
    def is_freed_by_a_pass(self) -> bool:
        """Whether ``backward()`` will free something of it, so that there is no second one."""
        return self.frees and bool(self.saved)

    def backward(self, xp: Any, g: Any) -> Any:
        """The inputs' gradients on raw values. Each op's class has its own, see ``backward_source``."""
        return self.vjp(xp, g, *self.check_saved())

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        """The inputs' gradients on Tensors, so that they can be differentiated again."""
        saved = list(self.check_saved())
        for position, source in saved_arrays(self.op):
            saved[position] = self._rewrap(saved[position], source)
        context = op_module.CONTEXT.get()
        if context.autocast is not None:  # in the dtypes of the forward pass, whatever holds now
            from jtorch.eager.autocasting import alone

            return alone(self.vjp, context, (xp, g, *saved), {})
        return self.vjp(xp, g, *saved)

    def _rewrap(self, value: Any, source: tuple[str, int]) -> Any:
        from jtorch.eager.tensor import Tensor, wrap

        if isinstance(value, tuple):  # a variadic argument
            return tuple(self._rewrap(v, (source[0], source[1] + k)) for k, v in enumerate(value))
        if not hasattr(value, "dtype"):  # a number, or nothing
            return value
        kind, index = source
        edge = (self, index) if kind == "out" else self.edges[index]
        if edge is None or (kind == "out" and value.dtype.kind not in "fcV"):  # places have no gradient
            return self._dual(wrap(value), source)
        if isinstance(edge[0], Tensor) and edge[0]._data is value:
            return edge[0]
        return self._dual(hung(value, edge), source)

    def _dual(self, tensor: Any, source: tuple[str, int]) -> Any:
        """A saved tensor with the tangent that it had, where a level of forward mode is in force."""
        known = None if self.extras is None else self.extras.tangents.get(source)
        level = op_module.CONTEXT.get().level
        if level is not None and known is not None and known.value is not None:
            level.give(tensor, known.value)
        return tensor

    def check_saved(self) -> Any:
        """What was saved, after PyTorch's two checks: not freed, not changed in place."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(BACKWARD_TWICE)
        for cell, version in _pairs(self.versions):
            if cell[0] != version:
                data, made_by = self._saved_of(cell)
                raise modified_in_place(data, made_by, cell[0], version)
        return saved

    def _saved_of(self, cell: Any) -> tuple[Any, str]:
        """(the saved array whose version cell this is, what made it in the words of the error)"""
        watched = [source for source in saved_arrays(self.op) if source[0] < len(self.saved)]
        for (position, (kind, index)), (other, _) in zip(watched, _pairs(self.versions), strict=False):
            if other is cell:
                edge = (self, index) if kind == "out" else self.edges[index]
                named = edge is not None and isinstance(edge[0], Node)
                return self.saved[position], produced_by(edge) if named else ""
        raise AssertionError(f"{self.name()}: a version cell that belongs to nothing saved")

    def extend(self) -> Extras:
        """The node's extras, made where there are none yet."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; it may return new grad_inputs."""
        extras = self.extend()
        extras.post_hooks, handle = add_hook(extras.post_hooks, hook)
        return handle

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; it may return new grad_outputs."""
        extras = self.extend()
        extras.pre_hooks, handle = add_hook(extras.pre_hooks, hook)
        return handle

    def register_tensor_hook(self, hook: Callable) -> RemovableHandle:
        """A prehook of a tensor that this node made: what ``retain_grad`` keeps comes after all of these."""
        extras = self.extend()
        later = [(k, h) for k, h in (extras.pre_hooks or {}).items() if isinstance(h, RetainGrad)]
        extras.pre_hooks, handle = add_hook(extras.pre_hooks, hook)
        for key, retaining in later:
            del extras.pre_hooks[key]
            extras.pre_hooks[key] = retaining
        return handle

    def retaining(self, tensor: Any) -> int | None:
        """The key of the hook that keeps the gradient of ``tensor``; None where there is none."""
        hooks = None if self.extras is None else self.extras.pre_hooks
        kept = ((k, h) for k, h in (hooks or {}).items() if isinstance(h, RetainGrad))
        return next((k for k, h in kept if h.reference() is tensor), None)

    def give_up_retaining(self, tensor: Any) -> bool:
        """Whether the gradient of ``tensor`` was kept here; from now on it is not."""
        key = self.retaining(tensor)
        if key is not None:
            self.extend().pre_hooks.pop(key)
        return key is not None

    def __getattr__(self, name: str) -> Any:
        """``_saved_self``, ``_saved_other``, ``_saved_result``...: what the op saved, as tensors."""
        if name.startswith("_saved_") and hasattr(type(self), "op"):
            return self._saved_under(name.removeprefix("_saved_"))
        raise AttributeError(f"'{self.name()}' object has no attribute '{name}'")

    def _saved_under(self, public: str) -> Any:
        names = {"self": "x", "input": "x", "other": "y", "result": "out"}
        name = next((n for n in (public, names.get(public)) if n in self.op.save_list), None)
        if name is None:
            raise AttributeError(f"'{self.name()}' object has no attribute '_saved_{public}'")
        position = self.op.save_list.index(name)
        value = self.check_saved()[position]
        source = dict(saved_arrays(self.op)).get(position)
        return value if source is None else self._rewrap(value, source)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class Identity(Node):
    """Leads from another value of a leaf, in another dtype or unpacked by a hook, to the leaf itself."""

    __slots__ = ()
    frees = False

    @staticmethod
    def vjp(xp: Any, g: Any) -> Any:
        return g

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return g


def hung(value: Any, edge: tuple[Any, int]) -> Any:
    """A Tensor over a raw value whose gradient goes to ``edge``, which may be a leaf."""
    from jtorch.eager.tensor import wrap

    if not isinstance(edge[0], Node):
        edge = (Identity((edge,), (), (), (value.shape, value.dtype)), 0)
    return wrap(value, edge)


class Extras:
    """What few nodes have: hooks, under detect_anomaly the stack of the forward call, tangents."""

    __slots__ = ("post_hooks", "pre_hooks", "stack", "tangents")

    def __init__(self) -> None:
        self.post_hooks: Any = None  # a dict, like the tensors' hooks
        self.pre_hooks: Any = None
        self.stack: str | None = None
        self.tangents: dict[tuple[str, int], Any] = {}  # of what was saved, at a level of forward mode

    def hooks_of_leaf(self, tensor: Any) -> dict[int, Any] | None:
        """The hooks put on ``tensor``, an output of this node, for when it is none any more."""
        hooks = self.pre_hooks or {}
        kept = [k for k, h in hooks.items() if h.__class__ is OnOutput and h.index == tensor._index]
        return {key: FromNode(hooks, key) for key in kept} or None


class GradientEdge(NamedTuple):
    """A place on the tape: output ``output_nr`` of ``node``."""

    node: Any
    output_nr: int


class AccumulateGrad:
    """How a leaf shows in ``next_functions``: the place where its gradient is added up."""

    __slots__ = ("variable",)

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    next_functions = ()

    def name(self) -> str:
        return "AccumulateGrad"

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook((grad,))`` before the gradient is added up; it may return another one."""

        def on_gradient(g: Any) -> Any:
            result = hook((g,))
            return result[0] if isinstance(result, (tuple, list)) else result

        return self.variable.register_hook(on_gradient)

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call ``hook((), (grad,))`` after it was added up; ``grad`` is what the leaf holds then."""

        def on_leaf(leaf: Any) -> None:
            hook((), (leaf.grad,))

        return self.variable.register_post_accumulate_grad_hook(on_leaf)

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


GRADIENTS: dict[type[Node], tuple[Callable, bool]] = {}
"""Classes whose gradient is the op's, of what was saved: its ``backward(node, xp, g)``, in machine code where
there is some, and whether to free what was saved then."""
_node_classes: dict[Op, type[Node]] = {}
_saved_arrays: dict[str, list[tuple[int, tuple[str, int]]]] = {}


def node_class(op: Op) -> type[Node]:
    """The subclass of Node for ``op``, named as PyTorch prints it."""
    found = _node_classes.get(op)
    if found is None:
        vjp = formulas.gradient(op)
        kept = {*op.arrays, "out", *(f"out{k}" for k in range(op.n_outputs))}
        facts = {
            "__slots__": (), "__module__": __name__, "op": op, "vjp": staticmethod(vjp),
            "frees": not kept.isdisjoint(op.save_list), "hidden": op.hidden,
        }  # fmt: skip
        if op.vjp_function is not None and not op.variadic:
            namespace = {"__name__": __name__, "vjp": vjp}
            exec(compile(backward_source(op), f"<jtorch backward {op.name}>", "exec"), namespace)
            facts["backward"] = namespace["backward"]
        found = type(op.grad_name, (Node,), facts)
        _node_classes[op] = found
        if "backward" in facts:
            GRADIENTS[found] = (shortcuts.backward(op) or found.backward, found.frees)
    return found


@functools.cache
def named_class(op: Op, name: str) -> type[Node]:
    """The class of nodes of ``op`` that show under another name."""
    made = node_class(op)
    found = type(name, (made,), {"__slots__": (), "__module__": __name__})
    GRADIENTS[found] = GRADIENTS[made]
    return found


def complex_class(node: type[Node]) -> type[Node]:
    """The subclass of ``node`` for complex results.

    A gradient declared for reals computes ``g * f'(x)``; PyTorch's convention for a holomorphic ``f`` is
    ``g * conj(f'(x))``, which is ``conj(conj(g) * f'(x))``. So one rule serves all ops, and only those that
    are not holomorphic (``conj``, ``abs``, ``angle``...) say so and write their own.
    Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#autograd-for-complex-numbers
    """
    found = _complex_classes.get(node)
    if found is None:

        def backward(self: Node, xp: Any, g: Any) -> Any:
            return _conjugated(xp, node.backward(self, xp, xp.conj(g)))

        def backward_on_tensors(self: Node, xp: Any, g: Any) -> Any:
            return _conjugated(xp, node.backward_on_tensors(self, xp, xp.conj(g)))

        facts = {
            "__slots__": (), "__module__": __name__, "backward": backward,
            "backward_on_tensors": backward_on_tensors,
        }  # fmt: skip
        found = _complex_classes[node] = type(node.__name__, (node,), facts)
    return found


_complex_classes: dict[type[Node], type[Node]] = {}


def _conjugated(xp: Any, grads: Any) -> Any:
    if isinstance(grads, tuple):
        return tuple(None if g is None else xp.conj(g) for g in grads)
    return None if grads is None else xp.conj(grads)


def watched(op: Op) -> list[str]:
    """The saved names that are arrays somebody could change: arguments and visible outputs."""
    shown = {"out", *(f"out{k}" for k in range(op.n_outputs - op.hidden))}
    return [n for n in op.save_list if n in op.arrays or n in shown]


def backward_source(op: Op) -> str:
    """The source of the node's ``backward``: every op of a backward pass takes this path. For ``div``

    def backward(self: Node, xp, g):
        saved = self.saved
        if saved is None:
            self.check_saved()
        cell0, version0, cell1, version1 = self.versions
        if cell0[0] != version0 or cell1[0] != version1:
            self.check_saved()
        saved0, saved1, saved2 = saved
        return vjp(xp, g, saved0, saved1, saved2)

    Ops that save as much have one text.
    """
    lines = ["def backward(self: Node, xp, g):"]
    kept, count = op.save_list, len(watched(op))
    if kept:
        lines += ["    saved = self.saved", "    if saved is None:", "        self.check_saved()"]
    if count:
        cells = ", ".join(f"cell{k}, version{k}" for k in range(count))
        changed = " or ".join(f"cell{k}[0] != version{k}" for k in range(count))
        lines += [
            f"    {cells} = self.versions",
            f"    if {changed}:",
            "        self.check_saved()",
        ]
    values = [f"saved{k}" for k in range(len(kept))]
    if kept:
        lines.append(f"    {', '.join(values)}{',' if len(kept) == 1 else ''} = saved")
    lines.append(f"    return vjp({', '.join(['xp', 'g', *values])})")
    return "\n".join(lines) + "\n"


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
