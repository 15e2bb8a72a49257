"""Functions that Python makes anew: a closure that is defined in a loop, and compiled there at each turn.

They are different objects and the same program, as long as they have the code and the cells in common, so the
recordings of one serve the next: what they find in the cells is guarded anyway. This is what a compiler that
keeps its recordings with the code does of itself.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import Any

from jtorch.compile.observe.guards import content_of
from jtorch.compile.options import Options

# by what they have in common
_latest: weakref.WeakValueDictionary[tuple, Any] = weakref.WeakValueDictionary()
_USUAL = Options()


def share(compiled: Any) -> None:
    """Give a new compiled function the recordings of the latest one whose function is like its own. One and
    the same function that is compiled twice has two, and so it is with options other than the usual."""
    function = compiled.function
    if type(function) is not types.FunctionType or compiled.options != _USUAL or _differs(function):
        return
    if any(type(value) is type(compiled) for value in _outside(function)):
        return  # it may be itself, and what it keeps there its own
    cells = map(id, function.__closure__ or ())
    common = id(function.__code__), id(function.__globals__), function.__qualname__, *cells
    known = _latest.get(common)
    _latest[common] = compiled
    if known is None or known.function is function or not is_like(known, function.__code__):
        return
    compiled.share(known, function.__code__)


def is_like(compiled: Any, code: types.CodeType) -> bool:
    """Whether the function has this code still, and no arguments of its own by now."""
    return compiled.function.__code__ is code and not _differs(compiled.function)


def _outside(function: types.FunctionType) -> Iterator[Any]:
    """What it finds by its variables."""
    yield from map(content_of, function.__closure__ or ())
    yield from (function.__globals__.get(name) for name in function.__code__.co_names)


def _differs(function: types.FunctionType) -> bool:
    """Whether it has what may be another thing for each function."""
    return bool(function.__defaults__ or function.__kwdefaults__ or function.__dict__)
