"""What a call reads or changes where the callee is not watched: builtins, jtorch, other libraries."""

from __future__ import annotations

import contextvars
import functools
import os
import random
import types
from collections.abc import Callable
from typing import Any

from jtorch.compile.attributes import instance_facts, read_attribute, write_attribute
from jtorch.compile.guards import MISSING, ContextRead, ItemRead, LengthRead, MembershipRead
from jtorch.compile.kinds import Kind, is_observed, is_users, kind_of
from jtorch.compile.observe import Observer
from jtorch.compile.scalar import Scalar
from jtorch.compile.stepping import Stop

_CHANGING = frozenset({
    "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update", "add", "discard",
    "difference_update", "intersection_update", "symmetric_difference_update", "appendleft", "extendleft",
    "popleft", "rotate", "move_to_end", "fill", "put", "resize", "__setitem__", "__delitem__", "__iadd__",
})  # fmt: skip
_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_TELLING = ("append",)  # done once while recording, with a warning
_FRESH = frozenset({"copy", "deepcopy", "replace", "__new__"})
_SHARING = ("from_numpy", "as_tensor", "asarray")  # tensors over the array's own memory
_HARMLESS = frozenset({"isinstance", "issubclass", "id", "callable", "super"})


def see_call(stop: Stop, callee: Any, args: list[Any]) -> None:
    """``callee(*args)`` is about to be called; keyword values come last in ``args``."""
    observer = stop.observer
    while True:
        if isinstance(callee, types.MethodType):
            callee, args = callee.__func__, [callee.__self__, *args]
        elif isinstance(callee, functools.partial):
            observer.contents(stop.frame, observer.met(callee.keywords))
            callee, args = callee.func, [*callee.args, *args, *callee.keywords.values()]
        else:
            break
    if getattr(callee, "_jtorch_disabled", False):  # it runs at each call, and looks for itself
        containers = [a for a in args if kind_of(type(a)) is Kind.CONTAINER]
        _hand_over(observer, stop.frame, containers, objects=False)
        return
    _check_volatile(observer, stop.frame, callee, args)
    if isinstance(callee, types.FunctionType):
        if callee.__name__ == "<genexpr>":  # since 3.15 it iterates before it says that it has started
            check_iterator(observer, stop.frame, args[0])
            observer.contents(stop.frame, args[0])
        if not is_observed(callee.__code__, callee.__globals__):
            _see_library(stop, callee, args)
    elif isinstance(callee, type):
        _see_class(stop, callee, args)
    elif isinstance(callee, types.BuiltinFunctionType):
        owner = callee.__self__
        if owner is not None and not isinstance(owner, types.ModuleType):
            args = [owner, *args]
            _see_method(stop, callee, args)
        elif callee.__module__ in ("builtins", "io", "_io"):
            _see_builtin(stop, callee, args)
        else:
            _see_library(stop, callee, args)
    elif isinstance(callee, _IN_C):
        _see_method(stop, callee, args)
    elif kind_of(type(callee)) in (Kind.MODULE, Kind.OURS):
        _hand_over(observer, stop.frame, args, objects=False)
    elif kind_of(type(callee)) is not Kind.OBJECT:
        _hand_over(observer, stop.frame, args)


def _hand_over(observer: Observer, frame: types.FrameType, args: list[Any], objects: bool = True) -> None:
    for value in args:
        check_iterator(observer, frame, value)
        _see_bound(observer, frame, value)
        observer.deep(frame, value, objects)


def _see_bound(observer: Observer, frame: types.FrameType, method: Any) -> None:
    """``max(names, key=table.get)``, ``map(seen.append, names)``: somebody else calls it."""
    owner = method.__self__ if isinstance(method, _BOUND) else None
    if id(owner) not in observer.outside or kind_of(type(owner)) not in (Kind.CONTAINER, Kind.ARRAY):
        return
    if method.__name__ in _TELLING:
        observer.warn(frame, f"hands on {method.__name__}() of a {type(owner).__name__} from outside")
    elif method.__name__ in _CHANGING or method.__name__ == "setdefault":
        observer.write(frame, owner, MISSING, MISSING, owner)
    else:
        observer.deep(frame, owner)


