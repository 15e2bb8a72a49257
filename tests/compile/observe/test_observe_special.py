"""Methods that the interpreter calls by itself: operators, calls, truth, length, items."""

import array
import collections
import ctypes
import multiprocessing
import threading

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse

import jtorch
import jtorch.nn as nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


def setting_item(numbers):
    return lambda: numbers.__setitem__(0, 5.0)


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


class Lines(list):
    """Says how long it is in Python."""

    def __init__(self, log):
        super().__init__()
        self.log = log

    def __len__(self):
        self.log.append(1.0)
        return 3


OPERATIONS = {
    "__add__": lambda a, x: a + x,
    "__radd__": lambda a, x: x * (2.0 + a),
    "__iadd__": lambda a, x: a.__class__.__iadd__(a, x),
    "__matmul__": lambda a, x: a @ x,
    "__lt__": lambda a, x: a < x,
    "__eq__": lambda a, x: a == x,
    "__call__": lambda a, x: a(x),
    "__getitem__": lambda a, x: a[x],
    "__contains__": lambda a, x: x * (2 if 7.0 in a else 3),
    "__bool__": lambda a, x: x * (2 if a else 3),
    "__neg__": lambda a, x: -a,
    "__pos__": lambda a, x: +a,
    "__len__": lambda a, x: x * len(a),
    "__str__": lambda a, x: x * float(str(a)),
    "__enter__": lambda a, x: enter(a, x),
    "__hash__": lambda a, x: x * hash(a),
    "__iter__": lambda a, x: x * sum(a),
    "__getattr__": lambda a, x: x * a.rate,
    "__init__": lambda a, x: x * type(a)().made,
}
ANSWERS = {
    "__contains__": lambda k: lambda self, key: k == 2.0,
    "__bool__": lambda k: lambda self: k == 2.0,
    "__neg__": lambda k: lambda self: t(k),
    "__pos__": lambda k: lambda self: t(k),
    "__len__": lambda k: lambda self: int(k),
    "__str__": lambda k: lambda self: str(k),
    "__enter__": lambda k: lambda self: k,
    "__hash__": lambda k: lambda self: int(k),
    "__iter__": lambda k: lambda self: iter([k]),
    "__getattr__": lambda k: lambda self, name: k,
    "__init__": lambda k: lambda self: setattr(self, "made", k),
}


def enter(a, x):
    with a as k:
        return x * k


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_method_that_is_replaced(name):
    make = ANSWERS.get(name, lambda k: lambda self, x: x * k)
    first = make(2.0)
    if name in ("__enter__", "__hash__", "__str__", "__iter__", "__getattr__", "__init__"):
        first.__code__ = first.__code__.replace(co_name=name)
    cls = type("Special", (), {name: first, "__exit__": lambda *args: None})
    owner = cls()
    assert_noticed(lambda: (lambda x: OPERATIONS[name](owner, x), setting(cls, name, make(5.0))))


@read
def a_truth_that_a_class_gets():
    class Switch:
        pass

    switch = Switch()
    return lambda x: x * (2 if switch else 3), setting(Switch, "__bool__", lambda self: False)


@read
def a_length_that_a_class_gets():
    class Switch:
        pass

    switch = Switch()
    return lambda x: x * (2 if not switch else 3), setting(Switch, "__len__", lambda self: 0)


@read
def the_truth_of_a_layer():
    class Net(nn.Module):
        def forward(self, x):
            return x * (2 if self else 3)

    return Net(), setting(Net, "__bool__", lambda self: False)


@read
def the_truth_asked_by_bool():
    class Switch:
        pass

    switch = Switch()
    return lambda x: x * (2 if bool(switch) else 3), setting(Switch, "__bool__", lambda self: False)


@read
def an_equality_that_a_class_gets():
    class Point:
        pass

    a, b = Point(), Point()
    return lambda x: x * (2 if a == b else 3), setting(Point, "__eq__", lambda self, other: True)


@read
def a_method_for_what_is_missing_that_a_class_gets():
    class Point:
        pass

    point = Point()
    return lambda x: x * getattr(point, "k", 2.0), setting(Point, "__getattr__", lambda self, name: 5.0)


class Table(collections.UserDict):
    pass


class Rows(collections.UserList):
    pass


@read
def an_item_of_a_class_derived_from_a_librarys():
    table = Table(a=2.0)
    return lambda x: x * table["a"], setting(table.data, "a", 5.0)


@read
def the_length_of_a_class_derived_from_a_librarys():
    table = Table(a=2.0)
    return lambda x: x * len(table), setting(table.data, "b", 5.0)


@read
def the_truth_of_a_class_derived_from_a_librarys():
    table = Table()
    return lambda x: x * (2 if table else 3), setting(table.data, "b", 5.0)


@read
def the_entries_of_a_class_derived_from_a_librarys():
    table = Table(a=2.0)
    return lambda x: x * len([key for key in table]), setting(table.data, "b", 5.0)  # noqa: C416


