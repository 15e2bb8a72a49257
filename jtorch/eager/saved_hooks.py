"""Hooks on what the tape saves: ``pack`` when a tensor is saved, ``unpack`` each time it is needed.

Nodes know nothing of it. While hooks are in force a watcher looks at each new node, packs the arrays that it
saved, and gives it a class whose ``check_saved`` unpacks. Ops pay nothing when no hooks are in force.
Source: https://docs.pytorch.org/docs/stable/autograd.html#hooks-for-saved-tensors
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from jtorch.eager.grad_mode import no_grad
from jtorch.eager.node import Node, complex_class, node_class, saved_arrays, watched
from jtorch.eager.tensor import Tensor, wrap
from jtorch.eager.unusual import WATCHERS

_WRITTEN = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
    "not "
    "be modified by in-place operations in order to avoid unexpected side-effects. Please open an issue if "
    "you "
    "need to perform in-place operations on the input to a pack hook."
)

Pair = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]
DECLINED: Any = object()  # what the library's own ``pack`` gives for a tensor that it leaves to other hooks
_NEVER_WRITTEN = [0]  # in the place of the version cell of what is packed


class Refused(NamedTuple):
    """What is in force where no hooks may be entered."""

    message: str


# The pairs in force in this thread of control, the innermost last. Compiled functions run eagerly then.
IN_FORCE: ContextVar[tuple[Pair, ...] | Refused] = ContextVar("jtorch_saved_tensors_hooks", default=())
_lock = threading.Lock()
_entered = 0  # blocks in force in any thread: the watcher is there while it is not 0


class saved_tensors_hooks:  # noqa: N801
    """``with saved_tensors_hooks(pack, unpack)``: what ops save is ``pack(tensor)``, undone by ``unpack``.

    ``pack`` gets the tensor off the tape and may return anything; ``unpack`` must give back a tensor of the
    same elements, and is called at each use. Of nested blocks the innermost counts. Changes in place of
    saved tensors are not noticed then.

    >>> import jtorch
    >>> x = jtorch.tensor(3.0, requires_grad=True)
    >>> with jtorch.autograd.graph.saved_tensors_hooks(lambda t: print("saved", t), lambda t: t):
    ...     y = x.exp()
    saved tensor(20.0855)

    Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.saved_tensors_hooks
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        found = IN_FORCE.get()
        if isinstance(found, Refused):
            raise RuntimeError(found.message)
        IN_FORCE.set((*found, (self.pack_hook, self.unpack_hook)))
        _count(+1)

    def __exit__(self, *exception: Any) -> None:
        IN_FORCE.set(_pairs()[:-1])
        _count(-1)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Entering ``saved_tensors_hooks`` inside raises RuntimeError(error_message).

    >>> import jtorch
    >>> with jtorch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     try:
    ...         with jtorch.autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    not here

    Source: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.graph.disable_saved_tensors_hooks
    """
    if _pairs():
        raise RuntimeError(error_message)
    before = IN_FORCE.get()
    try:  # before the change: Ctrl-C may come right after it
        IN_FORCE.set(Refused(error_message))
        yield
    finally:
        IN_FORCE.set(before)


def _pairs() -> tuple[Pair, ...]:
    found = IN_FORCE.get()
    return () if isinstance(found, Refused) else found


def leave_all() -> bool:
    """Leave all blocks that are in force in this thread of control; whether there were any."""
    found = bool(IN_FORCE.get())
    _count(-len(_pairs()))
    IN_FORCE.set(())
    return found


def _count(change: int) -> None:
    global _entered
    with _lock:
        _entered += change
        there = _pack_node in WATCHERS
        if _entered and not there:
            WATCHERS.append(_pack_node)
        elif there and not _entered:
            WATCHERS.remove(_pack_node)


class Packed:
    """One saved tensor in the form that ``pack`` gave it, with the ``unpack`` that was in force then."""

    __slots__ = ("kept", "unpack")

    def __init__(self, kept: Any, unpack: Callable[[Any], Tensor]) -> None:
        self.kept, self.unpack = kept, unpack

    def tensor(self) -> Tensor:
        found = self.unpack(self.kept)
        if not isinstance(found, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found)}"
            )
        return found


def pack(tensor: Tensor) -> Packed | None:
    """``tensor`` packed by the innermost hooks that take it; None where there are none."""
    pairs = _pairs()
    return _packed(wrap(tensor._data), pairs) if pairs else None


def _packed(tensor: Tensor, pairs: tuple[Pair, ...]) -> Packed | None:
    for pack_hook, unpack_hook in reversed(pairs):
        with no_grad():
            kept = pack_hook(tensor)
        if tensor._version:
            raise RuntimeError(_WRITTEN)
        if kept is not DECLINED:
            return Packed(kept, unpack_hook)
    return None


def _pack_node(node: Node) -> None:
    pairs = _pairs()
    if not pairs or node.foreign:  # custom Functions pack what they save themselves
        return
    before = node.saved
    saved = list(before)
    for position, _ in saved_arrays(node.op):
        saved[position] = _packed_entry(saved[position], pairs)
    if any(new is not old for new, old in zip(saved, before, strict=True)):
        node.versions = _versions_of_others(node, saved)
        node.saved = tuple(saved)
        node.__class__ = _packed_class(type(node))


def _versions_of_others(node: Node, saved: list[Any]) -> tuple:
    """``node.versions`` of what no hook took: changes of that in place are still an error."""
    names = watched(node.op)
    if node.op.variadic or len(node.versions) != 2 * len(names):
        return ()
    versions = list(node.versions)
    for k, name in enumerate(names):
        if isinstance(saved[node.op.save_list.index(name)], Packed):
            versions[2 * k : 2 * k + 2] = _NEVER_WRITTEN, 0
    return tuple(versions)


def _packed_entry(value: Any, pairs: tuple[Pair, ...]) -> Any:
    if isinstance(value, tuple):  # a variadic argument
        entries = tuple(_packed_entry(v, pairs) for v in value)
        return value if all(a is b for a, b in zip(entries, value, strict=True)) else entries
    if not hasattr(value, "dtype"):  # a number, or nothing
        return value
    return _packed(wrap(value), pairs) or value


def _unpacked_entry(entry: Any) -> Any:
    if isinstance(entry, tuple):
        return tuple(map(_unpacked_entry, entry))
    return entry.tensor()._data if isinstance(entry, Packed) else entry


_packed_classes: dict[type[Node], type[Node]] = {}


def _packed_class(plain: type[Node]) -> type[Node]:
    """The subclass of an op's node class for nodes whose saved arrays are packed."""
    found = _packed_classes.get(plain)
    if found is None:
        facts: dict[str, Any] = {
            "__slots__": (), "__module__": __name__, "check_saved": _check_saved, "backward": Node.backward,
        }  # fmt: skip
        real = node_class(plain.op)
        found = type(plain.__name__, (real,), facts)
        if plain is not real:  # of a complex result: conjugates what the packed node gives
            found = complex_class(found)
        _packed_classes[plain] = found
    return found


def _check_saved(self: Node) -> tuple:
    return tuple(map(_unpacked_entry, Node.check_saved(self)))
