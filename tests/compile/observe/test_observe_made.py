"""What a function makes itself holds what it found outside: that counts at each call all the same."""

import copy
import functools
import itertools
import json
import operator
import types

import numpy as np
import pytest

import jtorch
from jtorch.compile.observe.kinds import kind_of
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


class Holder:
    """An object with whatever attributes it is given."""

    def __init__(self, **facts):
        self.__dict__.update(facts)


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


def _of_a_row(f):
    """``f(x, row)`` depends on the first element of the list ``row``."""

    def make():
        row = [2.0]
        return lambda x: f(x, row), setting(row, 0, 5.0)

    return make


READS.update(
    a_tensor_of_lists=_of_a_row(lambda x, row: x * jtorch.tensor([row, row])[0]),
    as_tensor_of_lists=_of_a_row(lambda x, row: x * jtorch.as_tensor([row, row]).sum()),
    an_array_of_lists=_of_a_row(lambda x, row: x * float(np.array([row]).sum())),
    a_chain_of_lists=_of_a_row(lambda x, row: x * sum(itertools.chain.from_iterable([row, [1.0]]))),
    the_larger_of_two_lists=_of_a_row(lambda x, row: x * (2 if max([row, [3.0]]) is row else 3)),
    lists_that_are_compared=_of_a_row(lambda x, row: x * (2 if [row] == [[2.0]] else 3)),
    a_list_looked_for_in_lists=_of_a_row(lambda x, row: x * (2 if [5.0] in [[7.0], row] else 3)),
    a_list_counted_in_lists=_of_a_row(lambda x, row: x * (1 + [row, row].count([5.0]))),
    lists_that_are_added_up=_of_a_row(lambda x, row: x * sum(sum([row, [1.0]], []))),  # noqa: RUF017
    a_deep_copy=_of_a_row(lambda x, row: x * copy.deepcopy([row])[0][0]),
    a_deep_copy_of_an_object=_of_a_row(lambda x, row: x * copy.deepcopy(Holder(c=row)).c[0]),
    a_list_as_text=_of_a_row(lambda x, row: x * float(str([row]).strip("[]"))),
    a_list_in_an_f_string=_of_a_row(lambda x, row: x * float(f"{[row]}".strip("[]"))),
    json_of_a_dict=_of_a_row(lambda x, row: x * json.loads(json.dumps({"c": row}))["c"][0]),
    an_index_in_a_format=_of_a_row(lambda x, row: x * float("{a[0][0]}".format(a=[row]))),  # noqa: UP032
    a_list_made_of_a_list=_of_a_row(lambda x, row: x * sum(list(row))),
    a_dict_made_of_pairs=_of_a_row(lambda x, row: x * sum(dict([[1.0, 1.0], row * 2]))),
    rows_that_are_zipped=_of_a_row(lambda x, row: x * next(zip(row, [1.0], strict=True))[0]),
    a_partial_made_inside=_of_a_row(lambda x, row: x * functools.partial(sum, [*row])()),
)  # fmt: skip


@read
def the_rows_of_a_tensors_index():
    row = [0, 1]
    return lambda x: x[(row,)] * 2, setting(row, 0, 1)


@read
def the_rows_of_an_arrays_index():
    row, array = [0], np.arange(1.0, 4.0)
    return lambda x: x * float(array[row].sum()), setting(row, 0, 1)


@read
def a_list_that_is_measured_by_map():
    row = [1]
    return lambda x: x * sum(map(len, [row])), lambda: row.append(2)


@read
def an_objects_attribute_got_by_map():
    config = Holder(k=2.0)
    return lambda x: x * sum(map(operator.attrgetter("k"), [config])), setting(config, "k", 5.0)


@read
def an_objects_slot_got_by_map():
    config = Slotted(2.0)
    return lambda x: x * sum(map(operator.attrgetter("k"), [config])), setting(config, "k", 5.0)


@read
def objects_sorted_by_an_attribute():
    a, b = Holder(k=1.0), Holder(k=2.0)
    return lambda x: x * (2 if max([a, b], key=operator.attrgetter("k")) is a else 3), setting(a, "k", 5.0)


