"""The instructions that read or write more than locals, and what each is about to do with its operands.

Of CPython 3.11 to 3.15: what an instruction works on is taken from ``dis``, and where two versions differ in
the order of operands, from what is found on the stack. An instruction in neither ``HANDLERS`` nor
``HARMLESS`` is one of a Python that nobody has read about here, and keeps functions from being recorded.
Source: https://docs.python.org/3/library/dis.html
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import dis
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from jtorch.compile.observe.attributes import (
    TRUTH,
    changes_unseen,
    compares_in_c,
    hashes_in_python,
    read_attribute,
    read_base,
    read_special,
    write_attribute,
)  # fmt: skip
from jtorch.compile.observe.builtin_calls import check_iterator, read_length, read_membership, truth_of
from jtorch.compile.observe.calls import see_call
from jtorch.compile.observe.container_items import (
    from_the_front,
    item_of,
    item_place,
    see_index,
    see_indices,
    write_item,
)
from jtorch.compile.observe.effects import Cell, Filling, Place
from jtorch.compile.observe.frames import NULL, function_of
from jtorch.compile.observe.guards import MISSING, PLAIN, CellRead, ItemRead, content_of
from jtorch.compile.observe.instead import instead
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.late_texts import instead_of_text, see_format, see_operator
from jtorch.compile.observe.latest import see_latest
from jtorch.compile.observe.output_effects import goes_out
from jtorch.compile.observe.questions import see_hashed, see_identity, see_search
from jtorch.compile.observe.reading import LOCKS
from jtorch.compile.observe.stand_ins import check_class, check_error, is_array_stand_in, is_stand_in
from jtorch.compile.observe.stepping import HANDLERS, LEAVING, Handler, Instead, Stop
from jtorch.compile.observe.texts import makes_text, see_text
from jtorch.core.dim import is_symbolic
from jtorch.eager.tensor import Tensor

# What reads and writes nothing but locals, constants, and what the frame itself made.
HARMLESS = frozenset({
    "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "BUILD_CONST_KEY_MAP", "BUILD_INTERPOLATION",
    "BUILD_LIST", "BUILD_SLICE", "BUILD_STRING", "BUILD_TEMPLATE",
    "BUILD_TUPLE", "CACHE", "CALL", "CALL_INTRINSIC_2", "CHECK_EG_MATCH", "CHECK_EXC_MATCH",
    "CLEANUP_THROW", "COPY", "COPY_FREE_VARS", "DELETE_FAST", "END_ASYNC_FOR", "END_FOR",
    "END_SEND", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "EXTENDED_ARG", "FOR_ITER", "GET_AITER",
    "GET_ANEXT", "GET_AWAITABLE", "IMPORT_STAR", "INTERPRETER_EXIT", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "KW_NAMES", "LIST_APPEND", "LIST_TO_TUPLE",
    "LOAD_ASSERTION_ERROR", "LOAD_BUILD_CLASS", "LOAD_CLOSURE", "LOAD_COMMON_CONSTANT", "LOAD_CONST",
    "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_LOCALS", "LOAD_SMALL_INT",
    "MAKE_CELL", "NOP", "NOT_TAKEN", "POP_EXCEPT", "POP_ITER", "POP_JUMP_BACKWARD_IF_NONE",
    "POP_JUMP_BACKWARD_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE",
    "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "POP_TOP", "PREP_RERAISE_STAR", "PRINT_EXPR",
    "PUSH_NULL", "RAISE_VARARGS", "RERAISE", "RESERVED", "RESUME", "RETURN_CONST",
    "RETURN_GENERATOR", "RETURN_VALUE", "SEND", "SETUP_ANNOTATIONS", "STORE_FAST",
    "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "SWAP", "TRACE_RECORD",
    "WITH_EXCEPT_START", "YIELD_VALUE",
})  # fmt: skip


def on(*names: str, leaves: bool = False) -> Callable[[Handler], Handler]:
    """Register who looks at the instructions ``names``; ``leaves`` if it may ask for what they leave."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        LEAVING.update(names if leaves else ())
        return handler

    return register


