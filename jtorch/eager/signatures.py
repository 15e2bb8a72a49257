"""Signatures as source: a function's own, with the keywords more that PyTorch's functions take.

These are ``out=``, NumPy's ``axis`` and ``keepdims`` for ``dim`` and ``keepdim``, and the name of numbers
that are mostly given one by one: ``x.permute(0, 1)`` is ``x.permute(dims=(0, 1))``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import takewhile
from textwrap import indent
from types import MappingProxyType
from typing import Any

from jtorch.ops.axes import integer

_ALIASES = {"dim": "axis", "keepdim": "keepdims"}


def spelling(function: Any) -> Any:
    """The function whose text says what the arguments of ``function`` are: autocast's are inside."""
    return getattr(function, "declared", function)


class _Required:
    """The default of an argument that only became optional because an alias may stand in for it."""

    def __repr__(self) -> str:
        return "<required>"


REQUIRED = _Required()


def accepting_source(
    name: str, function: Any, namespace: dict[str, Any], out: bool, also: dict[str, str] | None = None
) -> str:
    """A function before ``function`` that takes its arguments and the keywords more.

    ``also`` names parameters of its own that have a second name.
    """
    parameters, passed = spelled_out(function, namespace)
    out = out and "out" not in map(_name, parameters)
    signature, aliases = extended(parameters, namespace, name, out, also or {})
    read = "".join(f"{_name(p)}, " for p in parameters if p != "*")
    call = f"into(out, uncast(function)({passed}), {name!r}, ({read}))"
    writes = f"if out is not None:\n    return {call}\n" if out else ""
    body = f"{writes}return function({passed})\n"
    if leading_tensors(function):
        given = ", ".join(f"{n!r}: {n}" for n in (_name(p).lstrip("*") for p in parameters if p != "*"))
        failing = f"return overridden({name!r}, {{{given}}}, error)"
        body = f"try:\n{indent(body, '    ')}except AttributeError as error:\n    {failing}\n"
    body = _checked_integers(name, function, namespace) + body
    return f"def accepting({signature}):\n{aliases}{indent(body, '    ')}"


def _checked_integers(name: str, function: Any, namespace: dict[str, Any]) -> str:
    """The lines that refuse floats and bools for what ``function`` says is an int, as PyTorch does."""
    namespace["integer"] = integer
    lines = []
    for parameter, kind in integers_of(function).items():
        given = "" if kind == "int" else f" and {parameter} is not None"
        lines += [f"if {parameter}.__class__ is not int{given}:"]
        lines += [f"    {parameter} = integer({name!r}, {parameter!r}, {parameter})"]
    return "".join(f"{line}\n" for line in lines)


def integers_of(function: Any) -> dict[str, str]:
    """The parameters that ``function`` says are ints, or None."""
    code = spelling(function).__code__
    kinds = (
        (n, function.__annotations__.get(n))
        for n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    )
    return {name: kind for name, kind in kinds if kind in ("int", "int | None")}


def leading_tensors(function: Any) -> list[str]:
    """The names of the arguments that ``function`` begins with and that it says are Tensors."""
    code = spelling(function).__code__
    kinds = function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    return list(takewhile(lambda n: kinds.get(n) in ("Tensor", "_Tensor"), names))


def spelled_out(function: Any, namespace: dict[str, Any]) -> tuple[list[str], str]:
    """(the parameters of ``function`` as source, how to pass them on); defaults go into ``namespace``."""
    signature, passed, star = [], [], False
    numbers = numbers_of(function)
    for p in inspect.signature(function).parameters.values():
        if p.name == numbers:
            namespace["whole"] = whole
            signature += [f"*{p.name}_", f"{p.name}=None"]
            passed.append(f"*({p.name}_ if {p.name} is None else whole({p.name!r}, {p.name}_, {p.name}))")
            star = True
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            signature.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            signature.append(f"*{p.name}")
            star = True
        elif p.kind is p.VAR_KEYWORD:
            signature.append(f"**{p.name}")
        elif p.default is p.empty:
            signature.append(p.name)
        else:
            namespace[f"{p.name}_default"] = p.default
            signature.append(f"{p.name}={p.name}_default")
        only: dict[Any, str] = {
            p.KEYWORD_ONLY: f"{p.name}={p.name}", p.VAR_POSITIONAL: f"*{p.name}",
            p.VAR_KEYWORD: f"**{p.name}",
        }  # fmt: skip
        passed.append(only.get(p.kind, p.name))
    return signature, ", ".join(passed)


def numbers_of(function: Any) -> str | None:
    """The name of ``*sizes: ax.Numbers``, which may also be given by keyword, as one sequence."""
    code = spelling(function).__code__
    if not code.co_flags & inspect.CO_VARARGS:
        return None
    name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    return name if function.__annotations__.get(name) == "ax.Numbers" else None


def whole(name: str, by_position: tuple, given: Any) -> tuple:
    """The numbers that were given by keyword. Raises TypeError where some were given by position, too."""
    if by_position:
        raise TypeError(f"got multiple values for argument {name!r}: by position and by keyword")
    return (given,)


def extended(
    parameters: list[str],
    namespace: dict[str, Any],
    name: str,
    out: bool = True,
    also: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, str]:
    """(the signature with the keywords more, the lines that see to the aliases)"""
    names = [_name(p) for p in parameters]
    found = {n: a for n, a in (_ALIASES | dict(also)).items() if n in names and a not in names}
    lines = "".join(f"    if {alias} is not None:\n        {n} = {alias}\n" for n, alias in found.items())
    required = _optional_from([names.index(n) for n in found], parameters)
    if required:
        parameters = [f"{p}=REQUIRED" if p in required else p for p in parameters]
        namespace.update(REQUIRED=REQUIRED, missing=missing)
        given = ", ".join(f"{n!r}: {n}" for n in required)
        lines += f"    if {' or '.join(f'{n} is REQUIRED' for n in required)}:\n"
        lines += f"        raise missing({name!r}, {{{given}}})\n"
    added = [f"{a}=None" for a in found.values()] + (["out=None"] if out else [])
    last = [p for p in parameters if p.startswith("**")]
    first = [p for p in parameters if not p.startswith("**")]
    star = [] if any(p.startswith("*") for p in first) or not added else ["*"]
    return ", ".join([*first, *star, *added, *last]), lines


def _optional_from(places: list[int], parameters: list[str]) -> list[str]:
    """Those without a default that must get one: the first that an alias may replace, and all that follow."""
    first = min((k for k in places if "=" not in parameters[k]), default=len(parameters))
    by_position = takewhile(lambda p: not p.startswith("*"), parameters[first:])
    return [p for p in by_position if "=" not in p]


def missing(name: str, given: dict[str, Any]) -> TypeError:
    """PyTorch's error for a call without some of its arguments: with an s for one of them, none for more."""
    absent = ", ".join(f'"{n}"' for n, value in given.items() if value is REQUIRED)
    count = absent.count(",") + 1
    return TypeError(f"{name}() missing {count} required positional argument{'s' * (count == 1)}: {absent}")


def _name(parameter: str) -> str:
    return parameter.lstrip("*").partition("=")[0]
