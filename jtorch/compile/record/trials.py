"""Disabled functions are seen at work before a recording runs them: in a call that is eager for it.

A recording runs them, too, and what they have done (a line printed, a step of an environment) it cannot take
back. So it must not find out then that they do what no plan can follow: write to an argument, give a tensor
with a graph. The first call that meets such a function runs eagerly, and tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from jtorch.compile.record.callees import DRAWS, Callee
from jtorch.compile.record.handed import Kept
from jtorch.compile.record.tree import flatten, flatten_call
from jtorch.core import op as op_module, watch
from jtorch.core.device_array import on_host
from jtorch.core.errors import CompileError, Restart, user_source
from jtorch.core.generator import default_generator
from jtorch.eager.tensor import Tensor

_RAN = "a function that is disabled for compiling has run by then"
CURRENT: ContextVar[Trial | Resumed | None] = ContextVar("jtorch_trial", default=None)


class Unseen(Restart):
    """The recording has met a disabled function that nobody has seen at work: the call runs eagerly."""


class Seen:
    """The disabled functions that one compiled function has met, by their code: what is wrong with each."""

    def __init__(self) -> None:
        self._problems: dict[Any, str] = {}

    def check(self, function: Any, is_first: bool) -> None:
        """Raise before a recording runs ``function``, where it may not. Only the first one it meets can still
        be put off."""
        if not is_first:
            return
        if _code_of(function) not in self._problems:
            raise Unseen
        for problem in filter(None, self._problems.values()):
            raise CompileError(problem)

    def refuse(self, error: CompileError) -> None:
        """A call has ended by this error after one of them had run, so it could not begin again in eager
        mode: later ones do, before any runs."""
        if self.avoid(str(error)):
            error.args = (f"{error} As {_RAN}, the call ends here: later ones run eagerly.",)

    def avoid(self, problem: str) -> bool:
        """Later calls run eagerly, before any of them runs; whether that is new."""
        is_new = bool(self._problems) and not any(self._problems.values())
        if is_new:
            self._problems = dict.fromkeys(self._problems, problem)
        return is_new

    def note(self, function: Any, problem: str = "") -> None:
        """It was seen at work."""
        code = _code_of(function)
        self._problems[code] = self._problems.get(code) or problem


@contextmanager
def _in_force(call: Trial | Resumed) -> Iterator[None]:
    token = CURRENT.set(call)
    try:
        yield
    finally:
        CURRENT.reset(token)


class Trial:
    """One eager call."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._at = default_generator.position()
        self._draws = False  # the compiled function does
        self._drawing: list[tuple[Any, Callee]] = []  # callees that do
        self._returned: list[tuple[Any, Callee, Any, int]] = []  # versions of what they have returned

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Disabled functions that run inside are looked at."""
        try:
            with _in_force(self):
                yield
        finally:
            self._draws |= default_generator.position() != self._at
            for function, callee in self._drawing if self._draws else ():
                self._seen.note(function, str(callee.error(*DRAWS)))
            for function, callee, cell, version in self._returned:
                if int(cell[0]) != version:
                    self._seen.note(function, str(callee.returns_kept()))

    def run(self, function: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``"""
        leaves, structure = flatten_call(args, kwargs)
        callee = Callee(function, name, user_source(), [], structure)
        callee.result = ()  # nothing is recorded
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        versions = [int(tensor._cell[0]) for tensor in tensors]
        attributes = [dict(vars(tensor)) for tensor in tensors]
        elements = list(map(_elements, tensors))
        kept, mode = Kept(leaves.containers, args, kwargs), op_module.CONTEXT.get().mode
        before = default_generator.position()
        self._draws |= before != self._at
        token = CURRENT.set(None)
        try:
            with watch.listening() as heard:
                returned = [function(*args, **kwargs)]
        finally:
            CURRENT.reset(token)
            self._at = default_generator.position()
            if self._at != before:
                self._drawing.append((function, callee))
        try:
            same_versions = versions == [int(tensor._cell[0]) for tensor in tensors]
            if not same_versions or elements != list(map(_elements, tensors)):
                raise callee.writes_argument()
            if not all(map(_has_the_same, map(vars, tensors), attributes)):
                raise callee.sets_attribute()
            changes_mode = op_module.CONTEXT.get().mode != mode
            callee.check_call((args, kwargs), leaves, heard, kept, changes_mode)
            callee.results(returned, tensors)  # which nobody here may have a name for
            cells = [leaf._cell for leaf in flatten(returned[0])[0] if isinstance(leaf, Tensor)]
            self._returned += [(function, callee, cell, int(cell[0])) for cell in cells]
            self._seen.note(function)
        except CompileError as problem:
            self._seen.note(function, str(problem))
        return returned[0]


def _elements(tensor: Tensor) -> bytes:
    return on_host(tensor._data).tobytes()


class Resumed:
    """An eager call in the place of a recording that the program ended: disabled functions that have run
    there, and cannot again, give what they gave."""

    def __init__(self, error: CompileError) -> None:
        self._error, self._left = error, list(error.answers)

    def watching(self) -> AbstractContextManager[None]:
        """Disabled functions that run inside ask this."""
        return _in_force(self)

    def run(self, function: Callable, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """``function(*args, **kwargs)``, or what it gave."""
        if not self._left:
            return function(*args, **kwargs)
        answer = self._left.pop(0)
        if _code_of(answer.function) != _code_of(function):  # rounding has decided which way it goes
            raise self._error
        return answer.again()


def _has_the_same(now: dict[str, Any], before: dict[str, Any]) -> bool:
    return now.keys() == before.keys() and all(now[name] is before[name] for name in now)


def _code_of(function: Any) -> Any:
    """What closures and methods made anew have in common."""
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None) or type(function)
