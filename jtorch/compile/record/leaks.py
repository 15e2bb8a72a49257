"""Who kept a traced value after its recording: for the error of whoever uses it then."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable
from typing import Any

from jtorch.compile.observe.guards import in_words
from jtorch.core.errors import CompileError, user_source


def leaked(tracer: Any, values: Iterable[Any]) -> CompileError:
    """The error of using traced values when ``tracer`` is done."""
    where = kept = ""
    for value in values:
        if getattr(value, "tracer", None) is tracer:
            where, kept = _made_at(tracer, value), _keeper(value)
            break
    held = f" It is kept by {kept}." if kept else ""
    return CompileError(
        f"{user_source()}: a tensor made while '{tracer.name}' was being compiled{where} is used after "
        f"that.{held} It has no elements; return it from the function instead of storing it outside."
    )


def _made_at(tracer: Any, value: Any) -> str:
    var = value.var if hasattr(value, "var") else value.storage.current
    made = next((e for e in tracer.eqns if any(v is var for v in e.outputs)), None)
    return f" ({made.source})" if made is not None and made.source is not None else ""


def _keeper(value: Any) -> str:
    """A name for the place that holds ``value``, or the tensor around it; "" where none is found."""
    tensors = [r for r in gc.get_referrers(value) if getattr(r, "_data", None) is value]
    for held in (*tensors, value):
        names = [_place(holder, held) for holder in gc.get_referrers(held) if holder is not tensors]
        found = next(filter(None, names), "")
        if found:
            return found
    return ""


def _place(holder: Any, held: Any) -> str:
    """Where ``holder`` has ``held``: ``a``, ``a[0]``, an attribute."""
    if isinstance(holder, dict):
        key = next((k for k, v in holder.items() if v is held), None)
        return "" if key is None else _variable(holder, key) or _within(holder, f"[{in_words(key)}]")
    if isinstance(holder, list):
        return _within(holder, f"[{next(k for k, v in enumerate(holder) if v is held)}]")
    return _cell(holder) or _attribute(holder, held)


def _attribute(owner: Any, held: Any) -> str:
    """Objects hold their attributes themselves until somebody asks for their dict."""
    facts = getattr(owner, "__dict__", None)
    name = next((k for k, v in facts.items() if v is held), None) if isinstance(facts, dict) else None
    return f"'{name}' of a {type(owner).__name__}" if name is not None else ""


def _within(container: Any, place: str) -> str:
    """``place`` of a list or dict, by the name of what holds that."""
    for holder in gc.get_referrers(container):
        key = None
        if isinstance(holder, dict):
            key = next((k for k, v in holder.items() if v is container), None)
        name = _variable(holder, key, place) if key is not None else _cell(holder, place)
        if name:
            return name
    return ""


def _variable(namespace: dict, key: Any, place: str = "") -> str:
    """A variable of a module, or an attribute of an object, by the dict it is in."""
    if namespace.get("__name__") and "__builtins__" in namespace:
        return f"'{key}{place}' of the module {namespace['__name__']}"
    for owner in gc.get_referrers(namespace):
        if getattr(owner, "__dict__", None) is namespace and not isinstance(owner, types.ModuleType):
            return f"'{key}{place}' of a {type(owner).__name__}"
    return ""


def _cell(cell: Any, place: str = "") -> str:
    """A variable of a function that functions inside it use."""
    if not isinstance(cell, types.CellType):
        return ""
    for cells in (r for r in gc.get_referrers(cell) if isinstance(r, tuple)):
        for function in gc.get_referrers(cells):
            if not isinstance(function, types.FunctionType) or function.__closure__ is not cells:
                continue
            if not (function.__module__ or "").startswith("jtorch."):
                name = function.__code__.co_freevars[[c is cell for c in cells].index(True)]
                return f"'{name}{place}', which '{function.__name__}' uses"
    return ""
