"""Functions that Python makes anew: a closure that is defined in a loop, and compiled there at each turn.

They are different objects and the same program, as long as they have the code and the cells in common, so the
recordings of one serve the next: what they find in the cells is guarded anyway. This is what a compiler that
keeps its recordings with the code does of itself.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from jtorch.compile.options import Options

_made: weakref.WeakValueDictionary[tuple, Any] = weakref.WeakValueDictionary()  # by what they have in common
_USUAL = Options()


def same(function: Any, options: Options, make: Callable[[Any, Options], Any]) -> Any:
    """The compiled function that ``make`` gave for one like ``function``, if that is in use still, or a new
    one. To compile one and the same function twice gives two, and so do options other than the usual.
    """
    if type(function) is not types.FunctionType or function.__dict__ or options != _USUAL:
        return make(function, options)
    shared = _in_common(function)
    known = _made.get(shared)
    if known is not None and known.function is not function and _in_common(known.function) == shared:
        return known
    made = _made[shared] = make(function, options)
    return made


def _in_common(function: types.FunctionType) -> tuple[Any, ...]:
    """What tells functions apart, by identity: it is alive as long as one of them is."""
    parts = (*(function.__closure__ or ()), *(function.__defaults__ or ()))
    named = sorted((function.__kwdefaults__ or {}).items())
    names = function.__module__, function.__qualname__, function.__doc__
    keywords = tuple((name, id(value)) for name, value in named)
    counts = len(function.__closure__ or ()), id(function.__globals__), id(function.__code__)
    return (*counts, *map(id, parts), *keywords, *names)