def _see_library(stop: Stop, callee: Any, args: list[Any]) -> None:
    observer = stop.observer
    module = str(callee.__module__)
    if module.partition(".")[0] == "jtorch":
        if callee.__name__ in _SHARING:
            args = [a for a in args if kind_of(type(a)) is not Kind.ARRAY]
        _hand_over(observer, stop.frame, args, objects=False)
        return
    if module.partition(".")[0] in ("logging", "warnings", "_warnings"):
        observer.warn(stop.frame, f"calls {module}.{callee.__name__}()")
        return
    if callee.__name__ == "__setattr__" and len(args) == 3:
        write_attribute(observer, stop.frame, *args)
        return
    changes = module == "_operator" and callee.__name__ in ("setitem", "delitem")
    if changes and id(args[0]) in observer.outside:
        observer.write(stop.frame, args[0], args[1], MISSING, args[-1])
    if isinstance(getattr(callee, "registry", None), types.MappingProxyType):  # functools.singledispatch
        observer.contents(stop.frame, observer.met(callee.registry))
    if (module, callee.__name__) == ("os", "getenv"):
        observer.meet(os.environ)
        args = [*args, os.environ]
    _hand_over(observer, stop.frame, args)
    if callee.__name__ in _FRESH:
        stop.pending = observer.made


def _see_class(stop: Stop, cls: type, args: list[Any]) -> None:
    observer = stop.observer
    if cls is type and args and issubclass(type(args[0]), Scalar):
        raise observer.error(
            stop.frame,
            "asks for the type() of a number that may change from call to call, which is one of jtorch's own",
            "isinstance() answers as it does in eager mode.",
        )
    if cls is type or cls is super or (kind_of(cls) is Kind.PLAIN and not args):
        return
    if not is_users(cls):
        ours = str(cls.__module__).partition(".")[0] == "jtorch"
        _hand_over(observer, stop.frame, args, objects=not ours)
    stop.pending = observer.made


def _see_method(stop: Stop, callee: Any, args: list[Any]) -> None:
    """A method written in C."""
    observer, name = stop.observer, callee.__name__
    owner: Any = args[0] if args else None
    rest = args[1:]
    if name == "__setattr__" and len(args) == 3:
        write_attribute(observer, stop.frame, *args)
        return
    kind = kind_of(type(owner))
    if isinstance(owner, contextvars.ContextVar) and name == "get":
        observer.read(ContextRead, stop.frame, owner, None, owner.get(MISSING))
    elif id(owner) not in observer.outside or kind not in (Kind.CONTAINER, Kind.ARRAY):
        _hand_over(observer, stop.frame, args if kind is not Kind.PLAIN else rest)
    elif name in _TELLING:
        observer.warn(stop.frame, f"calls {name}() on a {type(owner).__name__} from outside")
    elif isinstance(owner, dict) and name in ("get", "__getitem__", "setdefault") and rest:
        value = dict.get(owner, rest[0], MISSING)
        observer.read(ItemRead, stop.frame, owner, rest[0], value)
        if name == "setdefault" and value is MISSING:
            observer.write(stop.frame, owner, rest[0], MISSING, rest[-1])
    elif name in _CHANGING:
        observer.write(stop.frame, owner, MISSING, MISSING, owner)
    elif name == "__len__":
        observer.read(LengthRead, stop.frame, owner, None, len(owner))
    else:
        observer.contents(stop.frame, owner)
        _hand_over(observer, stop.frame, rest)
    if name in _FRESH:
        stop.pending = observer.made


def _see_builtin(stop: Stop, callee: Any, args: list[Any]) -> None:
    observer, special = stop.observer, _BUILTINS.get(callee.__name__)
    if special is not None:
        special(stop, args)
    elif callee.__name__ in ("eval", "exec"):  # what they run is watched
        for value in args:
            observer.meet(value)
    elif callee.__name__ not in _HARMLESS:
        _hand_over(observer, stop.frame, args)


def _length(stop: Stop, args: list[Any]) -> None:
    read_length(stop.observer, stop.frame, args[0])


def read_length(observer: Observer, frame: types.FrameType, value: Any) -> None:
    """The length of ``value``, or its truth, is asked for."""
    if kind_of(type(value)) is Kind.CONTAINER and id(value) in observer.outside:
        observer.read(LengthRead, frame, value, None, len(value))
    elif kind_of(type(value)) is Kind.FOREIGN and id(value) in observer.outside:
        observer.contents(frame, value)
    elif kind_of(type(value)) is Kind.ARRAY:
        observer.array(frame, value)


def read_membership(observer: Observer, frame: types.FrameType, container: Any, value: Any) -> None:
    """``value in container``."""
    if id(container) not in observer.outside:
        return
    if isinstance(container, (dict, set)):
        observer.read(MembershipRead, frame, container, value, value in container)
    else:
        observer.contents(frame, container)
        observer.deep(frame, container)


