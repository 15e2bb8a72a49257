"""Machine code that makes the Tensor of an op's result, and the node of the tape that made it.

It does what the two functions of ``eager/results.py`` say, in 0.17 us where Python takes 0.36: allocates the
objects as ``object.__new__`` does and fills their slots. Slots lie behind an object's header in the order of
their names, which is checked on real objects before any is made this way.

The builtins' ``self`` is an int64 ndarray of addresses, of functions of the C API and of objects that
live as long as the process.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import config
from jtorch.compile import cache, cache_files
from jtorch.compile.runtime.builtin import DATA_OFFSET, api, make_builtin

_FUNCTIONS = {
    "alloc": "PyType_GenericAlloc", "own": "Py_IncRef", "drop": "Py_DecRef", "get": "PyObject_GetAttr",
    "pack": "PyTuple_Pack", "bad": "PyErr_BadArgument",
}  # fmt: skip
_OBJECTS: dict[str, Any] = {
    "shape": sys.intern("shape"), "dtype": sys.intern("dtype"), "none": None, "true": True, "false": False,
    "zero": 0,
}  # fmt: skip

_HEAD = """
define ptr @jtorch_NAME(ptr %self, ptr %arguments, i64 %count) {
entry:
  %as_wanted = icmp eq i64 %count, COUNT
LOADS
  br i1 %as_wanted, label %start, label %wrong

wrong:
  %ignored = call i32 %bad()
  ret ptr null

start:
ARGUMENTS
"""

_ON_TAPE = """
  %shape_found = call ptr %get(ptr %out, ptr %shape)
  %no_shape = icmp eq ptr %shape_found, null
  br i1 %no_shape, label %failed, label %shaped

shaped:
  %dtype_found = call ptr %get(ptr %out, ptr %dtype)
  %no_dtype = icmp eq ptr %dtype_found, null
  br i1 %no_dtype, label %drop_shape, label %typed

drop_shape:
  call void %drop(ptr %shape_found)
  ret ptr null

typed:
  %metadata = call ptr (i64, ...) %pack(i64 2, ptr %shape_found, ptr %dtype_found)
  call void %drop(ptr %shape_found)
  call void %drop(ptr %dtype_found)
  %no_metadata = icmp eq ptr %metadata, null
  br i1 %no_metadata, label %failed, label %described

described:
  %node = call ptr %alloc(ptr %node_class, i64 0)
  %no_node = icmp eq ptr %node, null
  br i1 %no_node, label %drop_metadata, label %noded

drop_metadata:
  call void %drop(ptr %metadata)
  ret ptr null

noded:
NODE
  %made = call ptr %alloc(ptr %tensor, i64 0)
  %no_tensor = icmp eq ptr %made, null
  br i1 %no_tensor, label %drop_node, label %fill

drop_node:
  call void %drop(ptr %node)
  ret ptr null

fill:
TENSOR
  ret ptr %made

failed:
  ret ptr null
}
"""

_OFF_TAPE = """
  %made = call ptr %alloc(ptr %tensor, i64 0)
  %no_tensor = icmp eq ptr %made, null
  br i1 %no_tensor, label %failed, label %fill

fill:
TENSOR
  ret ptr %made

