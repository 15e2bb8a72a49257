"""What a call reads or changes where the callee is not watched: builtins, jtorch, other libraries."""

from __future__ import annotations

import abc
import contextvars
import functools
import inspect
import operator
import os
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jtorch.compile.observe.attributes import (
    TRUTH,
    find,
    hashes_in_python,
    is_in_python,
    read_attribute,
    read_special,
    write_attribute,
)  # fmt: skip
from jtorch.compile.observe.builtin_calls import (
    BUILTINS,
    check_address,
    check_iterator,
    read_length,
    read_membership,
)
from jtorch.compile.observe.cached import CACHE, see_cached, see_handed
from jtorch.compile.observe.changes import is_changing
from jtorch.compile.observe.container_items import write_item
from jtorch.compile.observe.draws import check_call_out, see_draw, see_range
from jtorch.compile.observe.fact_guards import AliveRead, CacheRead
from jtorch.compile.observe.guards import (
    MISSING,
    AnswerRead,
    AttributeRead,
    ContextRead,
    ItemRead,
    LengthRead,
)  # fmt: skip
from jtorch.compile.observe.kinds import Kind, is_observed, is_users, kind_of, origin_of
from jtorch.compile.observe.library import see_module, see_objects
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.output import see_call_out, see_output
from jtorch.compile.observe.questions import see_hashed, see_search, see_tensor
from jtorch.compile.observe.reading import LOCKS, source_of
from jtorch.compile.observe.stand_ins import NUMBERS, check_numbers, stands_in
from jtorch.compile.observe.stepping import Stop
from jtorch.compile.observe.volatile import check_volatile, see_clock
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.core.generator import Generator, default_generator
from jtorch.core.op import CONTEXT
from jtorch.optim.optimizer import Optimizer

_CHANGING = frozenset({
    "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update", "add", "discard",
    "difference_update", "intersection_update", "symmetric_difference_update", "appendleft", "extendleft",
    "popleft", "rotate", "move_to_end", "fill", "put", "resize", "__setitem__", "__delitem__", "__iadd__",
})  # fmt: skip
_CHANGING_FIRST = frozenset(  # functions that change what they are given first
    [("_heapq", name) for name in ("heappush", "heappop", "heapify", "heappushpop", "heapreplace")]
    + [("_heapq", name) for name in ("_heapify_max", "_heappop_max", "_heapreplace_max")]
    + [("_heapq", f"{name}_max") for name in ("heappush", "heappop", "heapify", "heappushpop", "heapreplace")]
    + [("_bisect", name) for name in ("insort", "insort_left", "insort_right")]
    + [
        ("_operator", f"i{name}")
        for name in ("add", "mul", "concat", "or", "and", "xor", "sub", "floordiv", "truediv", "mod", "pow")
    ]
)
_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_CHANGING_OTHERS = _CHANGING | {"append", "setdefault", "set", "put", "put_nowait"}
_SETTERS = (setattr, delattr, operator.setitem, operator.delitem)
_TELLING = ("append",)  # done again by each replay
_OF_ITEMS = ("__setitem__", "__delitem__")
_SEARCHING = frozenset({"get", "__getitem__", "__contains__", "index", "count"})
_COMPARING = _SEARCHING | {"remove"}
_ORDERLY = frozenset(
    {"keys", "values", "items", "copy", "clear", "popitem"}
)  # of dicts and sets: hash nothing
_SETTINGS = ("jtorch.core.settings", "jtorch.core.dtypes", "jtorch.core.threads")
_CHANGE_TENSORS = frozenset({
    ("jtorch.eager.swapping", "swap_tensors"), ("jtorch.autograd.graph", "increment_version"),
})  # fmt: skip
_ABOUT_THE_THREAD = frozenset({
    ("_thread", "get_ident"), ("_thread", "get_native_id"), ("threading", "current_thread"),
    ("posix", "getpid"),
})  # fmt: skip
_OF_ALL_THREADS = frozenset({("threading", "active_count"), ("threading", "enumerate")})
_OF_ALL_MEMBERS = frozenset({"getmembers", "getmembers_static", "classify_class_attrs"})  # of ``inspect``
_OF_THE_ENVIRONMENT = frozenset({
    ("os", "getenv"), ("os", "getenvb"), ("posixpath", "expandvars"), ("ntpath", "expandvars"),
})  # fmt: skip
_OF_DECIMALS = frozenset({("decimal", "getcontext"), ("decimal", "localcontext")})
_ANSWERS = frozenset({  # settings of the interpreter
    ("sys", "getrecursionlimit"), ("sys", "getswitchinterval"), ("sys", "get_int_max_str_digits"),
    ("gc", "isenabled"), ("gc", "get_threshold"), ("gc", "get_debug"),
})  # fmt: skip
_FRESH = frozenset({"copy", "deepcopy", "replace", "__new__"})
_SHARING = ("from_numpy", "as_tensor", "asarray")  # tensors over the array's own memory
# Of containers made inside these look at no entries of entries, so that a list may grow entry by entry.
_SHALLOW = (_CHANGING - {"sort", "remove"}).union(
    ("append", "copy", "get", "setdefault", "keys", "values", "items")
)  # fmt: skip
_OPENING = (list, tuple, zip, enumerate, reversed)  # classes that do no more than iterate
_HARMLESS = frozenset({"callable", "super"})


