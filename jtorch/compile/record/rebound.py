"""``p.data = y`` of a tensor from outside: each call gives ``p`` the memory of what it has computed.

A plan reads the memory of tensors from outside where it lay when it was recorded. Of one that gets other
memory at each call it takes what is there: the function is recorded once more (``Rebinding``) with an array
of its own over that memory, so that nothing else that lies there is taken for it. It is read only: whatever
else the plan writes must lie elsewhere (``Guarded``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jtorch.compile.observe.effects import Effects, Place
from jtorch.compile.record.inputs import ArrayInput, of
from jtorch.compile.record.shared_memory import overlap
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import CompileError, Restart
from jtorch.eager.tensor import Tensor, set_memory


class Rebinding(Restart):
    """The function gives ``tensors`` other memory: record it with what each call finds there."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        super().__init__()
        self.tensors = tuple(tensors)


class Memory(Place):
    """The memory of the tensor ``container``."""

    def label(self) -> str:
        return "the memory of a tensor"

    def get(self) -> Any:
        return self.container._data

    def put(self, value: Any) -> None:
        set_memory(self.container, value._data)

    def snapshot(self) -> Callable[[], None]:
        before = self.container._data
        return lambda: set_memory(self.container, before)

    def undoing(self, value: Any) -> Callable[[], None]:
        """While the function is recorded nobody is told."""
        tensor, before = self.container, self.container._data
        return lambda: setattr(tensor, "_data", before)


def with_own_arrays(effects: Effects, tensors: Iterable[Any]) -> dict[int, tuple[np.ndarray, Any]]:
    """Have each of ``tensors`` lie in an array of its own over the same memory until the recording ends:
    these arrays by their ids, each with its tensor."""
    found = {}
    for tensor in tensors:
        effects.callback(Memory(tensor, "data").undoing(None))
        tensor._data = tensor._data[...]
        found[id(tensor._data)] = tensor._data, tensor
    return found


def may_be_rebound(tensor: Any, value: Any) -> bool:
    """Whether a replay can give ``tensor`` the memory of ``value``: that of what the function has computed,
    laid out alike, and of nothing else."""
    before, made = tensor._data, value._data
    if tensor._node is not None or tensor._base is not None or not hasattr(made, "storage"):
        return False
    storage = made.storage
    is_new = storage.source is None and storage.grad is None and not storage.lent and storage.picked is None
    if not is_new or made.chain or not made.in_order or type(value) is not Tensor:
        return False
    is_plain = type(before) is np.ndarray and before.flags.c_contiguous and before.flags.writeable
    is_known = not any(map(is_symbolic, (*made.shape, *before.shape)))
    return (is_plain or hasattr(before, "storage")) and is_known and _kind(made) == _kind(before)


def _kind(data: Any) -> tuple[Any, ...]:
    return tuple(data.shape), data.dtype


def check_rebound(tracer: Any, leaves: Iterable[Any], outs: Iterable[Any]) -> list[Any]:
    """The tensors that the function gives other memory, as a list. Raises CompileError where something else
    would have to be done with what they had than to read it, or with a tensor that a caller has passed."""
    found = [tensor for _, tensor in tracer.own_arrays.values()]
    if not found:
        return found
    grads = [grad for _, _, grad in tracer.grads.values()]
    inputs = of(ArrayInput, tracer.inputs)
    for does, is_done in (
        ("which is an argument, too", any(leaf is tensor for leaf in leaves for tensor in found)),
        (
            "whose elements it changes in place before",
            any(e.rebound is not None and e.written for e in inputs),
        ),
        ("and keeps what it had, or a view", any(_had(tracer, kept) for kept in (*outs, *grads))),
        ("which lies in memory that it also writes", any(_overlaps(tracer, e) for e in inputs if e.written)),
        (
            "beside what is disabled for compiling, or other processes",
            bool(tracer.callees or tracer.exchanges),
        ),
    ):
        if is_done:
            raise CompileError(
                f"'{tracer.name}' gives a tensor other memory (.data =) {does}, which a recording would not "
                "do again: change its elements by copy_(), or do it outside."
            )
    return found


def _overlaps(tracer: Any, entry: ArrayInput) -> bool:
    """Whether a tensor that gets other memory lies where this input does, under another name."""
    own = tracer.own_arrays.values()
    return entry.rebound is None and any(overlap(entry.array, array) for array, _ in own)


def _had(tracer: Any, value: Any) -> bool:
    """Whether ``value`` lies in memory that a tensor had before it got other memory."""
    data = getattr(value, "_data", value)
    if id(data) in tracer.own_arrays:
        return True
    storage = getattr(getattr(data, "memory", data), "storage", None)
    source = getattr(storage, "source", None)
    had = source is not None and source.rebound is not None
    return (
        had or id(getattr(value, "_base", None)) in tracer.rebound
    )  # a view, which a replay takes before that