failed:
  ret ptr null
}
"""


def makers(tensor_class: type, node_class: type) -> tuple[Callable, Callable] | None:
    """``on_tape`` and ``off_tape`` for these classes, compiled once a machine (0.1 s) and kept in the cache.

    None where nothing can be compiled or kept, and where objects are laid out otherwise.
    """
    if not _is_usual_python() or not config.get("JIT") or cache_files.open_folder(warn=False) is None:
        return None
    places = [_places(tensor_class), _places(node_class)]
    if not all(places):
        return None
    try:
        addresses = cache.get_or_build_ir(_text(*places), "results")
    except (RuntimeError, ImportError, OSError):  # LLVM refuses it, or is not there
        return None
    record = np.array(_addresses(tensor_class), np.int64)
    record.flags.writeable = False
    return (
        make_builtin("on_tape", addresses["jtorch_on_tape"], record),
        make_builtin("off_tape", addresses["jtorch_off_tape"], record),
    )


def _is_usual_python() -> bool:
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and gil


def _places(cls: Any) -> dict[str, int]:
    """Where the slots of ``cls`` lie, in bytes; nothing where that is not as expected, tried on an object."""
    names = sorted(name for name in cls.__slots__ if name != "__weakref__")
    places = {name: object.__basicsize__ + 8 * k for k, name in enumerate(names)}
    tried = object.__new__(cls)
    for name, place in places.items():
        word = ctypes.c_int64.from_address(id(tried) + place)
        if place + 8 > cls.__basicsize__ or word.value != 0:  # an empty slot is null
            return {}
        mark = object()
        setattr(tried, name, mark)
        if word.value != id(mark):
            return {}
    return places


def _addresses(tensor_class: type) -> list[int]:
    """The record, in the order of ``_loads``."""
    return [*map(api, _FUNCTIONS.values()), *map(id, _OBJECTS.values()), id(tensor_class)]


def _text(tensor: dict[str, int], node: dict[str, int]) -> str:
    """The LLVM IR of both functions, for slots at these places."""
    of_node = {"edges": "edges", "saved": "saved", "versions": "versions", "extras": "none"}
    of_tensor = {"_data": "out", "_cell": "cell", "_index": "zero"}
    of_tensor |= dict.fromkeys(("_base", "_grad", "_hooks"), "none")
    hung = _stores("made", tensor, of_tensor | {"_requires_grad": "true"})
    hung += _store("made", tensor["_node"], "node")
    bare = _stores("made", tensor, of_tensor | {"_requires_grad": "false", "_node": "none"})
    filled = _stores("node", node, of_node) + _store("node", node["metadata"], "metadata")
    on_tape = _ON_TAPE.replace("NODE", filled).replace("TENSOR", hung)
    head = _head("on_tape", "node_class", "out", "cell", "edges", "saved", "versions")
    return head + on_tape + _head("off_tape", "out", "cell") + _OFF_TAPE.replace("TENSOR", bare)


def _head(name: str, *arguments: str) -> str:
    """What both functions begin with: they refuse another number of arguments, and name what they work on."""
    named = []
    for k, argument in enumerate(arguments):
        named += [
            f"  %{argument}_argument = getelementptr ptr, ptr %arguments, i64 {k}",
            f"  %{argument} = load ptr, ptr %{argument}_argument",
        ]
    text = _HEAD.replace("NAME", name).replace("COUNT", str(len(arguments)))
    return text.replace("LOADS", _loads()).replace("ARGUMENTS", "\n".join(named))


def _loads() -> str:
    """What the record holds, by name."""
    lines = [
        f"  %record_slot = getelementptr i8, ptr %self, i64 {DATA_OFFSET}",
        "  %record = load ptr, ptr %record_slot",
    ]
    for k, name in enumerate((*_FUNCTIONS, *_OBJECTS, "tensor")):
        lines += [
            f"  %{name}_at = getelementptr i64, ptr %record, i64 {k}",
            f"  %{name} = load ptr, ptr %{name}_at",
        ]
    return "\n".join(lines)


def _stores(thing: str, places: dict[str, int], values: dict[str, str]) -> str:
    """``values`` by slot into ``thing``, which becomes an owner of each."""
    return "".join(
        f"  call void %own(ptr %{value})\n" + _store(thing, places[slot], value)
        for slot, value in values.items()
    )


def _store(thing: str, place: int, value: str) -> str:
    at = f"%{thing}_at_{place}"
    return f"  {at} = getelementptr i8, ptr %{thing}, i64 {place}\n  store ptr %{value}, ptr {at}\n"
