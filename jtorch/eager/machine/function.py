"""A function that Python calls as a builtin: it knows what lies in a record, and gives back what it owns."""

from __future__ import annotations

from typing import Any

import numpy as np

from jtorch.eager.machine import layout
from jtorch.native.builtin import DATA_OFFSET, api
from jtorch.native.immortal import live_forever
from jtorch.native.llvm_text import NULL, Value, Writer, integer

_FUNCTIONS = {
    "bad_argument": "PyErr_BadArgument", "own": "Py_IncRef", "drop": "Py_DecRef",
    "allocate": "PyType_GenericAlloc", "is_subtype": "PyType_IsSubtype", "get_attribute": "PyObject_GetAttr",
    "vectorcall": "PyObject_Vectorcall", "equal": "PyObject_RichCompareBool", "new_tuple": "PyTuple_New",
    "new_list": "PyList_New", "append": "PyList_Append", "contains": "PySequence_Contains",
    "find": "PyDict_GetItemWithError", "put": "PyDict_SetItem", "add": "PyNumber_Add",
    "to_float": "PyNumber_Float", "new_int": "PyLong_FromSsize_t", "get_int": "PyLong_AsSsize_t",
    "new_reference": "PyWeakref_NewRef", "get_variable": "PyContextVar_Get", "error": "PyErr_Occurred",
    "clear_error": "PyErr_Clear",
}  # fmt: skip


class Record:
    """How records are laid out: addresses of the C API and of objects that live as long as the process, then
    what each has of its own."""

    def __init__(self, objects: dict[str, Any], own: tuple[str, ...] = ()) -> None:
        self._objects, self._own = objects, own
        for thing in objects.values():
            live_forever(thing)
        names = (*_FUNCTIONS, *objects, *own)
        self.places = {name: 8 * k for k, name in enumerate(names)}
        self.size = 8 * len(names)

    def new(self, own: dict[str, int], *more: int) -> np.ndarray:
        """One of them, with ``more`` behind what has a name."""
        words = [*map(api, _FUNCTIONS.values()), *map(id, self._objects.values())]
        return np.array([*words, *(own[name] for name in self._own), *more], np.int64)


class Function(Writer):
    """``PyObject *(PyObject *self, PyObject *const *arguments, Py_ssize_t count)``.

    It leaves by the label ``end`` with what lies in ``result``, and with null by ``raised``, after an error
    of the C API. Whatever allocates may run the garbage collector, and that any Python: what is borrowed from
    a place that Python could change is owned before.
    """

    def __init__(self, name: str, record: Record) -> None:
        super().__init__(name, {"self": "ptr", "arguments": "ptr", "count": "i64"})
        self._places = record.places
        self.record = self.load(self.parameters["self"], DATA_OFFSET)
        self._held: list[Value] = []
        self.result = self.slot(NULL)

    # What the record holds.

    def word(self, name: str, kind: str = "ptr") -> Value:
        return self.load(self.record, self._places[name], kind)

    def flag(self, name: str) -> Value:
        return self.true(self.word(name, "i64"))

    def equals(self, value: Value, name: str) -> Value:
        return self.same(value, self.word(name))

    def api(self, name: str, *arguments: Value, gives: str = "ptr") -> Value:
        return self.call(self.word(name), *arguments, gives=gives)

    # References.

    def own(self, value: Value) -> None:
        self.api("own", value, gives="void")

    def owner(self) -> Value:
        """A place for references, of which it holds one at a time, and none after the end."""
        place = self.slot(NULL)
        self._held.append(place)
        return place

    def hold(self, value: Value) -> Value:
        """A new reference, given back at the end; null is an error that was raised. Not for loops."""
        assert not self.loops, "an owner of its own for each round would be needed: see hold_in"
        self.store(value, self.owner())
        return self.checked(value)

    def keep(self, value: Value) -> Value:
        """Something that others own, alive until the end."""
        self.own(value)
        return self.hold(value)

    def hold_in(self, owner: Value, value: Value) -> Value:
        """The same for what comes more than once: ``owner`` lets go of what it held."""
        self.swap(owner, 0, value)
        return self.checked(value)

    def keep_in(self, owner: Value, value: Value) -> Value:
        self.own(value)
        return self.hold_in(owner, value)

    def let_go(self, owner: Value) -> None:
        """``owner`` holds nothing from here on."""
        self.swap(owner, 0, NULL)

    def swap(self, thing: Value, offset: int, value: Value) -> None:
        """The reference ``value`` goes in, and what was there is given back."""
        before = self.load(thing, offset)
        self.store(value, thing, offset)
        self.api("drop", before, gives="void")

    def checked(self, value: Value) -> Value:
        self.leave_if(self.same(value, NULL), "raised")
        return value

    # Objects.

    def type_of(self, value: Value) -> Value:
        return self.load(value, layout.TYPE)

    def size_of(self, value: Value) -> Value:
        return self.load(value, layout.SIZE, "i64")

    def set_slot(self, thing: Value, offset: int, value: Value) -> None:
        """What was null becomes ``value``."""
        self.own(value)
        self.store(value, thing, offset)

    def set_nth(self, items: Value, index: Value, value: Value) -> None:
        self.own(value)
        self.store_nth(value, items, index)

    def replace(self, thing: Value, offset: int, value: Value) -> None:
        """What was something else becomes ``value``."""
        self.own(value)
        self.swap(thing, offset, value)

    def with_slots(self, thing: Value, places: layout.Slots, **values: Value) -> Value:
        """A new object of ours, its slots set."""
        for slot, value in values.items():
            self.set_slot(thing, places[slot], value)
        return thing

    def new_tuple(self, *items: Value) -> Value:
        """Of items that are held."""
        made = self.hold(self.api("new_tuple", integer(len(items))))
        for k, item in enumerate(items):
            self.set_slot(made, layout.TUPLE_ITEMS + 8 * k, item)
        return made

    def append(self, items: Value, item: Value) -> None:
        failed = self.api("append", items, item, gives="i32")
        self.leave_if(self.negated(self.same(failed, integer(0, "i32"))), "raised")

    def finish(self) -> None:
        """Write the end: everything held is given back."""
        self.begin("bad")
        self.api("bad_argument", gives="i32")
        self.leave("raised")
        self.begin("raised")
        self.store(NULL, self.result)
        self.leave("end")
        self.begin("end")
        for place in self._held:
            self.api("drop", self.load(place), gives="void")
        self.give(self.load(self.result))
