"""What a recorded function returned, leaf by leaf, and the text by which a replay gives it.

The text is part of the function that ``run/caller.py`` writes, which hands itself in as ``writer``: in it
``r3`` is the array of output 3, ``a1`` argument 1 and ``d1`` its array, ``y2`` result 2.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jtorch.compile.observe.guards import by_value
from jtorch.compile.record.arrays import given, is_lent
from jtorch.compile.record.inputs import ArrayInput
from jtorch.core.dim import is_symbolic
from jtorch.eager.binding import APPLY
from jtorch.eager.evaluate import EAGER
from jtorch.eager.grad_mode import enable_grad
from jtorch.eager.node import BACKWARD_TWICE, Node
from jtorch.eager.rebase import OneOfSeveral
from jtorch.eager.results import note_view, off_tape
from jtorch.eager.tensor import Size, Tensor, wrap

Named = Callable[[Any], Any]  # what a tensor is to a recording: its number among the arguments, or itself


class Result:
    """One leaf of what the function returned."""

    order: ClassVar[int] = 0  # results that name others are written after those
    requires_grad = False  # has a graph, to be differentiated outside
    value: Any = None  # what the function gave, where a replay gives it again

    def text(self, writer: Any) -> str:
        """The expression that makes it."""
        raise NotImplementedError

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        """What a replay's text is made from, in a form that compares with another recording's."""
        return (type(self),)


@dataclass
class OnTape(Result):
    """Output ``index`` of the graph, as a tensor that may have a graph outside.

    ``broken`` is the error of a backward pass through it, ``version`` how often its memory was changed.
    """

    index: int
    requires_grad: bool = False
    broken: str = ""
    retains_grad: bool = False
    version: int = 0

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return (
            type(self), self.index, self.requires_grad, self.broken, self.retains_grad, self.version,
        )  # fmt: skip


@dataclass
class Output(OnTape):
    """A tensor of its own. ``is_leaf``: it requires grad and has no graph; it is of class ``cls`` then."""

    is_leaf: bool = False
    cls: type = Tensor

    def text(self, writer: Any) -> str:
        made = self._new(writer)
        type = writer.output_type(self.index)
        if self.broken and (self.retains_grad or any(map(is_symbolic, type.shape))):
            made = _broken(self, made, writer)
        elif self.broken:  # a loss, mostly: one node serves all calls
            node = writer.name("N", UsedGraph((), (self.broken,), (), (type.shape, type.dtype)))
            made = writer.keep(made)
            writer.add(f"{made}._node, {made}._requires_grad = {node}, True")
        if self.version:
            made = writer.keep(made)
            writer.add(f"{made}._cell[0] = {self.version}")
        return made

    def _new(self, writer: Any) -> str:
        if not self.is_leaf:
            return f"wrap(r{self.index})"
        return _of_class(f"leaf(r{self.index})", self.cls, writer)

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return *super().facts(inputs, named), self.is_leaf, self.cls


@dataclass
class Part(OnTape):
    """A tensor over the memory of output ``index`` that it shares with other results.

    It is a view of result ``base``, by ``steps`` where the tape may follow writes to it; or it is none, and
    its version is that of result ``cell``, or its own where that is None.
    """

    chain: tuple = ()
    base: int | None = None
    cell: int | None = None
    steps: tuple = ()
    is_leaf: bool = False
    cls: type = Tensor

    @property
    def order(self) -> int:  # type: ignore[override]
        return 1 if self.base is None else 2

    def text(self, writer: Any) -> str:
        if self.steps:
            made = _by_steps(f"y{self.base}", self.steps, writer)
        else:
            writer.names["view"] = view_of_array
            other = self.cell if self.base is None else self.base
            cell = f"[{self.version}]" if other is None else f"y{other}._cell"
            base = None if self.base is None else f"y{self.base}"
            made = f"view(r{self.index}, {_written(self.chain, writer)}, {cell}, {base})"
        if self.is_leaf:
            made = writer.keep(_of_class(made, self.cls, writer))
            writer.add(f"{made}._requires_grad = True")
        return _broken(self, made, writer) if self.broken else made

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        place = self.base, self.cell, _chain_facts([step[:2] for step in self.steps])
        return *super().facts(inputs, named), _chain_facts(self.chain), place, self.is_leaf, self.cls


@dataclass
class Number(Result):
    """Output ``index`` as a float."""

    index: int

    def text(self, writer: Any) -> str:
        return f"r{self.index}.item()"

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), self.index


@dataclass
class ViewOf(Result):
    """Memory of an outside array through a chain of views. ``value`` is what the function gave.

    It is a view by ``steps``, where they are known, of the tensor ``root`` from outside, or of ``base``, one
    that was made inside over that memory and is as a result. ``version`` is None where others outside count
    the same writes.
    """

    source: ArrayInput
    value: Tensor
    chain: tuple = ()
    is_leaf: bool = False
    cls: type = Tensor
    root: Tensor | None = None
    base: ViewOf | None = None
    steps: tuple = ()
    version: int | None = None

    def text(self, writer: Any) -> str:
        key = ("of", id(self.value))
        if key not in writer.views:  # the base of other results, too
            writer.views[key] = writer.keep(self._made(writer))
        return writer.views[key]

    def _made(self, writer: Any) -> str:
        base = None if self.base is None else self.base.text(writer)
        if self.steps:
            made = _by_steps(base or writer.tensor(self.root), self.steps, writer)
            if self.is_leaf:
                made = writer.keep(made)
                writer.add(f"{made}._requires_grad = True")
            return _of_class(made, self.cls, writer)
        writer.names["view"] = view_of_array
        k = self.source.argument
        array = writer.name("k", self.source.array) if k is None else f"d{k}"
        if base is None and self.value._base is not None:
            base = writer.tensor(self.value._base) if k is None else f"a{k}"
        cell = self._cell(writer)
        made = f"view({array}, {_written(self.chain, writer)}, {cell}, {base}, {self.is_leaf})"
        return _of_class(made, self.cls, writer)

    def _cell(self, writer: Any) -> str:
        cell, k = self.value._cell, self.source.argument
        if self.version is None and k is None:
            return str(writer.name("v", cell))
        if self.version is None and any(cell is t._cell for t in writer.plan.capture.traced.values()):
            return f"a{k}._cell"
        key = ("cell", id(cell))
        if key not in writer.views:
            writer.views[key] = writer.keep(f"[{self.version or 0}]")
        return writer.views[key]

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        root = None if self.root is None else named(self.root)
        base = None if self.base is None else self.base.facts(inputs, named)
        place = inputs[id(self.source)], _chain_facts(self.chain), root, base, self.version
        return type(self), *place, self.is_leaf, self.cls


@dataclass
class ViewOnTape(Result):
    """A view of ``leaf``, a tensor from outside that requires grad, with a graph of the views of ``chain``
    alone: eager mode makes it. ``inner``: another result was computed from it."""

    leaf: Tensor
    chain: tuple = ()
    inner: bool = False

    def text(self, writer: Any) -> str:
        writer.names["view_on_tape"] = view_on_tape
        made = writer.tensor(self.leaf)
        steps: tuple[int, ...] = ()
        for op, statics in self.chain:
            steps = (*steps, id(statics))
            if steps not in writer.views:  # views of one view share that one
                writer.views[steps] = writer.keep(f"view_on_tape({_written((op, statics), writer)}, {made})")
            made = writer.views[steps]
        return made

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), named(self.leaf), _chain_facts(self.chain), self.inner


@dataclass
class Numbered(Result):
    """The one with number ``index`` of its kind."""

    index: int

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), self.index


@dataclass
class Argument(Numbered):
    """Argument ``index`` itself."""

    def text(self, writer: Any) -> str:
        if not is_lent(writer.leaves[self.index]):
            return f"a{self.index}"
        writer.names["given"] = given
        return f"given(a{self.index})"


@dataclass
class Container(Numbered):
    """Container ``index`` of the arguments, inner ones counted first."""

    def text(self, writer: Any) -> str:
        return f"containers[{self.index}]"


@dataclass
class Again(Numbered):
    """Result ``index`` once more."""

    order: ClassVar[int] = 3

    def text(self, writer: Any) -> str:
        return f"y{self.index}"


@dataclass
class ArrayOf(Numbered):
    """The array that result ``index``, a tensor, lies in; with ``is_number`` its element."""

    is_number: bool = False
    order: ClassVar[int] = 3

    def text(self, writer: Any) -> str:
        return f"y{self.index}._data" + ("[()]" if self.is_number else "")

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return *super().facts(inputs, named), self.is_number


@dataclass
class GradOf(Result):
    """What ``value.grad`` is after the call."""

    value: Tensor

    def text(self, writer: Any) -> str:
        return f"{writer.tensor(self.value)}.grad"

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), named(self.value)


@dataclass
class ViewOfGrad(Result):
    """The memory of what ``value.grad`` is after the call, through a chain of views; ``based`` on it."""

    value: Tensor
    chain: tuple = ()
    based: bool = False

    def text(self, writer: Any) -> str:
        writer.names["view"] = view_of_array
        grad = writer.keep(f"{writer.tensor(self.value)}.grad")
        base = grad if self.based else None
        return f"view({grad}._data, {_written(self.chain, writer)}, {grad}._cell, {base})"

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), named(self.value), _chain_facts(self.chain), self.based


@dataclass
class Same(Result):
    """``value`` itself."""

    value: Any

    def text(self, writer: Any) -> str:
        return writer.name("V", self.value)

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), by_value(self.value)


@dataclass
class Copy(Result):
    """A copy of ``value``, as it was when the function returned it."""

    value: Any

    def text(self, writer: Any) -> str:
        writer.names["deepcopy"] = copy.deepcopy
        return f"deepcopy({writer.name('V', copy.deepcopy(self.value))})"

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        try:
            return type(self), pickle.dumps(self.value)
        except Exception:  # whatever a class says that cannot be pickled
            return type(self), id(self.value)


@dataclass
class SizeOf(Result):
    """A number made of sizes, which Python computes at each call."""

    number: Any

    def text(self, writer: Any) -> str:
        return self.number.text

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), self.number.text


@dataclass
class ShapeOf(Result):
    """A shape with symbols."""

    shape: Size

    def text(self, writer: Any) -> str:
        writer.names["Size"] = Size
        return f"Size({tuple(self.shape)})"

    def facts(self, inputs: dict[int, int], named: Named) -> tuple:
        return type(self), str(tuple(self.shape))


def _written(value: Any, writer: Any) -> str:
    """What gives ``value``, the parts of a view, at a call: a name, or text where sizes are in it."""
    if is_symbolic(value):
        return value.text
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    if not any(map(_has_sizes, parts)):
        return writer.name("c", value)
    texts = [_written(part, writer) for part in parts]
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {text}" for name, text in zip(value, texts, strict=True)) + "}"
    return f"({''.join(f'{text}, ' for text in texts)})"


def _has_sizes(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return is_symbolic(value) or any(map(_has_sizes, parts))


def _chain_facts(chain: Sequence[Any]) -> str:
    return str([(op.name, statics) for op, statics in chain])


def _of_class(made: str, cls: type, writer: Any) -> str:
    if cls is Tensor:
        return made
    writer.names["of_class"] = of_class
    return f"of_class({made}, {writer.name('C', cls)})"


def _by_steps(made: str, steps: tuple, writer: Any) -> str:
    """The view of the tensor ``made`` by ``steps``."""
    writer.names["viewed"] = viewed
    for step in steps:
        made = f"viewed({made}, {_written(step, writer)})"
    return made


def _broken(result: OnTape, made: str, writer: Any) -> str:
    writer.names["broken"] = broken
    return f"broken({made}, {writer.name('m', result.broken)}, {result.retains_grad})"


# -- what that text calls ------------------------------------------------------------------------------------


def view_of_array(
    array: np.ndarray, chain: tuple, cell: list, base: Any, requires_grad: bool = False
) -> Tensor:
    """Memory through a chain of views: a result that aliases ``base``, whose version it shares."""
    for op, statics in chain:
        array = EAGER.table[op.index](array, **statics)
    out = wrap(array)
    out._cell, out._base, out._how = cell, base, None
    out._requires_grad = requires_grad
    return out


def viewed(tensor: Tensor, step: tuple) -> Tensor:
    """A view of ``tensor`` by one step of a chain, off the tape, that remembers how it was made; ``several``
    is (place, name) where that was a function that gives several."""
    op, statics, several = step
    out = off_tape(EAGER.table[op.index](tensor._data, **statics), tensor._cell)
    how = (tensor, op, *(statics[name] for name in op.statics))
    note_view(out, tensor, how if several is None else OneOfSeveral.of(how, *several))
    return out


def view_on_tape(step: tuple, tensor: Tensor) -> Tensor:
    """A view of ``tensor`` by one step of a chain, with its node on the tape, whatever the grad mode is."""
    op, statics = step
    with enable_grad():
        return APPLY[op.name](tensor, **statics)


def of_class(tensor: Tensor, cls: type) -> Tensor:
    """``tensor`` as one of a class of the same layout, e.g. a Parameter."""
    tensor.__class__ = cls
    return tensor


def broken(tensor: Tensor, sentence: str, retains_grad: bool) -> Tensor:
    """A result from which nobody can go backward."""
    tensor._node = UsedGraph((), (sentence,), (), (tensor._data.shape, tensor._data.dtype))
    tensor._requires_grad = True
    if retains_grad:
        tensor.retain_grad()
    return tensor


class UsedGraph(Node):
    """The graph of a result that needs what the compiled function freed, or changed in place since: of a loss
    that the function itself has gone backward from, mostly. Users see its name where a tensor is printed."""

    __slots__ = ()
    broken = True

    def __repr__(self) -> str:
        freed = self.saved[0] == BACKWARD_TWICE
        why = "backward() has been through it" if freed else "what it saved has been changed"
        return f"<{self.name()}: {why}, in the compiled function>"

    def backward(self, xp: Any, g: Any) -> Any:
        raise RuntimeError(self.saved[0])

    backward_on_tensors = backward

    def refuse(self, name: str) -> None:
        """A pass inside the compiled function ``name`` is about to reach this: the same error."""
        raise RuntimeError(self.saved[0])
