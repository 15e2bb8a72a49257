"""What a value leads to: whether a disabled callee may see what was written before, and whether an object
that the function makes holds what it computes.

While a function is recorded its effects hold traced values, and a replay has them after its kernels, callees
included. So a callee that can reach such a place is refused; what it does there cannot be known.
"""

from __future__ import annotations

import functools
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import PLAIN, content_of, contents
from jtorch.compile.observe.kinds import Kind, is_library, is_observed, is_users, kind_of
from jtorch.compile.observe.scalar import StandIn
from jtorch.core.dim import is_symbolic
from jtorch.eager.tensor import Tensor
from jtorch.optim.optimizer import Optimizer

_LIMIT = 100_000  # parts that are looked at


UNKNOWN = object()  # stands for all that was not looked at


def reached(roots: Iterable[Any], places: Iterable[Place]) -> Place | None:
    """One of ``places`` that can be reached from ``roots``, or that may be, for all that can be told."""
    places = tuple(places)
    by_container = {id(place.container): place for place in places}
    named = {place.identity: place for place in places}
    for value in led_to(roots if named else (), through_globals=True):
        if value is UNKNOWN:
            return next(iter(by_container.values()), None)
        if id(value) in by_container:
            return by_container[id(value)]
        for namespace, name in _names(value):
            if (id(namespace), name) in named:
                return named[id(namespace), name]
    return None


def holds_sizes(root: Any) -> bool:
    """Whether ``root`` is or holds a size that is a symbol, for all that can be told."""
    return any(value is UNKNOWN or is_symbolic(value) for value in led_to([root]))


def holds_computed(root: Any) -> bool:
    """Whether ``root`` is or holds anything that a recording computes, for all that can be told."""
    return any(
        value is UNKNOWN or isinstance(value, Tensor) or issubclass(type(value), StandIn)
        for value in led_to([root])
    )


def seen_by_users_code(owner: Any) -> tuple[list[Tensor] | None, bool]:
    """The tensors that code of the user's can reach which a method of ``owner`` may run, None for any, and
    whether it uses anything of jtorch's, which may draw random numbers. What an optimizer holds is not looked
    at."""
    tensors: list[Tensor] = []
    runs, uses = False, False
    for value in led_to([owner], through_globals=True, apart=Optimizer):
        if value is UNKNOWN:
            return None, True
        if isinstance(value, Tensor):
            tensors.append(value)
        if isinstance(value, types.FunctionType) and is_observed(value.__code__, value.__globals__):
            runs = True
            used = [namespace[name] for namespace, name in _names(value)]
            uses |= any(_is_ours(v) for v in (*used, *map(content_of, value.__closure__ or ())))
    return (tensors, uses) if runs else ([], False)


def led_to(
    roots: Iterable[Any], through_globals: bool = False, apart: type | tuple[()] = ()
) -> Iterator[Any]:
    """What ``roots`` lead to, each once, but for objects that are to be left ``apart``; ``UNKNOWN`` at the
    end where that is too much to look at. ``through_globals``: also what users' functions name."""
    stack, seen = list(roots), set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, apart):
            continue
        seen.add(id(value))
        yield value
        if len(seen) > _LIMIT:
            yield UNKNOWN
            return
        if through_globals:
            stack += [namespace[name] for namespace, name in _names(value)]
        stack += parts_of(value)


def _is_ours(value: Any) -> bool:
    """Whether it is a module, a class, a function or an object of jtorch's."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(name).partition(".")[0] == "jtorch"


def _names(function: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The globals that a user's function uses, and what it uses of the modules among them; nothing of what is
    no function."""
    if not isinstance(function, types.FunctionType):
        return
    if not is_observed(function.__code__, function.__globals__):
        return
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    spaces = [function.__globals__]
    used = [function.__globals__[name] for name in names if name in function.__globals__]
    spaces += [m.__dict__ for m in used if isinstance(m, types.ModuleType) and not is_library(m.__name__, m)]
    for space in spaces:
        yield from ((space, name) for name in names if name in space)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


_DICTS: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
_VIEWS = {type(view) for d in _DICTS for view in (d.keys(), d.values(), d.items())}


def parts_of(value: Any) -> list[Any]:
    """What ``value`` holds, as far as the user's code can change it."""
    kind = kind_of(type(value))
    if type(value) is slice:
        return [value.start, value.stop, value.step]
    if type(value) in _VIEWS:
        return [*value]
    if issubclass(type(value), BaseException):
        return [*value.args, value.__dict__]
    if kind is Kind.PLAIN and type(value) not in PLAIN:  # of a class of the user's that derives from one
        return [getattr(value, "__dict__", None)]
    if kind in (Kind.PLAIN, Kind.TENSOR, Kind.NAMESPACE, Kind.ARRAY):
        return []
    if isinstance(value, types.MappingProxyType):
        return [*contents(value)]
    if kind in (Kind.CONTAINER, Kind.TUPLE):
        return [*contents(value), getattr(value, "__dict__", None)]
    if isinstance(value, types.CellType):
        return [content_of(value)]
    if isinstance(value, types.FunctionType):
        return [*(value.__closure__ or ()), value.__defaults__, value.__kwdefaults__, value.__dict__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if kind is Kind.FUNCTION:  # a bound method
        return [getattr(value, name, None) for name in ("__self__", "__func__")]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if kind is Kind.TYPE:
        return [*vars(value).values(), *value.__bases__] if is_users(value) else []
    slots = [getattr(value, name, None) for cls in type(value).__mro__ for name in _slots(cls)]
    return [type(value), getattr(value, "__dict__", None), *slots]


def _slots(cls: type) -> tuple[str, ...]:
    names = vars(cls).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)