def see_call(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...] = ()) -> None:
    """``callee(*args)`` is about to be called; the last of ``args`` are keyword values, with these names."""
    observer = stop.observer
    observer.handed = []
    while True:
        callee = origin_of(callee)
        if isinstance(callee, types.MethodType):
            callee, args = callee.__func__, [callee.__self__, *args]
        elif isinstance(callee, functools.partial):
            observer.partial(stop.frame, callee)
            args, names = _with_those_of(callee, args, names)
            callee = callee.func
        else:
            break
    if isinstance(callee, types.FunctionType) and "_jtorch_disabled" in callee.__dict__:
        # it runs at each call, and looks for itself
        see_call_out(stop)
        check_call_out(stop)
        observer.effects.called_out = True
        observer.check_handed(args)
        containers = [a for a in args if kind_of(type(a)) is Kind.CONTAINER]
        _hand_over(observer, stop.frame, containers, objects=False)
        return
    if isinstance(callee, CACHE):
        see_cached(stop, callee, args, names)
        return
    if not _is_watched(callee):
        is_draw = see_draw(stop, callee, args, names) or see_range(stop, callee, args, names)
        if is_draw or see_clock(stop, callee, args):
            return
        check_volatile(observer, stop.frame, callee, args)
        if getattr(callee, "__name__", "") == "__hash__":
            check_address(observer, stop.frame, args or [getattr(callee, "__self__", None)])
        if see_output(stop, callee, args, names):
            return
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
        elif callee.__module__ in ("builtins", "io", "_io") or callee in (operator.is_, operator.is_not):
            _see_builtin(stop, callee, args)
        else:
            _see_library(stop, callee, args)
    elif isinstance(callee, types.MethodWrapperType):
        _check_numbers(type(callee.__self__), callee.__name__, args)
        _see_method(stop, callee, [callee.__self__, *args])
    elif isinstance(callee, _IN_C):
        _check_numbers(callee.__objclass__, callee.__name__, args[1:])
        _see_method(stop, callee, args)
    elif kind_of(type(callee)) in (Kind.MODULE, Kind.OURS):
        if kind_of(type(callee)) is Kind.MODULE:
            see_module(observer, stop.frame, callee)
        see_objects(observer, stop.frame, [callee, *args])
        _hand_over(observer, stop.frame, args, objects=False)
    elif kind_of(type(callee)) is Kind.OBJECT and _is_watched(callee):
        read_special(observer, stop.frame, callee, "__call__")
    else:
        if isinstance(callee, weakref.ref):
            observer.reads.setdefault((AliveRead, id(callee)), AliveRead(callee, source_of(stop.frame)))
            stop.pending = observer.meet
        elif isinstance(callee, operator.methodcaller) and args:
            _check_numbers(type(args[0]), "method", callee.__reduce__()[1][1:])
        elif isinstance(callee, operator.attrgetter) and args:
            _read_names(observer, stop.frame, args[0], callee.__reduce__()[1])
        _hand_over(observer, stop.frame, [callee, *args])  # an object of another library's that is called


