"""What a compiled function tries to change outside is refused before it happens; its own may change."""

import array
import collections
import contextlib
import copy
import ctypes
import linecache
import logging
import operator
import os
import queue
import threading
import types
import weakref

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import Config, t

WRITES = {}


def write(sentence):
    """A case: answers (f, state). Compiled, ``f(x)`` is a CompileError that names this file and the line, and
    ``state()`` is what it was."""

    def decorator(function):
        WRITES[function.__name__] = (function, sentence)
        return function

    return decorator


@write("changes 'count' of Net")
def a_class_attribute_set():
    class Net:
        count = 0

        def f(self, x):
            type(self).count += 1  # here
            return x

    return Net().f, lambda: Net.count


@write("changes the entries of a dict")
def an_update():
    state = {}

    def f(x):
        state.update(a=1)  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_pop():
    state = [1.0, 2.0]
    return (lambda x: x * state.pop()), lambda: state  # here


@write("changes the entries of a set")
def an_addition_to_a_set():
    state = set()

    def f(x):
        state.add(3)  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_list_joined_in_place():
    state = [1]

    def f(x):
        nonlocal state
        state += [2]  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_bound_method_of_a_list():
    state = [2, 1]
    sort = state.sort

    def f(x):
        sort()  # here
        return x

    return f, lambda: state


@write("changes 'rate' of a Config")
def a_deletion():
    config = Config()

    def f(x):
        del config.rate  # here
        return x

    return f, lambda: config.rate


@write("changes 0 of a NumPy array")
def an_element_of_an_array():
    table = np.zeros(2)

    def f(x):
        table[0] = 1.0  # here
        return x

    return f, lambda: table.tolist()


@pytest.mark.parametrize("name", WRITES)
def test_a_change_from_inside_is_refused_before_it_happens(name):
    make, sentence = WRITES[name]
    f, state = make()
    before = copy.deepcopy(state())
    sentence = rf"test_observe_writes\.py:\d+ in .*{sentence}.*reads from outside.*Pass"
    with pytest.raises(CompileError, match=sentence) as found:
        jtorch.compile(f)(t(1))
    assert state() == before
    line = int(str(found.value).split(".py:")[1].split(" ")[0])
    assert "# here" in linecache.getline(__file__, line)


class Table(collections.UserDict):
    """Whose methods are the library's."""


class Rows(collections.UserList):
    pass


def _set(it):
    it["a"] = 7


def _set_variable(it):
    it["ZZ"] = "7"


def _set_first(it):
    it[0] = 7


def _delete_first(it):
    del it[0]


def _set_slice(it):
    it[:1] = it[1:2]


def _extend_in_place(it):
    it += it[:]