def unknown() -> list[str]:
    """The instructions of this Python that are not known here."""
    names = {name for name, number in dis.opmap.items() if number < 256}  # those beyond are the compiler's
    names = {name for name in names if not name.startswith("INSTRUMENTED_")}
    return sorted(names - HARMLESS - HANDLERS.keys())


_BUILTINS = dict(vars(builtins))  # as they are when a program starts

# -- names ---------------------------------------------------------------------------------------------------


@on("LOAD_GLOBAL")
def _load_global(stop: Stop) -> None:
    _global(stop, stop.place.argval)


@on("LOAD_NAME")
def _load_name(stop: Stop) -> None:
    frame, name = stop.frame, stop.place.argval
    if frame.f_locals is frame.f_globals:
        _global(stop, name)
        return
    names = _given_locals(stop)
    if names is not None:  # eval("k", {}, names)
        stop.observer.read(ItemRead, frame, names, name, names.get(name, MISSING))
    if name not in frame.f_locals:
        _global(stop, name)


def _given_locals(stop: Stop) -> dict[str, Any] | None:
    """The dict from outside that code run by ``eval`` or ``exec`` has for its locals."""
    names = stop.frame.f_locals
    return names if isinstance(names, dict) and id(names) in stop.observer.outside else None


@on("STORE_NAME", "DELETE_NAME")
def _store_name(stop: Stop) -> None:
    names, name = _given_locals(stop), stop.place.argval
    if names is None or stop.observer.is_apart(stop.frame):
        return
    after = MISSING if stop.place.opname == "DELETE_NAME" else stop.peek(1)
    place = None if after is MISSING else Place(names, name)
    stop.observer.write(stop.frame, names, name, names.get(name, MISSING), after, place)


@on("LOAD_FROM_DICT_OR_GLOBALS")
def _load_from_dict(stop: Stop) -> None:
    if stop.place.argval not in stop.peek(1):
        _global(stop, stop.place.argval)


def _global(stop: Stop, name: str) -> None:
    """A builtin's name is read as a global that is missing, and one that is not Python's own, too."""
    names = stop.frame.f_globals
    value = names.get(name, MISSING)
    stop.observer.read(ItemRead, stop.frame, names, name, value)
    if value is MISSING:
        found = stop.frame.f_builtins
        value = found.get(name, MISSING)
        if value is not _BUILTINS.get(name):
            stop.observer.read(ItemRead, stop.frame, found, name, value)


def _cell(stop: Stop) -> types.CellType | None:
    """The cell from outside that an instruction names."""
    names, function = stop.frame.f_code.co_freevars, function_of(stop.frame)
    if stop.place.argval not in names or function is None or function.__closure__ is None:
        return None
    cell = function.__closure__[names.index(stop.place.argval)]
    return None if id(cell) in stop.observer.inside else cell


