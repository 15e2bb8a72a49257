"""The instructions that read or write more than locals, and what each is about to do with its operands.

Stack positions are those of CPython 3.11: https://docs.python.org/3.11/library/dis.html
"""

from __future__ import annotations

import collections
import dis
import sys
import types
from collections.abc import Callable
from typing import Any

from jtorch.compile.attributes import read_attribute, write_attribute
from jtorch.compile.calls import check_iterator, read_length, read_membership, see_call
from jtorch.compile.frames import NULL, function_of, peek
from jtorch.compile.guards import MISSING, CellRead, ItemRead
from jtorch.compile.kinds import Kind, kind_of
from jtorch.compile.scalar import Scalar
from jtorch.compile.stepping import HANDLERS, Handler, Watch

_FIRST_IN_PLACE = 13  # the argument of BINARY_OP for +=; those of the others follow


def on(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[dis.opmap[name]] = handler
        return handler

    return register


# -- names ---------------------------------------------------------------------------------------------------


@on("LOAD_GLOBAL")
def _load_global(watch: Watch, frame: types.FrameType, arg: int) -> None:
    _global(watch, frame, frame.f_code.co_names[arg >> 1])


@on("LOAD_NAME")
def _load_name(watch: Watch, frame: types.FrameType, arg: int) -> None:
    name = frame.f_code.co_names[arg]
    if frame.f_locals is frame.f_globals or name not in frame.f_locals:
        _global(watch, frame, name)


def _global(watch: Watch, frame: types.FrameType, name: str) -> None:
    """A builtin's name is read as a global that is missing."""
    watch.observer.read(ItemRead, frame, frame.f_globals, name, frame.f_globals.get(name, MISSING))


def _cell(watch: Watch, frame: types.FrameType, arg: int) -> tuple[Any, str]:
    """The cell from outside that an instruction names, and its name."""
    code = frame.f_code
    name = code._varname_from_oparg(arg)  # type: ignore[attr-defined]
    function = function_of(frame)
    if name not in code.co_freevars or function is None or function.__closure__ is None:
        return None, name
    cell = function.__closure__[code.co_freevars.index(name)]
    return (None if id(cell) in watch.observer.inside else cell), name


@on("LOAD_DEREF", "LOAD_CLASSDEREF")
def _load_cell(watch: Watch, frame: types.FrameType, arg: int) -> None:
    cell, name = _cell(watch, frame, arg)
    if cell is not None:
        watch.observer.read(CellRead, frame, cell, name, _content(cell))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


@on("LOAD_CLOSURE")
def _load_closure(watch: Watch, frame: types.FrameType, arg: int) -> None:
    if frame.f_code._varname_from_oparg(arg) in frame.f_code.co_cellvars:  # type: ignore[attr-defined]
        watch.pending = watch.observer.made


@on("MAKE_FUNCTION")
def _make_function(watch: Watch, frame: types.FrameType, arg: int) -> None:
    watch.pending = watch.observer.made


@on("STORE_DEREF", "DELETE_DEREF")
def _store_cell(watch: Watch, frame: types.FrameType, arg: int) -> None:
    cell, name = _cell(watch, frame, arg)
    if cell is not None:
        deletes = frame.f_code.co_code[frame.f_lasti] == dis.opmap["DELETE_DEREF"]
        watch.observer.write(frame, None, name, _content(cell), MISSING if deletes else peek(frame, 1))


@on("STORE_GLOBAL")
def _store_global(watch: Watch, frame: types.FrameType, arg: int) -> None:
    name = frame.f_code.co_names[arg]
    watch.observer.write(frame, None, name, frame.f_globals.get(name, MISSING), peek(frame, 1))


@on("DELETE_GLOBAL")
def _delete_global(watch: Watch, frame: types.FrameType, arg: int) -> None:
    name = frame.f_code.co_names[arg]
    watch.observer.write(frame, None, name, frame.f_globals.get(name, MISSING), MISSING)


# -- attributes and items ------------------------------------------------------------------------------------


@on("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
def _load_attribute(watch: Watch, frame: types.FrameType, arg: int) -> None:
    read_attribute(watch.observer, frame, peek(frame, 1), frame.f_code.co_names[arg])


@on("IMPORT_NAME")
def _import(watch: Watch, frame: types.FrameType, arg: int) -> None:
    """What was imported may be replaced in ``sys.modules``; loading it at first makes no difference."""
    name, level = frame.f_code.co_names[arg], peek(frame, 2)

    def imported(module: Any) -> None:
        for known in {name, name.partition(".")[0]} if not level else ():
            if known in sys.modules:
                watch.observer.read(ItemRead, frame, sys.modules, known, sys.modules[known])

    watch.pending = imported


@on("IS_OP")
def _identity(watch: Watch, frame: types.FrameType, arg: int) -> None:
    """``x.item() is True``: the number that changes from call to call is an object of jtorch's."""
    pair = peek(frame, 1), peek(frame, 2)
    if any(issubclass(type(a), Scalar) and isinstance(b, bool) for a, b in (pair, pair[::-1])):
        raise watch.observer.error(
            frame,
            "asks whether a number that may change from call to call 'is' True or False",
            "Use it as a condition, or compare by ==.",
        )


@on("STORE_ATTR")
def _store_attribute(watch: Watch, frame: types.FrameType, arg: int) -> None:
    write_attribute(watch.observer, frame, peek(frame, 1), frame.f_code.co_names[arg], peek(frame, 2))


@on("DELETE_ATTR")
def _delete_attribute(watch: Watch, frame: types.FrameType, arg: int) -> None:
    write_attribute(watch.observer, frame, peek(frame, 1), frame.f_code.co_names[arg], MISSING)


@on("BINARY_SUBSCR")
def _load_item(watch: Watch, frame: types.FrameType, arg: int) -> None:
    observer, key, container = watch.observer, peek(frame, 1), peek(frame, 2)
    kind = kind_of(type(container))
    if kind is Kind.TENSOR:  # by indices that may lie in lists or arrays
        observer.deep(frame, key, objects=False)
    elif kind is Kind.ARRAY:
        observer.array(frame, container)
    elif kind is Kind.CONTAINER and id(container) in observer.outside:
        value = _item(container, key)
        if value is MISSING and isinstance(container, collections.defaultdict):
            observer.write(frame, container, key, MISSING, container)
        if value is MISSING and not isinstance(container, dict):
            observer.contents(frame, container)  # a slice, or out of range
        else:
            observer.read(ItemRead, frame, container, key, value)
    elif kind is Kind.FOREIGN and id(container) in observer.outside:
        observer.contents(frame, container)


def _item(container: Any, key: Any) -> Any:
    if isinstance(container, dict):
        return dict.get(container, key, MISSING)
    if isinstance(container, (list, bytearray)) and hasattr(type(key), "__index__"):
        return container[key] if -len(container) <= key < len(container) else MISSING
    return MISSING


@on("STORE_SUBSCR")
def _store_item(watch: Watch, frame: types.FrameType, arg: int) -> None:
    _write_item(watch, frame, peek(frame, 2), peek(frame, 1), peek(frame, 3))


@on("DELETE_SUBSCR")
def _delete_item(watch: Watch, frame: types.FrameType, arg: int) -> None:
    _write_item(watch, frame, peek(frame, 2), peek(frame, 1), MISSING)


def _write_item(watch: Watch, frame: types.FrameType, container: Any, key: Any, value: Any) -> None:
    kind = kind_of(type(container))
    if kind is Kind.TENSOR:
        watch.observer.deep(frame, (key, value), objects=False)
    elif kind in (Kind.CONTAINER, Kind.ARRAY) and id(container) in watch.observer.outside:
        before = _item(container, key) if kind is Kind.CONTAINER else MISSING
        watch.observer.write(frame, container, key, before, value)


# -- whole containers ----------------------------------------------------------------------------------------


@on("CONTAINS_OP")
def _contains(watch: Watch, frame: types.FrameType, arg: int) -> None:
    read_membership(watch.observer, frame, peek(frame, 1), peek(frame, 2))


@on("GET_ITER", "GET_YIELD_FROM_ITER")
def _iterate(watch: Watch, frame: types.FrameType, arg: int) -> None:
    check_iterator(watch.observer, frame, peek(frame, 1))
    watch.observer.contents(frame, peek(frame, 1))


@on("UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "GET_LEN",
    "MATCH_SEQUENCE", "MATCH_MAPPING")  # fmt: skip
def _open(watch: Watch, frame: types.FrameType, arg: int) -> None:
    watch.observer.contents(frame, peek(frame, 1))


@on("MATCH_KEYS")
def _match_keys(watch: Watch, frame: types.FrameType, arg: int) -> None:
    watch.observer.contents(frame, peek(frame, 2))


@on("MATCH_CLASS")
def _match_class(watch: Watch, frame: types.FrameType, arg: int) -> None:
    watch.observer.deep(frame, peek(frame, 3))


@on("POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_BACKWARD_IF_FALSE", "JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "UNARY_NOT")  # fmt: skip
def _truth(watch: Watch, frame: types.FrameType, arg: int) -> None:
    read_length(watch.observer, frame, peek(frame, 1))


@on("COMPARE_OP", "BINARY_OP")
def _operands(watch: Watch, frame: types.FrameType, arg: int) -> None:
    observer, right, left = watch.observer, peek(frame, 1), peek(frame, 2)
    kinds = kind_of(type(left)), kind_of(type(right))
    in_place = frame.f_code.co_code[frame.f_lasti] == _BINARY and arg >= _FIRST_IN_PLACE
    if in_place and kinds[0] in (Kind.CONTAINER, Kind.ARRAY) and id(left) in observer.outside:
        observer.write(frame, left, MISSING, MISSING, left)
    if Kind.TENSOR in kinds:  # an array next to a tensor is read anew at each call
        return
    for value, kind in zip((left, right), kinds, strict=True):
        if kind in (Kind.CONTAINER, Kind.TUPLE, Kind.ARRAY):
            observer.deep(frame, value)


_BINARY = dis.opmap["BINARY_OP"]


@on("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "FORMAT_VALUE")
def _operand(watch: Watch, frame: types.FrameType, arg: int) -> None:
    below = frame.f_code.co_code[frame.f_lasti] == _FORMAT and (arg & 4) == 4
    value = peek(frame, 2 if below else 1)
    if kind_of(type(value)) in (Kind.CONTAINER, Kind.TUPLE, Kind.ARRAY):
        watch.observer.deep(frame, value)


_FORMAT = dis.opmap["FORMAT_VALUE"]


# -- calls ---------------------------------------------------------------------------------------------------


@on("PRECALL")  # where specialised, it makes the call, and CALL is never reached
def _call(watch: Watch, frame: types.FrameType, arg: int) -> None:
    args = [peek(frame, k) for k in range(arg, 0, -1)]
    callee, second = peek(frame, arg + 2), peek(frame, arg + 1)
    if callee is NULL:
        see_call(watch, frame, second, args)
    else:
        see_call(watch, frame, callee, [second, *args])


@on("CALL_FUNCTION_EX")
def _call_with(watch: Watch, frame: types.FrameType, arg: int) -> None:
    keywords = peek(frame, 1) if arg & 1 else {}
    positional, callee = peek(frame, 1 + (arg & 1)), peek(frame, 2 + (arg & 1))
    for given in (positional, keywords):
        check_iterator(watch.observer, frame, given)
        watch.observer.contents(frame, given)
    args = list(positional) if isinstance(positional, (tuple, list)) else []
    see_call(watch, frame, callee, [*args, *(keywords.values() if isinstance(keywords, dict) else ())])
