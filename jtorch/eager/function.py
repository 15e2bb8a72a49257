"""Custom gradients: ``Function`` in both of PyTorch's styles.

    class Cube(Function):                      class Cube(Function):       # the early style
        @staticmethod                              def forward(self, x):
        def forward(ctx, x):                           self.save_for_backward(x)
            ctx.save_for_backward(x)                   return x ** 3
            return x ** 3                          def backward(self, g):
        @staticmethod                                  (x,) = self.saved_tensors
        def backward(ctx, g):                          return 3 * g * x ** 2
            (x,) = ctx.saved_tensors
            return 3 * g * x ** 2              y = Cube()(x)
    y = Cube.apply(x)

Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.Function
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import op as op_module, watch
from jtorch.eager.duals import KEY, beneath, checked, tangent_of, written, zeros_like
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.node import BACKWARD_TWICE, Node, hung, modified_in_place, produced_by
from jtorch.eager.rebase import LEAF_WRITTEN, VIEW_OF_LEAF, FromFunction, move, note_for_writes
from jtorch.eager.results import note_view
from jtorch.eager.saved_hooks import Packed, pack
from jtorch.eager.tensor import Tensor, rehang, wrap
from jtorch.eager.unusual import WATCHERS, look_at
from jtorch.eager.views import source_of

_NO_GRADIENT = np.dtype(np.bool_)  # the dtype noted for an output that is no tensor
_NOT_RETURNED = (
    "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
    "are modified inplace must all be outputs of the Function."
)
_SAVED_AS_IS = (
    "A input that has been returned as-is as output is being saved for backward. This is not supported if "
    "you override setup_context. You should return and save a view of the input instead, e.g. with "
    "x.view_as(x) or setup ctx inside the forward function itself."
)
_VIEW_AND_MORE = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
    "return more than one Tensor. This is not supported by the current autograd engine. You should either "
    "make sure the input is not a view (using .clone() for example) or make your Function only return one "
    "Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor "
    "and a second one that does the other operations). You can ask on the forum "
    "https://discuss.pytorch.org/ if you need help to do this change."
)
_TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


class FunctionCtx:
    """What ``forward`` and ``backward`` share. Any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    _to_save: tuple[Tensor | None, ...] = ()
    _saved: tuple[Any, ...] | None = ()
    _dirty: tuple[Tensor, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    _materialize = True
    _node: FunctionNode | None = None  # while backward runs: kept longer, it would be a cycle
    _input_shapes: tuple[Any, ...] = ()
    _used = False
    _for_forward: tuple[Tensor | None, ...] = ()
    _in_jvp = False

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or intermediates for ``backward``, safe from cycles and in-place changes."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which finds them in ``saved_tensors``."""
        self._for_forward = self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs ``forward`` changed in place; each must be returned, too."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (True) or None for outputs that no gradient reached, and ``jvp``
        for inputs that have no tangent."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was saved. Raises RuntimeError once freed, or where it was changed in place since.

        In ``jvp`` it is what ``save_for_forward`` got, if that was called.
        """
        if self._in_jvp and self._for_forward:
            return self._for_forward
        if self._saved is None:
            raise RuntimeError(BACKWARD_TWICE)
        return tuple(entry and entry.unpack(self._node) for entry in self._saved)


class _Saved:
    """A saved tensor. An output is kept without its node, which would hold this in turn."""

    __slots__ = ("cell", "data", "output", "tangent", "tensor", "version")

    def __init__(self, tensor: Tensor, output: int | None) -> None:
        self.tensor = tensor if output is None else None
        self.data = tensor._data
        self.output = output
        self.cell = tensor._cell
        self.version = tensor._cell[0]
        self.tangent: Any = None

    def unpack(self, node: FunctionNode | None) -> Tensor:
        if self.cell[0] != self.version:
            made = None if self.tensor is None or self.tensor._node is None else self.tensor
            by = produced_by((made._node, made._index)) if made is not None else ""
            raise modified_in_place(self.data, by, self.cell[0], self.version)
        if self.tensor is not None:
            return self.tensor
        made = wrap(self.data, None if node is None else (node, self.output))
        level = op_module.CONTEXT.get().level
        if level is not None and self.tangent is not None and self.tangent.value is not None:
            level.give(made, self.tangent.value)
        return made


class _PackedSaved:
    """A saved tensor in the form that a hook on saved tensors gave it."""

    __slots__ = ("edge", "output", "packed")

    def __init__(self, packed: Packed, edge: Any, output: int | None) -> None:
        self.packed = packed
        self.edge = edge
        self.output = output

    def unpack(self, node: FunctionNode | None) -> Tensor:
        found = self.packed.tensor()
        edge = self.edge if self.output is None or node is None else (node, self.output)
        return found if edge is None else hung(found._data, edge)


def _saved(tensor: Tensor | None, output: int | None) -> _Saved | _PackedSaved | None:
    """What the context keeps of ``tensor``, which is the ``output``-th output if that is no None."""
    if tensor is None:
        return None
    packed = pack(tensor)
    if packed is None:
        return _Saved(tensor, output)
    place = (tensor._node or tensor, tensor._index) if tensor._requires_grad else None
    return _PackedSaved(packed, place if output is None else None, output)


class FunctionNode(Node):
    """The tape's node of a custom Function; made into a subclass per Function for its name."""

    __slots__ = ("ctx",)
    foreign = True
    function: type  # the Function
    ctx: FunctionCtx

    @property
    def materializes(self) -> bool:  # type: ignore[override]
        return self.ctx._materialize

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        return self.ctx.saved_tensors

    def __getattr__(self, name: str) -> Any:
        """What ``forward`` has set on its context: in PyTorch the node is that context."""
        if name == "ctx" or name.startswith("__"):
            raise AttributeError(name)
        ours = name.startswith("_") and name in vars(FunctionCtx)
        found = self if ours else vars(self.ctx).get(name, self)
        return super().__getattr__(name) if found is self else found

    def release(self) -> None:
        if self.ctx._saved:
            self.ctx._saved = None

    @property
    def is_released(self) -> bool:
        return self.ctx._saved is None

    @property
    def is_freed_by_a_pass(self) -> bool:
        return bool(self.ctx._saved)

    def backward(self, xp: Any, g: Any) -> Any:
        evaluator = op_module.CONTEXT.get().evaluator
        grads = self.backward_on_tensors(xp, _tensors(g, evaluator.as_value))
        return tuple(p if p is None else evaluator.lift(p._data) for p in grads)

    def backward_on_tensors(self, xp: Any, g: Any) -> tuple[Tensor | None, ...]:
        parts = g if isinstance(g, list) else [g]
        self.ctx._node = self
        try:
            found = _gradient_of(self.function)(self.ctx, *parts)
        finally:
            self.ctx._node = None
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        return self._checked(found)

    def _checked(self, grads: tuple) -> tuple[Tensor | None, ...]:
        """``grads``, one per input and each of its input's shape and dtype; or PyTorch's error."""
        count = len(self.edges)
        if len(grads) > count and all(p is None for p in grads[count:]):
            grads = grads[:count]
        if len(grads) != count:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, got "
                f"{len(grads)})"
            )
        return tuple(self._fitted(k, p) for k, p in enumerate(grads))

    def _fitted(self, k: int, g: Any) -> Tensor | None:
        if g is None or self.edges[k] is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(
                f"function {self.name()} returned a {type(g).__name__} as gradient {k}: return a Tensor "
                "or None"
            )
        shape = self.ctx._input_shapes[k]
        have = tuple(g.shape)
        if have == shape:
            return g
        back = len(have) - len(shape)
        if back < 0 or any(n != m and n != 1 for n, m in zip(shape, have[back:], strict=True)):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {k} - got {list(have)} but "
                f"expected shape compatible with {list(shape)}"
            )
        return g