def _with_those_of(
    made: functools.partial, args: list[Any], names: tuple[str, ...]
) -> tuple[list[Any], tuple[str, ...]]:
    """The arguments of a call of ``made``, and the names of the last of them, with its own."""
    n = len(args) - len(names)
    keywords = made.keywords | dict(zip(names, args[n:], strict=True))
    return [*made.args, *args[:n], *keywords.values()], tuple(keywords)


def _is_watched(callee: Any) -> bool:
    """Whether what a call runs is a user's, and seen when it runs."""
    if isinstance(callee, types.FunctionType):
        return is_observed(callee.__code__, callee.__globals__)
    if isinstance(callee, type):
        return is_users(callee)
    method = find(type(callee), "__call__")  # a type of Cython's functions has it from C
    return isinstance(method, types.FunctionType)


def _read_names(observer: Observer, frame: types.FrameType, owner: Any, names: Iterable[str]) -> None:
    """``operator.attrgetter(*names)(owner)``; a property on the way ends what can be followed."""
    for name in names:
        value = owner
        for part in name.split("."):
            read_attribute(observer, frame, value, part)
            value = inspect.getattr_static(value, part, None)


def _hand_over(
    observer: Observer, frame: types.FrameType, args: list[Any], objects: bool = True, hashes: bool = False
) -> None:
    """``args`` go to code that nobody watches, which ``hashes`` them, or may."""
    if any(value is function for value in args for function in (id, hash)):
        check_address(observer, frame, args)
        hashes = True
    if hashes:
        see_hashed(observer, frame, *args)
    parts = [p for value in args for p in ((value, *value) if type(value) in (list, tuple) else (value,))]
    abstract = tuple(part for part in parts if issubclass(type(part), abc.ABCMeta))
    for part in parts:
        check_iterator(observer, frame, part)
        if abstract and kind_of(type(part)) is Kind.OBJECT:  # map(isinstance, values, classes)
            observer.registry(frame, part, abstract)
    for value in args:
        _see_bound(observer, frame, value)
        see_handed(observer, frame, value)
        observer.deep(frame, value, objects)


def _see_bound(observer: Observer, frame: types.FrameType, method: Any) -> None:
    """``max(names, key=table.get)``, ``map(seen.append, names)``: somebody else calls it."""
    function: Any = method
    args: list[Any] = []
    while isinstance(function, (types.MethodType, functools.partial)):
        if isinstance(function, types.MethodType):
            function, args = function.__func__, [function.__self__]
        else:
            function = function.func
    if callable(function) and not isinstance(function, type) and not _is_watched(function):
        check_volatile(observer, frame, function, args)
    if any(method is setter for setter in _SETTERS):
        raise observer.error(
            frame, f"hands {method.__name__}() to a function that is not watched", "Call it in a loop."
        )
    owner = method.__self__ if isinstance(method, _BOUND) else None
    if id(owner) not in observer.outside or kind_of(type(owner)) not in (Kind.CONTAINER, Kind.ARRAY):
        return
    if method.__name__ in _TELLING or method.__name__ in _CHANGING or method.__name__ == "setdefault":
        observer.write(frame, owner, MISSING, MISSING, owner)
    else:
        observer.deep(frame, owner)


def _check_numbers(cls: type, name: str, args: Sequence[Any]) -> None:
    """``float.__add__(2.0, value)`` looks at the class of ``value``: what stands for a number is none, and
    it gives NotImplemented."""
    if issubclass(cls, NUMBERS):
        check_numbers(args, f"a number's {name}(), other than by an operator,")


