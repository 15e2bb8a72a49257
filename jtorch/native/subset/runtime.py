"""What translated functions call: the C API, and a few functions that do the usual case in place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from jtorch.native import layout
from jtorch.native.llvm_text import NULL, Value, Writer, integer
from jtorch.native.subset.words import LAST_DIMS, LAST_DTYPE, LAST_NDIM, MOST_DIMS, Words

_API = {  # what is called of CPython, by its C signature
    "Py_DecRef": "void (ptr)", "PyType_GenericAlloc": "ptr (ptr, i64)",
    "PyType_IsSubtype": "i32 (ptr, ptr)", "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_SetAttr": "i32 (ptr, ptr, ptr)", "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyObject_VectorcallMethod": "ptr (ptr, ptr, i64, ptr)", "PyObject_IsTrue": "i32 (ptr)",
    "PyObject_RichCompareBool": "i32 (ptr, ptr, i32)", "PyObject_GetItem": "ptr (ptr, ptr)",
    "PyObject_SetItem": "i32 (ptr, ptr, ptr)", "PySequence_Size": "i64 (ptr)",
    "PySequence_GetItem": "ptr (ptr, i64)", "PySequence_Contains": "i32 (ptr, ptr)",
    "PyTuple_New": "ptr (i64)", "PyList_New": "ptr (i64)", "PyList_Append": "i32 (ptr, ptr)",
    "PyLong_AsSsize_t": "i64 (ptr)", "PyLong_AsDouble": "double (ptr)",
    "PyFloat_FromDouble": "ptr (double)", "PyNumber_Add": "ptr (ptr, ptr)",
    "PyNumber_Subtract": "ptr (ptr, ptr)",
    "PyNumber_InPlaceAdd": "ptr (ptr, ptr)", "PyNumber_InPlaceSubtract": "ptr (ptr, ptr)",
    "PyNumber_And": "ptr (ptr, ptr)",
    "PyObject_Size": "i64 (ptr)", "PyWeakref_NewRef": "ptr (ptr, ptr)",
    "PyContextVar_Get": "i32 (ptr, ptr, ptr)", "PyErr_BadArgument": "i32 ()", "PyErr_Clear": "void ()",
    "PyErr_Occurred": "ptr ()", "PyDict_GetItemWithError": "ptr (ptr, ptr)",
}  # fmt: skip
_NO = integer(0, "i32")


def symbol(name: str) -> str:
    """Of a function that code of this or of another unit calls."""
    return f"jtorch_subset_{name}"


def declarations() -> str:
    """The C API, for code that calls it."""
    lines = ["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"]
    for name, kinds in _API.items():
        gives, _, takes = kinds.partition(" ")
        lines.append(f"declare {gives} @{name}{takes}")
    return "\n".join(lines)


class Code(Writer):
    """Code that finds its words in a record."""

    words: Words
    record: Value

    def word(self, name: str) -> Value:
        return self.load(self.record, self.words.place(name))

    def where(self, name: str) -> Value:
        """The place of a word, for a function that loads it itself."""
        return integer(self.words.place(name))

    def word_at(self, place: Value) -> Value:
        return self.load(self.at_bytes(self.record, place))

    def api(self, name: str, *arguments: Value) -> Value:
        return self.call(Value("ptr", f"@{name}"), *arguments, gives=_API[name].partition(" ")[0])

    def runtime(self, name: str, *arguments: Value, gives: str = "ptr") -> Value:
        return self.call(Value("ptr", f"@{symbol(name)}"), self.record, *arguments, gives=gives)

    def keep(self, thing: Value) -> None:
        """One reference more, as ``Py_IncRef`` counts it: from 3.12 on in 32 bits, of which the first means
        that the object lives forever.
        """
        kind = f"i{layout.COUNT_BITS}"
        count, one = self.load(thing, kind=kind), integer(1, kind)
        if layout.COUNT_BITS == 32:
            mortal = self.less(integer(-1, kind), count)
            one = self.operation(kind, f"zext {mortal} to {kind}")
        self.store(self.plus(count, one), thing)

    def let_go(self, thing: Value) -> None:
        """One reference less. What nobody else holds, and what lives forever, is for CPython."""
        kind = f"i{layout.COUNT_BITS}"
        count = self.load(thing, kind=kind)
        shared = self.less(integer(1, kind), count)
        with self.when(shared):
            self.store(self.plus(count, integer(-1, kind)), thing)
        with self.when(self.negated(shared)):
            self.api("Py_DecRef", thing)

    def type_of(self, thing: Value) -> Value:
        return self.load(thing, layout.TYPE)

    def is_list(self, thing: Value) -> Value:
        return self.same(self.type_of(thing), self.word("list"))

    def is_tuple(self, thing: Value, size: Value) -> Value:
        """Of so many items. What has no length has some word there, too."""
        is_tuple = self.same(self.type_of(thing), self.word("tuple"))
        return self.both(is_tuple, self.same(self.load(thing, layout.SIZE, "i64"), size))


class _Runtime(Code):
    def __init__(self, words: Words, name: str, gives: str, **parameters: str) -> None:
        super().__init__(symbol(name), {"record": "ptr"} | parameters, gives=gives)
        self.words, self.record = words, self.parameters["record"]


def runtime(words: Words) -> Iterator[Code]:
    """Each takes the record first; a word that it needs is given as its place there."""
    yield from (_drop_all(words), _is_of(words), _truth(words), _field(words))
    yield from (_set_field(words), _item(words), _item_at(words), _set_item(words), _append(words))
    yield from (_nth(words), _size(words), _get(words), _pop(words), _plus_zero(words), _as_float(words))
    yield from (_shape_and_dtype(words), _has_shape_and_dtype(words))


def _drop_all(words: Words) -> Code:
    """What so many places side by side own."""
    code = _Runtime(words, "drop_all", "void", places="ptr", count="i64")
    with code.repeat(code.parameters["count"]) as k:
        value = code.load_nth(code.parameters["places"], k)
        with code.when(code.negated(code.same(value, NULL))):
            code.let_go(value)
    code.give_nothing()
    return code


def _is_of(words: Words) -> Code:
    """isinstance."""
    code = _Runtime(words, "is_of", "i1", thing="ptr", cls="i64")
    type_, cls = code.type_of(code.parameters["thing"]), code.word_at(code.parameters["cls"])
    code.give_if(code.same(type_, cls), integer(1, "i1"))
    code.give(code.true(code.api("PyType_IsSubtype", type_, cls)))
    return code


def _truth(words: Words) -> Code:
    """1, 0, or -1 after an error."""
    code = _Runtime(words, "truth", "i32", value="ptr")
    value = code.parameters["value"]
    for word, number in (("True", 1), ("False", 0), ("None", 0)):
        code.give_if(code.same(value, code.word(word)), integer(number, "i32"))
    with code.when(code.is_list(value)):
        code.give_if(code.same(code.load(value, layout.SIZE, "i64"), integer(0)), _NO)
    code.keep(value)
    answer = code.api("PyObject_IsTrue", value)
    code.api("Py_DecRef", value)
    code.give(answer)
    return code


def _field(words: Words) -> Code:
    """A new reference to what a field of a struct holds, or to what Python says where there is none."""
    code = _Runtime(words, "field", "ptr", thing="ptr", cls="i64", place="i64", attr="i64")
    thing, cls, place, attr = (code.parameters[p] for p in ("thing", "cls", "place", "attr"))
    with code.when(code.runtime("is_of", thing, cls, gives="i1")):
        value = code.load(code.at_bytes(thing, place))
        with code.when(code.negated(code.same(value, NULL))):
            code.keep(value)
            code.give(value)
            code.begin_unreached()
    code.give(code.api("PyObject_GetAttr", thing, code.word_at(attr)))
    return code


def _set_field(words: Words) -> Code:
    """The same for setting one: 0, or -1 after an error."""
    code = _Runtime(words, "set_field", "i32", thing="ptr", cls="i64", place="i64", attr="i64", value="ptr")
    thing, cls, place, attr, value = (code.parameters[p] for p in ("thing", "cls", "place", "attr", "value"))
    with code.when(code.runtime("is_of", thing, cls, gives="i1")):
        field = code.at_bytes(thing, place)
        code.keep(value)
        before = code.load(field)
        code.store(value, field)
        code.api("Py_DecRef", before)
        code.give(_NO)
        code.begin_unreached()
    code.give(code.api("PyObject_SetAttr", thing, code.word_at(attr), value))
    return code


def _item(words: Words) -> Code:
    """A new reference to an item at a fixed place, or null after an error."""
    code = _Runtime(words, "item", "ptr", thing="ptr", index="i64", key="i64")
    thing = code.parameters["thing"]
    _give_item(code, thing, code.parameters["index"])
    code.keep(thing)
    value = code.api("PyObject_GetItem", thing, code.word_at(code.parameters["key"]))
    code.api("Py_DecRef", thing)
    code.give(value)
    return code


def _nth(words: Words) -> Code:
    """The same of a sequence that a loop runs over."""
    code = _Runtime(words, "nth", "ptr", thing="ptr", index="i64")
    _give_item(code, code.parameters["thing"], code.parameters["index"])
    code.give(code.api("PySequence_GetItem", code.parameters["thing"], code.parameters["index"]))
    return code


def _size(words: Words) -> Code:
    """How many items a sequence has, or -1 after an error."""
    code = _Runtime(words, "size", "i64", thing="ptr")
    thing = code.parameters["thing"]
    with code.when(code.either(code.is_list(thing), code.same(code.type_of(thing), code.word("tuple")))):
        code.give(code.load(thing, layout.SIZE, "i64"))
        code.begin_unreached()
    code.give(code.api("PySequence_Size", thing))
    return code


def _give_item(code: Code, thing: Value, index: Value) -> None:
    """Be done where ``thing`` is a tuple or list with an item at ``index``."""
    for name in ("list", "tuple"):
        with code.when(code.same(code.type_of(thing), code.word(name))):
            below = code.less(index, code.load(thing, layout.SIZE, "i64"))
            with code.when(code.both(below, code.negated(code.less(index, integer(0))))):
                inside = code.at(thing, layout.TUPLE_ITEMS)
                items = inside if name == "tuple" else code.load(thing, layout.LIST_ITEMS)
                value = code.load_nth(items, index)
                code.keep(value)
                code.give(value)
                code.begin_unreached()


def _get(words: Words) -> Code:
    """``thing.get(key)``."""
    code = _Runtime(words, "get", "ptr", thing="ptr", key="ptr")
    thing, key = code.parameters["thing"], code.parameters["key"]
    with code.when(code.same(code.type_of(thing), code.word("dict"))):
        found, value = code.api("PyDict_GetItemWithError", thing, key), code.slot(NULL)
        code.store(found, value)
        with code.when(code.same(found, NULL)):
            code.give_if(code.negated(code.same(code.api("PyErr_Occurred"), NULL)), NULL)
            code.store(code.word("None"), value)
        code.keep(code.load(value))
        code.give(code.load(value))
        code.begin_unreached()
    asked = code.array("ptr", 2)
    code.store(thing, asked)
    code.store(key, asked, 8)
    code.give(code.api("PyObject_VectorcallMethod", code.word(".get"), asked, integer(2), NULL))
    return code


def _pop(words: Words) -> Code:
    """``thing.pop()``: a list keeps its memory for what comes next."""
    code = _Runtime(words, "pop", "ptr", thing="ptr")
    thing = code.parameters["thing"]
    with code.when(code.is_list(thing)):
        size = code.load(thing, layout.SIZE, "i64")
        with code.when(code.less(integer(0), size)):
            last = code.plus(size, integer(-1))
            value = code.load_nth(code.load(thing, layout.LIST_ITEMS), last)
            code.store(last, thing, layout.SIZE)
            code.give(value)
            code.begin_unreached()
    asked = code.array("ptr", 1)
    code.store(thing, asked)
    code.give(code.api("PyObject_VectorcallMethod", code.word(".pop"), asked, integer(1), NULL))
    return code


def _item_at(words: Words) -> Code:
    """The same at a place that is a Python object."""
    code = _Runtime(words, "item_at", "ptr", thing="ptr", key="ptr")
    thing, key = code.parameters["thing"], code.parameters["key"]
    with code.when(code.both(code.is_list(thing), code.same(code.type_of(key), code.word("int")))):
        index = code.api("PyLong_AsSsize_t", key)
        with code.when(code.less(integer(-1), index)), _within(code, thing, index):
            value = code.load_nth(code.load(thing, layout.LIST_ITEMS), index)
            code.keep(value)
            code.give(value)
            code.begin_unreached()
        code.api("PyErr_Clear")  # of a number that is too large
    code.give(code.api("PyObject_GetItem", thing, key))
    return code


def _set_item(words: Words) -> Code:
    """The same for setting one: 0, or -1 after an error."""
    code = _Runtime(words, "set_item", "i32", thing="ptr", index="i64", key="i64", value="ptr")
    thing, index, value = (code.parameters[p] for p in ("thing", "index", "value"))
    with _within(code, thing, index):
        place = code.nth(code.load(thing, layout.LIST_ITEMS), index)
        code.keep(value)
        before = code.load(place)
        code.store(value, place)
        code.api("Py_DecRef", before)
        code.give(_NO)
        code.begin_unreached()
    code.give(code.api("PyObject_SetItem", thing, code.word_at(code.parameters["key"]), value))
    return code


def _append(words: Words) -> Code:
    """``append`` of a list, or of what else has one: 0, or -1 after an error."""
    code = _Runtime(words, "append", "i32", thing="ptr", value="ptr")
    thing, value = code.parameters["thing"], code.parameters["value"]
    with code.when(code.is_list(thing)):
        code.give(code.api("PyList_Append", thing, value))
        code.begin_unreached()
    asked = code.array("ptr", 2)
    code.store(thing, asked)
    code.store(value, asked, 8)
    answer = code.api("PyObject_VectorcallMethod", code.word(".append"), asked, integer(2), NULL)
    code.give_if(code.same(answer, NULL), integer(-1, "i32"))
    code.api("Py_DecRef", answer)
    code.give(_NO)
    return code


def _shape_and_dtype(words: Words) -> Code:
    """``(thing.shape, thing.dtype)``, or null after an error. Of an array it is the last such tuple of this
    record, where they are the same: a program computes the same again.
    """
    code = _Runtime(words, "shape_and_dtype", "ptr", thing="ptr")
    thing, last = code.parameters["thing"], code.at(code.record, words.last)
    known_dims, same = code.at(last, LAST_DIMS), code.slot(integer(0, "i1"))
    is_array = code.same(code.type_of(thing), code.word("ndarray"))
    with code.when(is_array):
        dtype, count, dims = _facts(code, thing)
        alike = code.both(
            code.same(dtype, code.load(last, LAST_DTYPE)),
            code.same(count, code.load(last, LAST_NDIM, "i64")),
        )
        code.store(alike, same)
        with code.when(alike), code.repeat(count) as k:
            equal = code.same(code.load_nth(dims, k, "i64"), code.load_nth(known_dims, k, "i64"))
            code.store(code.both(code.load(same, kind="i1"), equal), same)
    with code.when(code.load(same, kind="i1")):
        known = code.load(last)
        code.keep(known)
        code.give(known)
        code.begin_unreached()
    made = code.api("PyTuple_New", integer(2))
    code.give_if(code.same(made, NULL), NULL)
    for name, place in ((".dtype", 8), (".shape", 0)):  # nothing happens between the shape and what is noted
        part = code.api("PyObject_GetAttr", thing, code.word(name))
        with code.when(code.same(part, NULL)):
            code.api("Py_DecRef", made)
            code.give(NULL)
            code.begin_unreached()
        code.store(part, made, layout.TUPLE_ITEMS + place)
    with code.when(is_array):
        dtype, count, dims = _facts(code, thing)
        with code.when(code.less(count, integer(MOST_DIMS + 1))):
            code.keep(made)
            before = code.load(last)
            code.store(made, last)
            code.store(dtype, last, LAST_DTYPE)
            code.store(count, last, LAST_NDIM)
            with code.repeat(count) as index:
                code.store_nth(code.load_nth(dims, index, "i64"), known_dims, index)
            code.api("Py_DecRef", before)
    code.give(made)
    return code


def _has_shape_and_dtype(words: Words) -> Code:
    """``(thing.shape, thing.dtype) == pair``: 1, 0, or -1 after an error."""
    code = _Runtime(words, "has_shape_and_dtype", "i32", thing="ptr", pair="ptr")
    thing, pair = code.parameters["thing"], code.parameters["pair"]
    is_array, is_pair = code.same(code.type_of(thing), code.word("ndarray")), code.is_tuple(pair, integer(2))
    with code.when(is_array), code.when(is_pair):
        dtype, count, dims = _facts(code, thing)
        shape, wanted = (code.load(pair, layout.TUPLE_ITEMS + place) for place in (0, 8))
        with code.when(code.same(dtype, wanted)), code.when(code.is_tuple(shape, count)):
            equal = code.slot(integer(1, "i1"))
            with code.repeat(count) as k:
                size = code.api("PyLong_AsSsize_t", code.load_nth(code.at(shape, layout.TUPLE_ITEMS), k))
                alike = code.same(size, code.load_nth(dims, k, "i64"))
                code.store(code.both(code.load(equal, kind="i1"), alike), equal)
            code.give_if(code.load(equal, kind="i1"), integer(1, "i32"))
            code.api("PyErr_Clear")  # of what was no such number
    made = code.runtime("shape_and_dtype", thing)
    code.give_if(code.same(made, NULL), integer(-1, "i32"))
    answer = code.api("PyObject_RichCompareBool", made, pair, integer(2, "i32"))
    code.api("Py_DecRef", made)
    code.give(answer)
    return code


def _plus_zero(words: Words) -> Code:
    """``number + 0``."""
    code = _Runtime(words, "plus_zero", "ptr", number="ptr")
    number = code.parameters["number"]
    with code.when(code.same(code.type_of(number), code.word("int"))):
        code.keep(number)
        code.give(number)
        code.begin_unreached()
    code.give(code.api("PyNumber_Add", number, code.word("0")))
    return code


def _as_float(words: Words) -> Code:
    """``float(number)`` of a whole one; null, and no error, where no float is as large."""
    code = _Runtime(words, "as_float", "ptr", number="ptr")
    value = code.api("PyLong_AsDouble", code.parameters["number"])
    with code.when(code.operation("i1", f"fcmp oeq {value}, -1.0")):  # of a number, or of an error
        failed = code.negated(code.same(code.api("PyErr_Occurred"), NULL))
        with code.when(failed):
            code.api("PyErr_Clear")
            code.give(NULL)
            code.begin_unreached()
    code.give(code.api("PyFloat_FromDouble", value))
    return code


def _facts(code: Code, array: Value) -> tuple[Value, Value, Value]:
    count = code.widened(code.load(array, layout.ARRAY_NDIM, "i32"))
    return code.load(array, layout.ARRAY_DTYPE), count, code.load(array, layout.ARRAY_DIMS)


def _within(code: Code, thing: Value, index: Value) -> AbstractContextManager[None]:
    """Where ``thing`` is a list that has an item at ``index``."""
    inside = code.slot(integer(0, "i1"))
    with code.when(code.is_list(thing)):
        below = code.less(index, code.load(thing, layout.SIZE, "i64"))
        code.store(code.both(below, code.negated(code.less(index, integer(0)))), inside)
    return code.when(code.load(inside, kind="i1"))