# by name: what makes an object of another library's class (or of a user's class below one), what changes it,
# and what tells that it has not changed
OTHERS = {
    "a UserDict": (lambda: collections.UserDict(a=1), _set, dict),
    "a class below UserDict": (lambda: Table(a=1), _set, dict),
    "a ChainMap": (lambda: collections.ChainMap({}, {"a": 1}), _set, dict),
    "the environment": (lambda: os.environ, _set_variable, lambda it: it.get("ZZ")),
    "an array": (lambda: array.array("d", [1.0]), _set_first, list),
    "a slice of an array": (lambda: array.array("d", [1.0, 2.0]), _set_slice, list),
    "an array that grows": (lambda: array.array("d", [1.0]), _extend_in_place, list),
    "an array's append": (lambda: array.array("d", [1.0]), lambda it: it.append(2.0), list),
    "a memoryview": (lambda: memoryview(bytearray(b"a")), _set_first, list),
    "a ctypes number": (lambda: ctypes.c_int(1), lambda it: setattr(it, "value", 2), lambda it: it.value),
    "an element of a UserList": (lambda: collections.UserList([1, 2]), _delete_first, list),
    "a UserList's append": (lambda: collections.UserList([1]), lambda it: it.append(2), list),
    "a UserList that grows": (lambda: collections.UserList([1]), _extend_in_place, list),
    "a class below UserList": (lambda: Rows([1]), lambda it: it.append(2), list),
    "a queue": (queue.Queue, lambda it: it.put(1), lambda it: it.qsize()),
    "a queue in C": (queue.SimpleQueue, lambda it: it.put(1), lambda it: it.qsize()),
    "an event": (threading.Event, lambda it: it.set(), lambda it: it.is_set()),
    "a weak set": (weakref.WeakSet, lambda it: it.add(Table), len),
    "by map": (types.SimpleNamespace, lambda it: list(map(setattr, [it], ["a"], [7])), vars),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_objects_of_other_libraries_are_not_changed_once(name):
    make, change, look = OTHERS[name]
    it = make()
    before = copy.deepcopy(look(it))

    def f(x):
        change(it)
        return x

    f = jtorch.compile(f)
    for _ in range(2):
        with pytest.raises(CompileError, match=r"test_observe_writes.py:\d+.*(changes|hands setattr)"):
            f(t(1))
        assert look(it) == before


def test_objects_of_other_libraries_that_the_function_makes_may_be_changed():
    def f(x):
        table, rows, numbers = Table(a=1), Rows([1]), array.array("d", [1.0])
        table["a"] = 2
        rows.append(3)
        del rows[0]
        numbers[0] = 4.0
        numbers += numbers
        return x * table["a"] * rows[0] * sum(numbers)

    f = jtorch.compile(f)
    assert [f(t(1)).tolist() for _ in range(2)] == [[48.0]] * 2


def test_an_error_that_the_function_catches_is_raised_all_the_same():
    state = {}

    def f(x):
        with contextlib.suppress(RuntimeError):
            state.update(k=1)
        return x

    with pytest.raises(CompileError, match="changes the entries of a dict"):
        jtorch.compile(f)(t(1))
    assert not state


def test_own_containers_and_objects_may_be_changed():
    class Pair:
        def __init__(self, a):
            self.a = a
            self.a = self.a * 2

        def bump(self):
            self.a = self.a + 1
            return self

    class Bare:
        pass

    outer = [1.0, 2.0]

    def f(x, pair):
        values, table, seen = [], {}, set()
        for k in range(3):
            values.append(x * k)
            table[k] = values[-1]
            seen.add(k)
        values[0] = x
        values += [x]
        made, bare = Pair(x).bump(), Bare()
        bare.x = made.a
        config = Config()
        config.rate = 3.0
        config.sizes.append(4)
        mine = copy.copy(outer)
        mine[0] = 7.0
        mine2 = list(outer)
        mine2.append(1.0)
        clone = copy.deepcopy(config)
        clone.rate = 2.0
        count = 0

        def bump():
            nonlocal count
            count += 1

        bump()
        counts = collections.defaultdict(int)
        counts["a"] += 1
        del table[0]
        numbers = (mine[0], clone.rate, count, mine2.pop(), counts["a"])
        return sum(values) + bare.x + config.rate + sum(numbers) + pair[0]

    x, pair = t(1, 2), [t(3, 3)]
    assert jtorch.compile(f)(x, pair).tolist() == f(x, pair).tolist()
    assert outer == [1.0, 2.0]


def test_tensors_from_outside_may_be_changed_in_place():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", jtorch.zeros(1))

        def forward(self, x):
            self.total += x
            return self.total * 1

    def run(wrap):
        total, kept, net = t(0), {"sum": t(0)}, Net()

        def f(x):
            nonlocal total
            total += x
            kept["sum"] += x * 2
            return total + net(x)

        f = wrap(f)
        return [f(t(1)).tolist(), f(t(2)).tolist(), total.tolist(), kept["sum"].tolist(), net.total.tolist()]

    assert run(jtorch.compile) == run(lambda f: f)


def test_a_default_dict_that_would_grow_is_refused():
    counts = collections.defaultdict(float)
    with pytest.raises(CompileError, match=r"'a' of a defaultdict.*call the function once before"):
        jtorch.compile(lambda x: x * counts["a"])(t(1))
    assert not counts


def test_writing_what_is_there_already_changes_nothing():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.mode = "a"

        def forward(self, x):
            self.mode = "a"
            return x * 2

    f = jtorch.compile(Net())
    for _ in range(3):
        assert f(t(1)).tolist() == [2.0]
    assert sum(map(len, f.plans.values())) == 1


@pytest.mark.parametrize("kind", ["print", "logging"])
def test_what_happens_while_recording_alone_warns_once(kind, capsys, caplog):
    def f(x):
        if kind == "print":
            print("called", t)
        else:
            logging.getLogger("observed").warning("called %s", t)
        return x * 2

    f = jtorch.compile(f)
    with pytest.warns(UserWarning, match=f"calls {kind}.*when the function is recorded, not at each call"):
        f(t(1))
    f(t(1))
    f(t(1, 2))  # recorded once more, and not warned again
    assert len(caplog.records) + capsys.readouterr().out.count("called") == 2


class Box:
    pass


class Shelf(collections.defaultdict):
    pass


@pytest.mark.parametrize("cls", [collections.defaultdict, Shelf])
def test_an_object_that_a_default_dict_makes_is_a_new_one(cls):
    def f(x):
        boxes = cls(Box)
        boxes["a"].size = 3.0
        boxes["a"].size += 1.0
        return x * boxes["a"].size, boxes["a"]

    f = jtorch.compile(f)
    (double, one), (_, other) = f(t(1)), f(t(1))
    assert double.tolist() == [4.0] and one is not other and one.size == other.size == 4.0


def _make(cls):
    return cls()


def test_an_object_that_nobody_saw_being_made_is_no_result():
    f = jtorch.compile(lambda x: (x, next(map(_make, [Box]))))  # it was seen here
    assert f(t(1))[1] is not f(t(1))[1]
    f = jtorch.compile(lambda x: (x, next(iter(map(operator.call, [Box])))))
    with pytest.raises(CompileError, match="returns a Box that came out of code which is not watched"):
        f(t(1))


@pytest.mark.slow
def test_an_object_that_is_another_one_each_time_it_is_counted_on():
    """It is not recorded without end."""
    first = Box()
    first.n = 0

    def f(x):
        box = next(iter(map(copy.copy, [first])))
        box.n += 1
        return x * box.n

    with pytest.raises(CompileError, match="begins anew"):
        jtorch.compile(f)(t(1))