def _see_library(stop: Stop, callee: Any, args: list[Any]) -> None:
    observer = stop.observer
    module = str(callee.__module__)
    if _see_setting(observer, stop.frame, callee, args):
        return
    written_in = getattr(callee, "__globals__", {}).get("__name__", module)
    if str(written_in).partition(".")[0] == "jtorch":  # also what it has wrapped around a user's: step()
        _see_ours(observer, stop.frame, callee, args)
        see_objects(observer, stop.frame, args, callee.__name__)
        if callee.__name__ != "tensor":  # which copies
            for value in args:
                for part in value if type(value) in (list, tuple) else (value,):
                    observer.beside_tensor(stop.frame, part)
        for value in args[1:]:
            if isinstance(value, Optimizer):  # scaler.step(optimizer)
                read_attribute(observer, stop.frame, value, "step")
        if callee.__name__ in _SHARING:
            args = [a for a in args if kind_of(type(a)) is not Kind.ARRAY]
        elif callee.__name__ == "tensor":  # which copies, and of an argument each call anew
            args = [_without_arrays(observer, a) for a in args if id(a) not in observer.places]
        if args and _is_method_of_module(callee, args[0]):
            observer.relied.open(args[0])
            args = args[1:]
        _hand_over(observer, stop.frame, args, objects=False)
        return
    if module == "_operator" and callee.__name__ in ("setitem", "delitem"):
        if kind_of(type(args[0])) is Kind.CONTAINER:
            _see_item_written(stop, args[0], args[1:])
            return
        if id(args[0]) in observer.outside:
            observer.write(stop.frame, args[0], args[1], MISSING, args[-1])
    if (module, callee.__name__) in _CHANGING_FIRST:
        _see_changed(observer, stop.frame, args[0] if args else None)
    if (module, callee.__name__) in _ANSWERS and not args:
        observer.read(AnswerRead, stop.frame, callee, None, callee())
    _see_change(observer, stop.frame, callee, args)
    if isinstance(getattr(callee, "registry", None), types.MappingProxyType):  # functools.singledispatch
        observer.contents(stop.frame, observer.met(callee.registry))
        for value in args[:1]:
            observer.registry(stop.frame, value, tuple(callee.registry))
    if (module, callee.__name__) in _OF_THE_ENVIRONMENT:
        observer.meet(os.environ)
        args = [*args, os.environ]
    if (module.removeprefix("_"), callee.__name__) in _OF_DECIMALS:
        observer.decimal_context(stop.frame)
        stop.pending = lambda found: observer.meet(found) if found is observer.decimals else None
    if (module, callee.__name__) in _ABOUT_THE_THREAD:
        observer.read(AnswerRead, stop.frame, callee, None, callee())
    if (module, callee.__name__) in _OF_ALL_THREADS:
        observer.contents(stop.frame, observer.met(vars(threading)["_active"]))
    if module == "inspect":
        for value in args:
            _read_function(observer, stop.frame, value)
        if callee.__name__ in _OF_ALL_MEMBERS:
            observer.members(stop.frame, args[0])
    _hand_over(observer, stop.frame, args, hashes=True)
    if callee.__name__ in _FRESH:
        stop.pending = observer.made


def _without_arrays(observer: Observer, value: Any) -> Any:
    """A list that the function has made, without the arrays in it that are arguments."""
    if type(value) not in (list, tuple) or id(value) in observer.outside:
        return value
    return [_without_arrays(observer, part) for part in value if id(part) not in observer.places]


def _see_changed(observer: Observer, frame: types.FrameType, container: Any) -> None:
    """A function that is written in C is about to change a container or an array."""
    observer.change_given(frame, container)
    if id(container) in observer.outside and kind_of(type(container)) in (Kind.CONTAINER, Kind.ARRAY):
        observer.write(frame, container, MISSING, MISSING, container)


def _is_method_of_module(callee: types.FunctionType, owner: Any) -> bool:
    """Whether it is known what the method may read of its module: see ``relied``. Those that the interpreter
    calls by itself, to print or to copy, read anything."""
    if kind_of(type(owner)) is not Kind.MODULE or callee.__name__.startswith("__"):
        return False
    return getattr(find(type(owner), callee.__name__), "__code__", None) is callee.__code__


