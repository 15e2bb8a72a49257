"""Numbers, texts and tuples of a user's class, and members of enums: what hangs on them counts."""

import enum
import operator
import types

import pytest

import jtorch
from tests.compile.observe.observing import Mode, assert_noticed, setting, t

READS = {}


class Number(float):
    pass


class Count(int):
    pass


class Text(str):
    pass


class Pair(tuple):
    pass


class Slotted(float):
    __slots__ = ("k",)


def having(value, k):
    value.k = k
    return value


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


VALUES = [lambda: Number(1), lambda: Count(1), lambda: Text("q"), lambda: Pair((1,)), lambda: Slotted(1)]


@pytest.mark.parametrize("make", VALUES)
def test_an_attribute_that_changes(make):
    value = having(make(), 2.0)
    assert_noticed(lambda: (lambda x: x * value.k, setting(value, "k", 5.0)))


@pytest.mark.parametrize("make", VALUES)
def test_an_attribute_got_by_code_that_is_not_watched(make):
    value, get = having(make(), 2.0), operator.attrgetter("k")
    assert_noticed(lambda: (lambda x: x * sum(map(get, [value])), setting(value, "k", 5.0)))


@pytest.mark.parametrize("make", VALUES)
def test_an_equal_value_with_another_attribute(make):
    holder = types.SimpleNamespace(value=having(make(), 2.0))
    other = having(make(), 5.0)
    assert_noticed(lambda: (lambda x: x * holder.value.k, setting(holder, "value", other)))


@pytest.mark.parametrize("make", VALUES)
def test_an_equal_argument_with_another_attribute(make):
    value, other = having(make(), 2.0), having(make(), 5.0)
    f = jtorch.compile(lambda x, value: x * value.k)
    assert f(t(1), value).tolist() == [2.0]
    assert f(t(1), other).tolist() == [5.0]
    value.k = 3.0
    assert f(t(1), value).tolist() == [3.0]


def test_equal_values_without_attributes_are_one_recording():
    holder = types.SimpleNamespace(value=Text("2"))
    f = jtorch.compile(lambda x, y: x * float(holder.value) * float(y))
    for text in ("2", "2", "3"):
        holder.value = Text(text)
        assert f(t(1), Text("4")).tolist() == [4.0 * float(text)]
    assert sum(map(len, f.plans.values())) == 2


def test_a_value_whose_class_has_another_idea_of_equality():
    class Loose(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    holder = types.SimpleNamespace(value=Loose("2"))
    assert_noticed(lambda: (lambda x: x * float(holder.value), setting(holder, "value", Loose("5"))))


@read
def a_method_of_a_number():
    class Scaled(float):
        def gain(self):
            return 2.0

    value = Scaled(1)
    return lambda x: x * value.gain(), setting(Scaled, "gain", lambda self: 5.0)


@read
def the_value_of_a_member_of_an_enum():
    class Table(enum.Enum):
        ROW = [2.0]  # noqa: RUF012

    return lambda x: x * Table.ROW.value[0], setting(Table.ROW.value, 0, 5.0)


@read
def an_attribute_of_a_member_of_an_enum():
    class Table(enum.Enum):
        ROW = 1

    Table.ROW.scale = 2.0
    return lambda x: x * Table.ROW.scale, setting(Table.ROW, "scale", 5.0)


@read
def a_method_of_an_enum():
    class Table(enum.Enum):
        ROW = 1

        def gain(self):
            return 2.0

    return lambda x: x * Table.ROW.gain(), setting(Table, "gain", lambda self: 5.0)


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_what_a_function_hangs_on_a_number_is_hung_on_it_by_each_call():
    value = having(Number(1), 0)

    def f(x):
        value.k += 1
        return x

    compiled = jtorch.compile(f)
    for _ in range(3):
        compiled(t(1))
    assert value.k == 3


def test_members_of_enums_are_no_reads():
    table = {Mode.FAST: 2.0}
    f = jtorch.compile(lambda x: x * table[Mode.FAST] * len(table) * Mode.SLOW.value)
    f(t(1))
    assert not [r for r in f._newest().capture.plain if "'FAST'" in str(r) or "_value_" in str(r)]