def _tensors(g: Any, as_value: Callable) -> Any:
    if isinstance(g, list):
        return [p if p is None else wrap(as_value(p)) for p in g]
    return wrap(as_value(g))


class Function(FunctionCtx, metaclass=watch.TellingClass):
    """Base class of custom ops. See this module for the two ways to write one.

    >>> import jtorch
    >>> class Square(jtorch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = jtorch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; runs with gradients off."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(*args: Any) -> Any:
        """Give one gradient (or None) per argument of ``forward``, from one per output."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use "
            "it with backward mode AD."
        )

    @staticmethod
    def jvp(*args: Any) -> Any:
        """``jvp(ctx, *tangents)``: give one tangent (or None) per output, from one per argument of
        ``forward``."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and hang it on the tape.

        Arguments by keyword, and defaults of ``forward``, only where there is a ``setup_context``.
        """
        ctx = FunctionCtx()
        setup = getattr(cls, "setup_context", None)
        if setup is not None:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        elif kwargs:
            raise TypeError("apply() takes no keyword arguments")
        if setup is None:
            return _call(cls, ctx, functools.partial(cls.forward, ctx), args)

        def forward(*given: Any) -> Any:
            output = cls.forward(*given)
            setup(ctx, given, output)
            return output

        return _call(cls, ctx, forward, args, split=True)

    def __call__(self, *args: Any) -> Any:
        """The early style: ``forward(self, ...)`` and ``backward(self, ...)`` of this instance."""
        ctx = copy.copy(self) if self._used else self
        ctx._used = True
        return _call(type(self), ctx, functools.partial(type(self).forward, ctx), args)