def _see_setting(observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]) -> bool:
    """``super().__setattr__(name, value)``, ``object.__delattr__(owner, name)``: the usual way to do it."""
    if callee.__name__ not in ("__setattr__", "__delattr__") or not isinstance(args[1:2] and args[1], str):
        return False
    write_attribute(observer, frame, args[0], args[1], args[2] if len(args) > 2 else MISSING, base=True)
    return True


def _see_change(observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]) -> None:
    """A method of another library's class, which may be the base of a user's, that changes its object."""
    owner = args[0] if args else None
    if callee.__name__ in _CHANGING_OTHERS and kind_of(type(owner)) in (Kind.FOREIGN, Kind.OBJECT):
        method = find(type(owner), callee.__name__)
        if getattr(method, "__name__", None) == callee.__name__ and observer.is_outside(owner):
            observer.write(frame, owner, MISSING, MISSING, owner)


def _see_ours(observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]) -> None:
    """A function or a method of jtorch's: what of its arguments it asks or changes without a trace."""
    name = callee.__name__
    owner: Any = args[0] if args else None
    if (callee.__module__, name) in _CHANGE_TENSORS:
        raise observer.error(
            frame,
            f"calls {name}(), which changes tensors at each call and a recording would do once",
            "Do it outside.",
        )
    if callee.__module__ in _SETTINGS:
        if name.startswith(("set_", "use_")):
            raise observer.error(
                frame,
                f"calls {name}(), a setting that stays, and a recording would do that once",
                "Do it outside.",
            )
        if not args:
            observer.read(AnswerRead, frame, callee, None, callee())
    kind = kind_of(type(owner))
    ours = kind in (Kind.MODULE, Kind.OURS) or (kind is Kind.OBJECT and hasattr(type(owner), name))
    if kind is Kind.TENSOR:
        see_tensor(observer, frame, owner, name)
        if name.startswith("register_") and not CONTEXT.get().evaluator.made(owner):
            observer.noted.note(owner, source_of(frame), name)
    elif ours and is_changing(name) and observer.is_outside(owner):
        observer.noted.note(owner, source_of(frame), name)
    elif name in ("initial_seed", "get_rng_state", "get_state"):
        generator = owner if isinstance(owner, Generator) else default_generator
        observer.read(AttributeRead, frame, generator, "key", generator.key)
        if name != "initial_seed":
            observer.read(AttributeRead, frame, generator, "call", generator.call)