def _attribute(stop: Stop, args: list[Any]) -> None:
    if len(args) > 1 and isinstance(args[1], str):
        read_attribute(stop.observer, stop.frame, args[0], args[1])


def _names(stop: Stop, args: list[Any]) -> None:
    facts = instance_facts(args[0]) if args else None
    if facts is not None and stop.observer.is_outside(args[0]):
        stop.observer.contents(stop.frame, stop.observer.met(facts))


def _set_attribute(stop: Stop, args: list[Any]) -> None:
    if len(args) > 1 and isinstance(args[1], str):
        write_attribute(stop.observer, stop.frame, args[0], args[1], args[2] if len(args) > 2 else MISSING)


def _print(stop: Stop, args: list[Any]) -> None:
    stop.observer.warn(stop.frame, "calls print()")


def _advance(stop: Stop, args: list[Any]) -> None:
    check_iterator(stop.observer, stop.frame, args[0])


def _namespace(stop: Stop, args: list[Any]) -> None:
    if not args or stop.observer.is_outside(args[0]):
        stop.pending = stop.observer.meet


def _outside_world(name: str) -> Callable:
    def refuse(stop: Stop, args: list[Any]) -> None:
        raise stop.observer.error(
            stop.frame,
            f"calls {name}(), whose result a recording would keep",
            "Read it outside, and pass what you read in.",
        )

    return refuse


def _made(stop: Stop, args: list[Any]) -> None:
    stop.pending = stop.observer.made


_BUILTINS: dict[str, Callable] = {
    "len": _length,
    "getattr": _attribute,
    "hasattr": _attribute,
    "setattr": _set_attribute,
    "delattr": _set_attribute,
    "print": _print,
    "next": _advance,
    "vars": _namespace,
    "dir": _names,
    "globals": _namespace,
    "input": _outside_world("input"),
    "open": _outside_world("open"),
    "__build_class__": _made,
}


def check_iterator(observer: Observer, frame: types.FrameType, value: Any) -> None:
    """An iterator from outside would be advanced by the recording, and never again."""
    kind = kind_of(type(value))
    loader = kind is Kind.OURS and type(value).__module__.startswith("jtorch.utils.data")
    if (kind is Kind.ITERATOR or loader) and id(value) in observer.outside:
        raise observer.error(
            frame,
            f"takes elements from a {type(value).__name__} from outside, which a recording would do once",
            "Call the function for each element, from a loop outside.",
        )



def _check_volatile(observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]) -> None:
    """Refuse what gives something else at each call."""
    owner = getattr(callee, "__self__", None)
    if owner is None and args:
        owner = args[0]
    name, module = getattr(callee, "__name__", ""), str(getattr(callee, "__module__", None))
    if (module, name) in _THREADS:
        raise observer.error(
            frame,
            "starts work in another thread or process, which a recording would do once",
            "Do that outside, or in a function that is disabled for compiling (jtorch.compiler.disable).",
        )
    if (module, name) in _TRACING:
        raise observer.error(
            frame, f"calls {module}.{name}(), which a recording would do once", "Do that outside."
        )
    if isinstance(owner, random.Random) or type(owner).__module__.startswith("numpy.random"):
        module = type(owner).__module__
    elif isinstance(owner, type) and owner.__module__ == "datetime":
        module = "datetime"
    if module in _DRAWING or module.startswith("numpy.random") or (module, name) in _WORLD:
        raise observer.error(
            frame,
            f"calls {module}.{name}(), which gives something else at each call and a recording would keep",
            "Draw with jtorch.rand, or call it outside and pass what it gives in.",
        )


_THREADS = frozenset({
    ("threading", "start"), ("_thread", "start_new_thread"), ("concurrent.futures.thread", "submit"),
    ("concurrent.futures.process", "submit"), ("concurrent.futures._base", "map"),
    ("concurrent.futures.process", "map"), ("multiprocessing.process", "start"),
    ("multiprocessing.pool", "map"), ("multiprocessing.pool", "apply_async"),
})  # fmt: skip
_DRAWING = ("random", "secrets", "uuid")
_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_WORLD = frozenset(
    [("time", name + unit) for name in _CLOCKS for unit in ("", "_ns")]
    + [("datetime", name) for name in ("now", "utcnow", "today")]
    + [("posix", "urandom")]
)
_TRACING = frozenset({
    ("sys", "settrace"), ("sys", "setprofile"), ("threading", "settrace"), ("threading", "setprofile"),
})  # fmt: skip