class InplaceFunction(Function):
    """A Function of the early style that knows whether it works in place: ``self.inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


def _gradient_of(function: Any) -> Callable:
    """``backward``, or ``vjp``: both names are in use."""
    own = getattr(function, "vjp", None)
    if own is None:
        return function.backward
    if function.backward is not Function.backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
            "implement one of them."
        )
    return own


_node_classes: dict[type, type[FunctionNode]] = {}


def _node_class(function: type) -> type[FunctionNode]:
    found = _node_classes.get(function)
    if found is None:
        facts = {"__slots__": (), "__module__": function.__module__, "function": function}
        found = _node_classes[function] = type(f"{function.__name__}Backward", (FunctionNode,), facts)
    return found


def _call(function: type, ctx: FunctionCtx, forward: Callable, args: tuple, split: bool = False) -> Any:
    context = op_module.CONTEXT.get()
    needs = tuple(isinstance(a, Tensor) and a._requires_grad for a in args)
    ctx.needs_input_grad = needs
    ctx._input_shapes = tuple(tuple(a.shape) if isinstance(a, Tensor) else None for a in args)
    # where the inputs are on the tape, before forward may change one of them in place
    edges = tuple((a._node or a, a._index) if n else None for a, n in zip(args, needs, strict=True))
    tangents = [tangent_of(a) for a in args]
    with no_grad(), beneath(op_module.CONTEXT.get()):
        result = forward(*args)
    many = isinstance(result, (tuple, list))
    outputs = [_of_each(t, ctx, args) for t in (result if many else (result,))]
    if any(not _is_among(t, outputs) for t in ctx._dirty):
        raise RuntimeError(_NOT_RETURNED)
    recorded = context.grad and any(needs)
    node = _node_of(function, ctx, edges, outputs if many else outputs[0]) if recorded else None
    made = [_output(ctx, node, k, t, args, len(outputs)) for k, t in enumerate(outputs)]
    _mark_several(made, node)
    if split and any(t is not None and _is_alias(t, args, outputs, ctx) for t in ctx._to_save):
        raise RuntimeError(_SAVED_AS_IS)
    places = {
        id(t): k for k, t in enumerate(made) if node is not None and isinstance(t, Tensor) and t._node is node
    }
    ctx._saved = tuple(_saved(t, places.get(id(t))) for t in ctx._to_save)
    _note_tangents(ctx, made)
    if any(t is not None for t in tangents):
        _carry_along(function, ctx, args, tangents, made)
    ctx._to_save = ctx._dirty = ctx._non_differentiable = ()
    return tuple(made) if many else made[0]


def _carry_along(function: Any, ctx: FunctionCtx, args: tuple, tangents: list, made: list) -> None:
    """Give the outputs the tangents that ``jvp`` makes of the inputs'."""
    context = op_module.CONTEXT.get()
    given = [_given_to_jvp(ctx, a, t) for a, t in zip(args, tangents, strict=True)]
    with beneath(context):
        ctx._in_jvp = True
        try:
            found = function.jvp(ctx, *given)
        finally:
            ctx._in_jvp = False
    found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(found) != len(made):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(made)} but got "
            f"{len(found)})"
        )
    for k, (output, tangent) in enumerate(zip(made, found, strict=True)):
        _give_tangent(ctx, context.level, k, output, tangent)
    _note_tangents(ctx, made)


def _given_to_jvp(ctx: FunctionCtx, argument: Any, tangent: Tensor | None) -> Tensor | None:
    is_float = isinstance(argument, Tensor) and argument._data.dtype.kind in "fcV"
    return zeros_like(argument) if tangent is None and is_float and ctx._materialize else tangent


def _give_tangent(ctx: FunctionCtx, level: Any, k: int, output: Any, tangent: Any) -> None:
    if tangent is not None and not isinstance(tangent, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(tangent).__name__}) for grad output {k}.")
    is_float = isinstance(output, Tensor) and output._data.dtype.kind in "fcV"
    is_float = is_float and not _is_among(output, ctx._non_differentiable)
    if tangent is not None and not is_float:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {k}, but  the corresponding forward output is "
            "not a differentiable Tensor.You should return None at that position instead."
        )
    if tangent is not None:
        checked(tangent, output)
    if _is_among(output, ctx._dirty):
        written(output, tangent)
    elif tangent is not None:
        level.give(output, tangent)