def _read_function(observer: Observer, frame: types.FrameType, function: Any) -> None:
    """What ``inspect`` finds out of a function."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    if isinstance(function, types.FunctionType) and observer.is_outside(observer.met(function)):
        for name in ("__name__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__", "__code__"):
            observer.read(AttributeRead, frame, function, name, getattr(function, name))
            observer.deep(frame, getattr(function, name))


def _see_class(stop: Stop, cls: type, args: list[Any]) -> None:
    observer = stop.observer
    if cls is type and len(args) == 1 and is_symbolic(args[0]):
        raise Exact("it asks for the type() of a size")
    if cls is type and args and stands_in(args[0]):
        raise args[0].refuse("type()")
    if cls is type and len(args) == 1:
        observer.see_class(stop.frame, args[0])
    if cls is type or cls is super or (kind_of(cls) is Kind.PLAIN and not args):
        return
    if cls is bool and args:
        read_length(observer, stop.frame, args[0], TRUTH)
    if cls in _OPENING:
        for value in args:
            check_iterator(observer, stop.frame, value)
            observer.contents(stop.frame, value)
    elif not is_users(cls):
        ours = str(cls.__module__).partition(".")[0] == "jtorch"
        if ours:
            see_objects(observer, stop.frame, args)
        _hand_over(observer, stop.frame, args, not ours, hashes=not ours and not issubclass(cls, Iterator))
    stop.pending = observer.made


def _see_item_written(stop: Stop, owner: Any, rest: list[Any]) -> None:
    """``owner[key] = value`` as a call, or ``del owner[key]``."""
    if isinstance(rest[0], slice) and len(rest) > 1:
        check_iterator(stop.observer, stop.frame, rest[1])
    write_item(stop, owner, rest[0], rest[1] if len(rest) > 1 else MISSING)


def _see_method(stop: Stop, callee: Any, args: list[Any]) -> None:
    """A method written in C."""
    observer, name = stop.observer, callee.__name__
    owner: Any = args[0] if args else None
    rest = args[1:]
    if name == "__exit__" and type(owner) in LOCKS:  # else it would be locked ever after
        return
    observer.hand_foreign(stop.frame, owner)
    if _see_setting(observer, stop.frame, callee, args):
        return
    kind = kind_of(type(owner))
    if name in _OF_ITEMS and kind is Kind.CONTAINER and rest:
        _see_item_written(stop, owner, rest)
        return
    if name in _CHANGING or name in _TELLING or name == "setdefault":
        observer.change_given(stop.frame, owner)
    if name == "__next__":
        check_iterator(observer, stop.frame, owner)
    if isinstance(owner, contextvars.ContextVar) and name == "get":
        observer.read(ContextRead, stop.frame, owner, None, owner.get(MISSING))
        stop.pending = observer.meet
    elif isinstance(owner, CACHE) and name == "cache_info":
        if id(owner) in observer.caches:
            raise observer.error(
                stop.frame,
                "asks for the cache_info() of a function that it calls, which a recording would call once",
                "Ask for it outside.",
            )
        observer.facts(CacheRead, stop.frame, owner)
    elif id(owner) not in observer.outside or kind not in (Kind.CONTAINER, Kind.ARRAY):
        _see_change(observer, stop.frame, callee, args)
        if isinstance(owner, (dict, set, frozenset, type)) and name not in _ORDERLY:
            see_hashed(observer, stop.frame, *args)
        elif name in _COMPARING and rest:
            see_search(observer, stop.frame, owner, rest[0])
        if kind is Kind.CONTAINER and name in _SHALLOW:  # which keeps an array as it is
            args = [a for a in rest if type(a) is not np.ndarray or id(a) not in observer.places]
        elif kind in (Kind.PLAIN, Kind.VALUE):
            args = rest
        _hand_over(observer, stop.frame, args)
    elif name in _TELLING:
        if type(owner) in (list, deque) and len(rest) == 1:
            observer.append(stop.frame, owner, rest[0])
        else:
            observer.write(stop.frame, owner, MISSING, MISSING, owner)
    elif name == "extend" and type(owner) is list and _is_made(observer, rest):
        for value in rest[0]:
            observer.append(stop.frame, owner, value)
    elif name in _SEARCHING and rest and see_search(observer, stop.frame, owner, rest[0]):
        return
    elif name == "__contains__" and rest:
        read_membership(observer, stop.frame, owner, rest[0])
    elif isinstance(owner, dict) and name in ("get", "__getitem__", "setdefault") and rest:
        if hashes_in_python(rest[0]):
            observer.contents(stop.frame, owner)
            return
        value = dict.get(owner, rest[0], MISSING)
        observer.read(ItemRead, stop.frame, owner, rest[0], value)
        if name == "setdefault" and value is MISSING:
            observer.write(stop.frame, owner, rest[0], MISSING, rest[-1])
    elif name in _CHANGING:
        observer.write(stop.frame, owner, MISSING, MISSING, owner)
    elif name == "__len__" and not is_in_python(type(owner), name):
        observer.read(LengthRead, stop.frame, owner, None, len(owner))
    else:
        observer.contents(stop.frame, owner)
        _hand_over(observer, stop.frame, rest)
    if name in _FRESH:
        stop.pending = observer.made


def _is_made(observer: Observer, rest: list[Any]) -> bool:
    """Whether a method gets one list or tuple, which the function has made."""
    return len(rest) == 1 and type(rest[0]) in (list, tuple) and not observer.is_outside(rest[0])


def _see_builtin(stop: Stop, callee: Any, args: list[Any]) -> None:
    observer, special = stop.observer, BUILTINS.get(callee.__name__)
    if special is not None:
        special(stop, args)
    elif callee.__name__ in ("eval", "exec"):  # what they run is watched
        for value in args:
            observer.meet(value)
    elif callee.__name__ not in _HARMLESS:
        _hand_over(observer, stop.frame, args)
