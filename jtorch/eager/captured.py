"""What a function may not write to while ``func.grad`` and its kin run it: tensors that it did not make.

Nothing marks what is made inside, so what the function can reach from outside is looked for, once, when it
writes to something for the first time: what it closes over, the globals it names, the objects it is bound to.
Writes outside of such functions ask for nothing but whether there are any.
"""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor

UNDER_WAY: list[Captured] = []

_REFUSED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
    "operation (aten::{name}) that would mutate a captured Tensor. This is not supported; please rewrite the "
    "function being transformed to explicitly accept the mutated Tensor(s) as inputs."
)
_OVERLOADED = {"add_", "sub_", "mul_", "div_"}  # PyTorch's sentence names the overload
_MOST = 50_000  # objects that are looked at


class Captured:
    """A call of a transformed function: the memory that it reaches without having been given it.

    ``inputs`` are what its derivatives are by: whatever depends on them was made inside.
    """

    def __init__(self, function: Callable, arguments: Any, inputs: list[Tensor]) -> None:
        self.inputs, self.thread = inputs, threading.get_ident()
        self.function: Callable | None = function
        self.arguments = arguments
        self.outer: dict[int, Any] = {}

    def __enter__(self) -> None:
        UNDER_WAY.append(self)

    def __exit__(self, *exception: Any) -> None:
        UNDER_WAY.remove(self)

    def holds(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` lies in that memory."""
        if self.thread != threading.get_ident():
            return False
        if self.function is not None:
            given = _keys(_reached((self.arguments, self.inputs)))
            reached = _keys(_reached((self.function,)))
            self.outer = {key: kept for key, kept in reached.items() if key not in given}
            self.function = None
        return not self.outer.keys().isdisjoint(_keys((tensor,))) and not self._made(tensor)

    def _made(self, tensor: Tensor) -> bool:
        own = {t._node or t for t in self.inputs}
        stack = [tensor._node or tensor]
        seen = set(stack)
        while stack:
            target = stack.pop()
            if target in own:
                return True
            for edge in target.edges if isinstance(target, Node) else ():
                if edge is not None and edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
        return False


def _keys(tensors: Iterable[Tensor]) -> dict[int, Any]:
    """What tells the memory of ``tensors``, by id; kept, so that nothing else gets the id."""
    keys: dict[int, Any] = {}
    for tensor in tensors:
        memory = tensor._data
        while memory.__class__ is np.ndarray and memory.base.__class__ is np.ndarray:  # what .data shares
            memory = memory.base
        keys[id(memory)], keys[id(tensor._cell)] = memory, tensor._cell
    return keys


def refuse_captured(tensor: Tensor, name: str) -> None:
    """Raise PyTorch's error where a transformed function writes to a tensor that it did not make."""
    if any(call.holds(tensor) for call in UNDER_WAY):
        raise RuntimeError(_REFUSED.format(name=f"{name}.Tensor" if name in _OVERLOADED else name))


def _reached(roots: tuple) -> Iterator[Tensor]:
    """The tensors that ``roots`` lead to."""
    stack, seen = [roots], {id(roots)}
    while stack and len(seen) < _MOST:
        for inner in _inside(stack.pop()):
            if id(inner) in seen or isinstance(inner, (str, bytes, type, types.ModuleType)):
                continue
            seen.add(id(inner))
            if isinstance(inner, Tensor):
                yield inner
            else:
                stack.append(inner)


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from list(value)
    elif isinstance(value, types.FunctionType):
        yield from _behind_function(value)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    else:
        yield from list(getattr(value, "__dict__", {}).values())


def _behind_function(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        if cell != _EMPTY:
            yield cell.cell_contents
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
    if not function.__module__ or not function.__module__.startswith("jtorch."):
        known, codes = function.__globals__, [function.__code__]
        while codes:
            code = codes.pop()
            yield from (known[name] for name in code.co_names if name in known)
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]


_EMPTY = types.CellType()