@on("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def _load_cell(stop: Stop) -> None:
    cell = _cell(stop)
    if cell is not None:
        stop.observer.read(CellRead, stop.frame, cell, stop.place.argval, content_of(cell))


_CLOSURE = 8  # the flag that says a tuple of cells lies below


@on("MAKE_FUNCTION", leaves=True)
def _make_function(stop: Stop) -> None:
    stop.pending = stop.observer.made
    if stop.place.arg & _CLOSURE:  # before 3.13
        _close_over(stop)


@on("SET_FUNCTION_ATTRIBUTE")
def _complete_function(stop: Stop) -> None:
    if stop.place.arg & _CLOSURE:
        _close_over(stop)


def _close_over(stop: Stop) -> None:
    """Of the cells that a new function gets those of this frame's own variables were made by it."""
    made, cells = stop.peek(1), stop.peek(2)
    own, code = stop.frame.f_code.co_cellvars, getattr(made, "__code__", made)
    for name, cell in zip(code.co_freevars, cells, strict=True):
        if name in own:
            stop.observer.made(cell)


@on("STORE_DEREF", "DELETE_DEREF")
def _store_cell(stop: Stop) -> None:
    cell = _cell(stop)
    if cell is not None:
        after = MISSING if stop.place.opname == "DELETE_DEREF" else stop.peek(1)
        place = None if after is MISSING else Cell(cell, stop.place.argval)
        stop.observer.write(stop.frame, None, stop.place.argval, content_of(cell), after, place)


@on("STORE_GLOBAL", "DELETE_GLOBAL")
def _store_global(stop: Stop) -> None:
    name = stop.place.argval
    after = MISSING if stop.place.opname == "DELETE_GLOBAL" else stop.peek(1)
    names = stop.frame.f_globals
    place = None if after is MISSING else Place(names, name)
    stop.observer.write(stop.frame, None, name, names.get(name, MISSING), after, place)


# -- attributes and items ------------------------------------------------------------------------------------


@on("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
def _load_attribute(stop: Stop) -> None:
    read_attribute(stop.observer, stop.frame, stop.peek(1), stop.place.argval)


@on("LOAD_SUPER_ATTR")
def _load_super_attribute(stop: Stop) -> None:
    """``super().name``, or ``super(cls, self).name``, without a super object."""
    owner, cls = stop.peek(1), stop.peek(2)
    fits = isinstance(cls, type) and (cls in type(owner).__mro__ or isinstance(owner, type))
    if stop.peek(3) is super and fits:
        read_base(stop.observer, stop.frame, super(cls, owner), stop.place.argval)


@on("IMPORT_NAME", leaves=True)
def _import(stop: Stop) -> None:
    """What was imported may be replaced in ``sys.modules``; loading it at first makes no difference."""
    name, level = stop.place.argval, stop.peek(2)

    def imported(module: Any) -> None:
        for known in {name, name.partition(".")[0]} if not level else ():
            if known in sys.modules:
                stop.observer.read(ItemRead, stop.frame, sys.modules, known, sys.modules[known])

    stop.pending = imported


@on("IS_OP")
def _identity(stop: Stop) -> None:
    """``x.item() is True``: the number that changes from call to call is an object of jtorch's."""
    pair = stop.peek(1), stop.peek(2)
    if all(isinstance(value, Tensor) for value in pair):
        stop.observer.effects.leave_turn("asks whether tensors are one")
    see_identity(stop.observer, stop.frame, *pair)
    if not any(isinstance(value, PLAIN) for value in pair):
        stop.observer.check_open(*pair)


@on("STORE_ATTR")
def _store_attribute(stop: Stop) -> None:
    write_attribute(stop.observer, stop.frame, stop.peek(1), stop.place.argval, stop.peek(2))


@on("DELETE_ATTR")
def _delete_attribute(stop: Stop) -> None:
    write_attribute(stop.observer, stop.frame, stop.peek(1), stop.place.argval, MISSING)


@on("BINARY_SUBSCR", leaves=True)
def _load_item(stop: Stop) -> None:
    observer, key, container = stop.observer, stop.peek(1), stop.peek(2)
    if isinstance(container, collections.defaultdict) and id(container) not in observer.outside:
        n = len(container)
        stop.pending = lambda value: observer.made(value) if len(container) > n else None
    kind = kind_of(type(container))
    if kind is Kind.TENSOR:
        see_indices(stop, key)
        return
    if kind is Kind.ARRAY and observer.takes_by_call(container, key):
        stop.put(2, observer.array_stand_in(container))
        return
    see_index(stop, key)
    if kind is Kind.ARRAY:
        observer.array(stop.frame, container)
        observer.deep(stop.frame, key)
    elif isinstance(container, dict) and see_search(observer, stop.frame, container, key):
        return
    elif kind in (Kind.OBJECT, Kind.OURS):
        read_special(observer, stop.frame, container, "__getitem__")
    elif kind is Kind.CONTAINER and id(container) in observer.outside:
        if isinstance(container, dict) and hashes_in_python(key):
            observer.contents(stop.frame, container)
            return
        if see_latest(observer, stop.frame, container, key):
            return
        value = item_of(container, key)
        front, effects = from_the_front(container, key), observer.effects
        of_list = value is not MISSING and isinstance(key, int) and not isinstance(container, dict)
        if of_list and id(container) not in effects.grown:
            observer.see_names(stop.frame, container, key, len(container))
        if front is not key and (id(container) in effects.changed or (id(container), front) in effects.known):
            key = front  # by which what is written is known
        if value is MISSING and isinstance(container, collections.defaultdict):
            value = _made_entry(stop, container, key)
        elif value is MISSING and not isinstance(container, dict):
            observer.contents(stop.frame, container)  # a slice, or out of range
        else:
            observer.read(ItemRead, stop.frame, container, key, value)
    elif isinstance(container, np.flatiter) and id(container) in observer.outside:
        observer.meet(container.base)
        observer.array(stop.frame, container.base)
    elif kind is Kind.FOREIGN and id(container) in observer.outside:
        observer.contents(stop.frame, container)


def _made_entry(stop: Stop, container: Any, key: Any) -> Any:
    """A defaultdict is asked for what it lacks. An optimizer's state gets an entry once, for all calls: what
    its step puts there is there before a recording; of others it is an error."""
    place = item_place(container, key, MISSING, {})
    if place is not None and container.default_factory is dict:
        raise Filling(place, {})
    stop.observer.write(stop.frame, container, key, MISSING, container)
    return item_of(container, key)


@on("BINARY_SLICE")
def _load_slice(stop: Stop) -> None:
    container, key = stop.peek(3), slice(stop.peek(2), stop.peek(1))
    kind = kind_of(type(container))
    see_index(stop, key)
    if kind is Kind.ARRAY:
        stop.observer.array(stop.frame, container)
    elif kind is Kind.OBJECT:
        read_special(stop.observer, stop.frame, container, "__getitem__")
    elif kind not in (Kind.CONTAINER, Kind.FOREIGN) or id(container) not in stop.observer.outside:
        return
    elif not see_latest(stop.observer, stop.frame, container, key):
        stop.observer.contents(stop.frame, container)


@on("STORE_SLICE")
def _store_slice(stop: Stop) -> None:
    check_iterator(stop.observer, stop.frame, stop.peek(4))
    see_index(stop, slice(stop.peek(2), stop.peek(1)))
    write_item(stop, stop.peek(3), MISSING, stop.peek(4))


@on("STORE_SUBSCR")
def _store_item(stop: Stop) -> None:
    if isinstance(stop.peek(1), slice):
        check_iterator(stop.observer, stop.frame, stop.peek(3))
    write_item(stop, stop.peek(2), stop.peek(1), stop.peek(3))


@on("DELETE_SUBSCR")
def _delete_item(stop: Stop) -> None:
    write_item(stop, stop.peek(2), stop.peek(1), MISSING)


# -- whole containers ----------------------------------------------------------------------------------------


@on("CONTAINS_OP")
def _contains(stop: Stop) -> None:
    check_iterator(stop.observer, stop.frame, stop.peek(1))
    read_special(stop.observer, stop.frame, stop.peek(1), "__contains__")
    read_membership(stop.observer, stop.frame, stop.peek(1), stop.peek(2))


@on("GET_ITER", "GET_YIELD_FROM_ITER")
def _iterate(stop: Stop) -> None:
    check_iterator(stop.observer, stop.frame, stop.peek(1))
    read_special(stop.observer, stop.frame, stop.peek(1), "__iter__")
    stop.observer.contents(stop.frame, stop.peek(1))


@on("BUILD_SET")
def _build_set(stop: Stop) -> None:
    _see_keys(stop, range(stop.place.arg, 0, -1))


@on("SET_ADD")
def _add_to_set(stop: Stop) -> None:
    _see_keys(stop, (1, 1 + stop.place.arg))


@on("BUILD_MAP")
def _build_map(stop: Stop) -> None:
    _see_keys(stop, range(2 * stop.place.arg, 0, -2))


@on("MAP_ADD")
def _add_to_map(stop: Stop) -> None:
    _see_keys(stop, (2, 2 + stop.place.arg))


@on("SET_UPDATE", "DICT_UPDATE", "DICT_MERGE")
def _open_into(stop: Stop) -> None:
    _open(stop)
    _see_keys(stop, (1, 1 + stop.place.arg))


def _see_keys(stop: Stop, depths: Iterable[int]) -> None:
    see_hashed(stop.observer, stop.frame, *map(stop.peek, depths))


@on("UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "GET_LEN")
def _open(stop: Stop) -> None:
    check_iterator(stop.observer, stop.frame, stop.peek(1))
    read_special(stop.observer, stop.frame, stop.peek(1), "__iter__", "keys")
    stop.observer.contents(stop.frame, stop.peek(1))


@on("MATCH_SEQUENCE", "MATCH_MAPPING")
def _match_items(stop: Stop) -> None:
    """``case [a, b]``, ``case {"a": a}``: of a user's class, where that is registered as such."""
    if kind_of(type(stop.peek(1))) is Kind.OBJECT:
        stop.observer.registry(stop.frame, stop.peek(1), (Sequence, Mapping))
    _open(stop)


@on("MATCH_KEYS")
def _match_keys(stop: Stop) -> None:
    stop.observer.contents(stop.frame, stop.peek(2))


@on("MATCH_CLASS")
def _match_class(stop: Stop) -> None:
    """``case Point(x, y=0)``: the names of what comes without one lie in the class."""
    observer, cls, names = stop.observer, stop.peek(2), stop.peek(1)
    if isinstance(cls, type):
        observer.see_class(stop.frame, stop.peek(3))
        observer.registry(stop.frame, stop.peek(3), cls)
        check_class(stop.peek(3), cls)
        read_attribute(observer, stop.frame, cls, "__match_args__")
        for name in (*getattr(cls, "__match_args__", ())[: stop.place.arg], *names):
            read_attribute(observer, stop.frame, stop.peek(3), name)
    observer.deep(stop.frame, stop.peek(3))


@on("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_FALSE", "TO_BOOL", "UNARY_NOT")  # fmt: skip
def _truth(stop: Stop) -> None:
    read_length(stop.observer, stop.frame, stop.peek(1), TRUTH)
    if stop.observer.effects.lengths and not stop.place.opname.startswith("JUMP"):  # which leave the value
        stop.put(1, truth_of(stop.peek(1)))
    if is_stand_in(stop.peek(1)):
        _choose(stop, stop.peek(1))


def _choose(stop: Stop, condition: Any) -> None:
    """``0.0 if done else 1.0`` of a bool among many that each call draws: both numbers, of which the call
    takes one. As a branch it would be recorded both ways, for each of them."""
    choice, select = stop.place.choice, getattr(type(condition), "select", None)
    if choice is None or select is None:
        return
    made = select(condition, choice.holds, choice.fails)
    if made is not None:
        stop.put(1, choice.falls_through)  # to the first number, which is exchanged behind it
        stop.pending = Instead(made)


_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_METHODS = {symbol: (f"__{name}__", f"__r{name}__") for symbol, name in _NAMES.items()}
_COMPARISONS = {
    "==": ("__eq__", "__eq__"), "!=": ("__ne__", "__ne__"), "<": ("__lt__", "__gt__"),
    ">": ("__gt__", "__lt__"), "<=": ("__le__", "__ge__"), ">=": ("__ge__", "__le__"),
}  # fmt: skip
_UNARY = {"UNARY_NEGATIVE": "__neg__", "UNARY_POSITIVE": "__pos__", "UNARY_INVERT": "__invert__"}


_IN_PLACE = {
    "+=": "__iadd__", "-=": "__isub__", "*=": "__imul__", "/=": "__itruediv__", "//=": "__ifloordiv__",
    "%=": "__imod__", "**=": "__ipow__", "@=": "__imatmul__", "&=": "__iand__", "|=": "__ior__",
    "^=": "__ixor__", "<<=": "__ilshift__", ">>=": "__irshift__",
}  # fmt: skip


_HASHING = (dict, Set)


@on("COMPARE_OP")
@on("BINARY_OP", leaves="BINARY_SUBSCR" not in dis.opmap)
def _operands(stop: Stop) -> None:
    if stop.place.symbol == "[]":  # since 3.14
        _load_item(stop)
        return
    observer, right, left = stop.observer, stop.peek(1), stop.peek(2)
    observer.handed = [value for value in (left, right) if is_stand_in(value) or is_symbolic(value)]
    if type(left) is str or type(right) is str:
        see_operator(stop, goes_out)
    if isinstance(left, str):
        see_text(stop, 3)
    kinds = kind_of(type(left)), kind_of(type(right))
    in_place = stop.place.opname == "BINARY_OP" and stop.place.symbol.endswith("=")
    if in_place and kinds[0] in (Kind.CONTAINER, Kind.ARRAY) and id(left) in observer.outside:
        observer.write(stop.frame, left, MISSING, MISSING, left)
    elif in_place and kinds[0] in (Kind.FOREIGN, Kind.OBJECT):
        changes_unseen(observer, stop.frame, left, MISSING, _IN_PLACE[stop.place.symbol])
    if Kind.OBJECT in kinds:
        names = _METHODS.get(stop.place.symbol.removesuffix("=") or "=", ("", ""))
        own, other = _COMPARISONS.get(stop.place.symbol.removeprefix("bool(").removesuffix(")"), names)
        in_its_place = (own.replace("__", "__i", 1),) if in_place else ()
        read_special(observer, stop.frame, left, *in_its_place, own)
        read_special(observer, stop.frame, right, other)
    if Kind.TENSOR in kinds:  # an array from outside next to a tensor is read anew at each call
        observer.beside_tensor(stop.frame, right)
        return
    if is_array_stand_in(left) or is_array_stand_in(right):
        return
    if any(isinstance(value, _HASHING) for value in (left, right)):
        see_hashed(observer, stop.frame, left, right)
    if stop.place.opname == "BINARY_OP" and all(kind in (Kind.CONTAINER, Kind.TUPLE) for kind in kinds):
        observer.contents(stop.frame, left)  # a + b looks at no entries of entries
        observer.contents(stop.frame, right)
        return
    for value, kind in zip((left, right), kinds, strict=True):
        if kind in (Kind.CONTAINER, Kind.TUPLE, Kind.ARRAY, Kind.FOREIGN) or compares_in_c(type(value)):
            observer.deep(stop.frame, value)


@on("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "CONVERT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC",
    "FORMAT_VALUE")  # fmt: skip
def _operand(stop: Stop) -> None:
    name = stop.place.opname
    below = name == "FORMAT_WITH_SPEC" or (name == "FORMAT_VALUE" and stop.place.arg & 4)
    value = stop.peek(2 if below else 1)
    if name in _UNARY:
        read_special(stop.observer, stop.frame, value, _UNARY[name])
    if name.startswith(("FORMAT", "CONVERT")):
        see_format(stop, goes_out)
        see_text(stop, 3 if below else 2)
    if kind_of(type(value)) in (Kind.CONTAINER, Kind.TUPLE, Kind.ARRAY, Kind.OURS, Kind.FOREIGN):
        stop.observer.deep(stop.frame, value)


@on("CALL_INTRINSIC_1")
def _intrinsic(stop: Stop) -> None:
    if stop.place.symbol == "INTRINSIC_UNARY_POSITIVE":
        read_special(stop.observer, stop.frame, stop.peek(1), "__pos__")
        _operand(stop)


# -- errors --------------------------------------------------------------------------------------------------


@on("PUSH_EXC_INFO", leaves=True)
def _catch(stop: Stop) -> None:
    """An exception came to one of the function's handlers: an ``except``, a ``finally``, a ``with``.

    It is looked at one instruction later: what is raised at this one makes the interpreter take the exception
    for one that is being handled, ever after.
    """
    stop.pending = functools.partial(check_error, stop.observer)


@on("BEFORE_WITH", "LOAD_SPECIAL")
def _enter(stop: Stop) -> None:
    """``with`` something whose code is not watched: what it gives is from outside, or changes."""
    manager = stop.peek(1)
    if issubclass(type(manager), contextlib.closing):
        stop.observer.meet(manager.thing)
    elif type(manager).__module__ == "unittest.mock":
        raise stop.observer.error(
            stop.frame,
            f"enters a {type(manager).__name__} of unittest.mock, which changes what nobody sees, and a "
            "recording would do that once",
            "Enter it outside.",
        )
    elif isinstance(manager, threading.Semaphore):
        raise stop.observer.error(
            stop.frame, "enters a semaphore, which a recording would do once", "Enter it outside."
        )
    elif type(manager) not in LOCKS:  # before it is entered: who refused it later would leave it so
        stop.observer.hand_foreign(stop.frame, manager)


# -- calls ---------------------------------------------------------------------------------------------------

# 3.11 has two instructions: where the first is specialised, it makes the call, and the second is not reached
_CALLS = ("PRECALL",) if "PRECALL" in dis.opmap else ("CALL", "CALL_KW")


@on(*_CALLS, leaves=True)
def _call(stop: Stop) -> None:
    """Below the arguments lie a function and NULL, in an order that depends on the version, or a method's
    function and the object."""
    n, names = stop.place.arg, int(stop.place.opname == "CALL_KW")
    keywords = stop.peek(1) if names else stop.place.names
    args = [stop.peek(k + names) for k in range(n, 0, -1)]
    callee, second = stop.peek(n + names + 2), stop.peek(n + names + 1)
    function = second if callee is NULL else callee
    stop.callee = n + names + (1 if callee is NULL else 2)
    if not names and not keywords:
        other = instead(function, args, stop.observer) if callee is NULL or second is NULL else None
        given = args if callee is NULL or second is NULL else [second, *args]
        other = other or instead_of_text(stop, function, given, goes_out)
        if other is not None:
            for value in args:
                stop.observer.nested(stop.frame, value)
            stop.put(stop.callee, other)
            return
    if makes_text(function):
        see_text(stop, n + names + 3, function)
    if callee is NULL:
        see_call(stop, second, args, keywords)
    else:
        see_call(stop, callee, args if second is NULL else [second, *args], keywords)


_KEYWORDS_ALWAYS = dis.stack_effect(dis.opmap["CALL_FUNCTION_EX"], 0) == -3  # since 3.14, or NULL


@on("CALL_FUNCTION_EX", leaves=True)
def _call_with(stop: Stop) -> None:
    k = int(_KEYWORDS_ALWAYS or stop.place.arg & 1)
    keywords = stop.peek(1) if k else NULL
    keywords = {} if keywords is NULL else keywords
    positional, callee = stop.peek(k + 1), stop.peek(k + 2)
    at = k + 3 if callee is NULL else k + 2
    callee = stop.peek(at)
    for given in (positional, keywords):
        check_iterator(stop.observer, stop.frame, given)
        stop.observer.contents(stop.frame, given)
    is_known = isinstance(positional, (tuple, list)) and isinstance(keywords, dict)
    stop.callee = at if is_known else 0
    args = list(positional) if isinstance(positional, (tuple, list)) else []
    if makes_text(callee):
        see_text(stop, k + 4, callee)
    keywords = keywords if isinstance(keywords, dict) else {}
    see_call(stop, callee, [*args, *keywords.values()], tuple(keywords))