@read
def an_attribute_got_by_map_getattr():
    config = Holder(k=2.0)
    return lambda x: x * sum(map(getattr, [config], ["k"])), setting(config, "k", 5.0)


@read
def a_slot_got_by_reduce():
    config = Slotted(2.0)
    return lambda x: x * functools.reduce(getattr, ["k"], config), setting(config, "k", 5.0)


@read
def a_class_attribute_got_by_reduce():
    class Constants:
        k = 2.0

    config = Constants()
    return lambda x: x * functools.reduce(getattr, ["k"], config), setting(Constants, "k", 5.0)


@read
def a_class_attribute_got_by_attrgetter():
    class Constants:
        k = 2.0

    config, get = Constants(), operator.attrgetter("k")
    return lambda x: x * get(config), setting(Constants, "k", 5.0)


@read
def a_modules_attribute_got_by_attrgetter():
    module, get = types.ModuleType("constants"), operator.attrgetter("table.k")
    module.table = Holder(k=2.0)
    return lambda x: x * get(module), setting(module, "table", Holder(k=5.0))


@read
def an_object_in_a_format_map():
    config = Holder(k=2.0)
    return lambda x: x * float("{a.k}".format_map({"a": config})), setting(config, "k", 5.0)


@read
def arrays_that_are_stacked():
    array = np.full(1, 2.0, np.float32)
    return lambda x: x * float(np.stack([array, array]).sum()), setting(array, 0, 5.0)


@read
def arrays_that_are_joined():
    array = np.full(1, 2.0, np.float32)
    return lambda x: x * float(np.concatenate([array, array]).sum()), setting(array, 0, 5.0)


@read
def the_arguments_of_a_partial_method():
    class Scale:
        def _scale(self, k):
            return k[0]

        scale = functools.partialmethod(_scale, [2.0])

    scale = Scale()
    return lambda x: x * scale.scale(), setting(Scale.__dict__["scale"].args[0], 0, 5.0)


@read
def what_a_partial_from_outside_holds():
    table = [2.0]
    get = functools.partial(operator.getitem, table)
    return lambda x: x * next(map(get, [0])), setting(table, 0, 5.0)


@read
def the_names_that_a_pattern_matches():
    class Point:
        __match_args__ = ("k",)

        def __init__(self):
            self.k, self.j = 2.0, 5.0

    point = Point()

    def f(x):
        match point:
            case Point(k):
                return x * k
        return x

    return f, setting(Point, "__match_args__", ("j",))


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_what_is_set_by_map_is_refused():
    config = Holder(k=1.0)

    def f(x):
        list(map(setattr, [config], ["k"], [7.0]))
        return x

    with pytest.raises(CompileError, match=r"hands setattr\(\) to a function that is not watched"):
        jtorch.compile(f)(t(1))


def test_lists_that_grow_inside_are_not_read_again_and_again():
    """A program that appends n times looks at some n entries, not at n squared."""

    def f(x):
        entries, pairs = [], ()
        for k in range(300):
            entries.append([k])
            entries += [k]
            pairs = (*pairs, k)
        return x * len(entries) * len(pairs)

    before = kind_of.cache_info()
    jtorch.compile(f)(t(1))
    after = kind_of.cache_info()
    assert after.hits + after.misses - before.hits - before.misses < 30_000


class _Holder:
    pass


def _closure(x):
    def inner(y):
        return y * x

    return inner


def _held(x):
    holder = _Holder()
    holder.x = x
    return holder


@pytest.mark.parametrize("make", [
    _closure,
    _held,
    lambda x: functools.partial(jtorch.mul, x),
    lambda x: x.mul,
    lambda x: [lambda y, z=x: y * z],
    lambda x: {"f": lambda y, *, z=x: y * z},
    lambda x: _closure(x * 2),
])  # fmt: skip
def test_what_is_returned_holds_no_argument(make):
    with pytest.raises(CompileError, match="holds what it computed or was given"):
        jtorch.compile(make)(jtorch.ones(2))