def _note_tangents(ctx: FunctionCtx, made: list) -> None:
    """Have ``backward`` see the tangents of outputs that it saved."""
    for entry in ctx._saved or ():
        if isinstance(entry, _Saved) and entry.output is not None:
            entry.tangent = made[entry.output].__dict__.get(KEY)


def _node_of(function: type, ctx: FunctionCtx, edges: tuple, result: Any) -> FunctionNode:
    node = object.__new__(_node_class(function))
    metadata = [_metadata(t) for t in result] if isinstance(result, list) else _metadata(result)
    Node.__init__(node, edges, (), (), metadata)
    node.ctx = ctx
    if WATCHERS:
        look_at(node)
    return node


def _of_each(output: Any, ctx: FunctionCtx, args: tuple) -> Any:
    """``output``, one of each example of a batch where an argument is."""
    if isinstance(output, Tensor) and not _is_among(output, ctx._dirty):
        for a in args:
            if isinstance(a, Tensor) and a._data.__class__ is not np.ndarray:
                value = op_module.CONTEXT.get().evaluator.like(output._data, a._data)
                output = output if value is output._data else wrap(value)
    return output


def _metadata(output: Any) -> tuple[Any, Any]:
    if isinstance(output, Tensor):
        return output._data.shape, output._data.dtype
    return (), _NO_GRADIENT


def _is_among(tensor: Any, others: Any) -> bool:
    return any(tensor is t for t in others)


def _is_alias(tensor: Tensor, args: tuple, outputs: list, ctx: FunctionCtx) -> bool:
    """Whether it is an input that was returned as it is."""
    return _is_among(tensor, args) and _is_among(tensor, outputs) and not _is_among(tensor, ctx._dirty)


def _output(
    ctx: FunctionCtx, node: FunctionNode | None, index: int, output: Any, args: tuple, count: int
) -> Any:
    """``output`` as a tensor whose gradient ``node`` makes; never an input itself, unless it was changed."""
    if not isinstance(output, Tensor):
        return output
    given, dirty = _is_among(output, args), _is_among(output, ctx._dirty)
    followed = node is not None and not _is_among(output, ctx._non_differentiable)
    if not (followed and output._data.dtype.kind in "fcV"):
        output = _unfollowed(output, given, dirty)
    elif dirty:
        _check_written(output, count)
        move(output, (node, index))
    else:
        output = _alias(output) if given else output
        rehang(output, node, index, by=watch.GIVEN)
    if output._base is not None and not (given and dirty):
        source = output._base if output._how is None else source_of(output._how)
        output._how = FromFunction((source,))
        note_for_writes(output)
    return output


def _unfollowed(output: Tensor, given: bool, dirty: bool) -> Tensor:
    """An output that has no gradient."""
    if output._requires_grad and given:
        return output.detach()
    if output._requires_grad:
        return output.detach_() if output._base is None else output
    return _alias(output) if given and not dirty else output


def _alias(tensor: Tensor) -> Tensor:
    """A view of all of it."""
    made = tensor.detach()
    note_view(made, tensor, (tensor,))
    return made


def _check_written(output: Tensor, count: int) -> None:
    """What autograd can't follow of a write to an input, as PyTorch says it."""
    if output._node is None and output._requires_grad:
        raise RuntimeError(LEAF_WRITTEN)
    if output._base is None:
        return
    if count > 1:
        raise RuntimeError(_VIEW_AND_MORE)
    if output._base._node is None and output._base._requires_grad:
        raise RuntimeError(VIEW_OF_LEAF)


def _mark_several(made: list, node: FunctionNode | None) -> None:
    """Of several outputs that have gradients none may be written to, if it is a view."""
    followed = [t for t in made if isinstance(t, Tensor) and node is not None and t._node is node]
    if len(followed) > 1:
        for t in made:
            if isinstance(t, Tensor) and t._base is not None and t._how.__class__ is FromFunction:
                t._how.of_several = True


def once_differentiable(backward: Callable) -> Callable:
    """For a ``backward`` that is no op on tensors: differentiating its result again is an error."""

    @functools.wraps(backward)
    def wrapped(ctx: FunctionCtx, *grads: Tensor | None) -> Any:
        with no_grad():
            found = backward(ctx, *grads)
        tracked = [g for g in grads if g is not None and g._requires_grad]
        if not (op_module.CONTEXT.get().grad and tracked):
            return found
        many = isinstance(found, (tuple, list))
        marked = tuple(
            g if g is None else _Forbidden.apply(g.detach(), *tracked) for g in (found if many else (found,))
        )
        return marked if many else marked[0]

    return wrapped


class _Forbidden(Function):
    """The identity, on the tape only to raise."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, *tracked: Tensor) -> Tensor:
        return g.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(_TWICE)