@read
def a_slice_of_a_class_derived_from_a_librarys():
    rows = Rows([1.0, 2.0])
    return lambda x: x * rows[0:1][0], setting(rows.data, 0, 5.0)


@read
def a_property_of_a_thread():
    thread = threading.Thread(name="a")
    return lambda x: x * (2 if thread.name == "a" else 3), setting(thread, "name", "b")


@read
def a_property_of_a_class_derived_from_thread():
    class Worker(threading.Thread):
        pass

    worker = Worker(name="a")
    return lambda x: x * (2 if worker.name == "a" else 3), setting(worker, "name", "b")


@read
def a_number_of_ctypes():
    number = ctypes.c_double(2.0)
    return lambda x: x * number.value, setting(number, "value", 5.0)


@read
def a_field_of_ctypes():
    class Point(ctypes.Structure):
        _fields_ = (("k", ctypes.c_double),)

    point = Point(2.0)
    return lambda x: x * point.k, setting(point, "k", 5.0)


@read
def an_array_of_ctypes_handed_over():
    numbers = (ctypes.c_double * 2)(2.0, 3.0)
    return lambda x: x * sum(numbers), setting_item(numbers)


@read
def an_array_of_ctypes_gone_through():
    numbers = (ctypes.c_double * 2)(2.0, 3.0)

    def function(x):
        for number in numbers:
            x = x * number
        return x

    return function, setting_item(numbers)


@read
def a_users_array():
    class Numbers(array.array):
        pass

    numbers = Numbers("d", [2.0, 3.0])
    return lambda x: x * max(numbers), setting_item(numbers)


@read
def a_record_of_numpy():
    records = np.zeros(1, [("k", np.float64)])
    record = records[0]
    record["k"] = 2.0
    return lambda x: x * float(record["k"]), lambda: record.__setitem__("k", 5.0)


@read
def an_array_as_one_line():
    numbers = np.array([[2.0, 3.0]])
    line = numbers.flat
    return lambda x: x * line[0], lambda: numbers.__setitem__((0, 0), 5.0)


@read
def a_sparse_matrix_that_is_multiplied():
    matrix = scipy.sparse.csr_matrix(np.eye(2) * 2)
    return lambda x: x * float((matrix @ np.ones(2))[0]), lambda: matrix.data.__setitem__(0, 5.0)


@read
def a_polynomial_that_is_added_to():
    polynomial = np.polynomial.Polynomial([1.0, 2.0])
    return lambda x: x * float((1 + polynomial)(0.0)), lambda: polynomial.coef.__setitem__(0, 4.0)


@read
def a_polynomial_that_is_called():
    polynomial = np.poly1d([2.0, 1.0])
    return lambda x: x * polynomial(2.0), lambda: polynomial.coeffs.__setitem__(0, 5.0)


@read
def an_interpolation_that_is_called():
    between = scipy.interpolate.interp1d([0.0, 1.0], [1.0, 2.0])
    return lambda x: x * float(between(0.5)), lambda: between.y.__setitem__(0, 5.0)


@read
def a_function_of_numpys_that_calls_another():
    plus = np.vectorize(lambda v: v + 1)
    return lambda x: x * float(plus(2.0)), setting(plus, "pyfunc", lambda v: v * 10)


def test_what_a_pointer_leads_to_is_refused():
    number = ctypes.c_double(2.0)
    pointer = ctypes.pointer(number)
    for through in (lambda x: x * pointer[0], lambda x: x * pointer.contents.value):
        with pytest.raises(CompileError, match="through a pointer of ctypes"):
            jtorch.compile(through)(t(1))


@read
def a_number_that_processes_share():
    number = multiprocessing.Value("d", 2.0)
    return lambda x: x * number.value, setting(number, "value", 5.0)


@read
def an_array_that_processes_share():
    shared = multiprocessing.Array("d", [2.0])
    return lambda x: x * shared[0], lambda: shared.__setitem__(0, 5.0)


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_an_item_set_in_a_class_derived_from_a_librarys_is_refused():
    table = Table(a=2.0)

    def f(x):
        table["a"] = 5.0
        return x

    with pytest.raises(CompileError, match="from outside"):
        jtorch.compile(f)(t(1))
    assert table.data == {"a": 2.0}


def test_methods_in_python_run_as_often_as_in_eager_mode():
    log = []
    lines = Lines(log)

    class Key:
        def __hash__(self):
            log.append(2.0)
            return 7

        def __eq__(self, other):
            return self is other

    key = Key()
    table = {key: 2.0}
    log.clear()
    f = jtorch.compile(lambda x: x * table[key] * table.get(key) * len(lines) * (2 if lines else 3))
    for k in range(1, 4):
        assert f(t(1)).tolist() == [24.0]
        assert log == [2.0, 2.0, 1.0, 1.0] * k
    table[key] = 5.0
    assert f(t(1)).tolist() == [150.0]


def test_whether_a_dict_has_a_key_that_hashes_in_python():
    class Key:
        def __hash__(self):
            return 7

    key, table = Key(), {}
    assert_noticed(lambda: (lambda x: x * (2 if key in table else 3), setting(table, key, 1)))
