"""Containers of other classes than list and dict, bound methods, functions' own data, loggers and seeds."""

import collections
import functools
import inspect
import itertools
import logging
import types

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


class AttributeDict(dict):
    __getattr__ = dict.get


class Strict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Shared(dict):
    def __init__(self, **values):
        super().__init__(values)
        self.__dict__ = self


@pytest.mark.parametrize("cls", [AttributeDict, Strict, Shared])
def test_a_dict_with_attributes(cls):
    config = cls(k=1.0)
    assert_noticed(lambda: (lambda x: x * config.k, setting(config, "k", 5.0)))


@read
def a_user_dict():
    config = collections.UserDict(k=1.0)
    return lambda x: x * config["k"], lambda: config.update(k=5.0)


@read
def a_user_list():
    values = collections.UserList([1.0, 2.0])
    return lambda x: x * values[-1], lambda: values.append(5.0)


@read
def a_chain_of_dicts():
    front, back = {}, {"k": 1.0}
    chain = collections.ChainMap(front, back)
    return lambda x: x * chain["k"], setting(front, "k", 5.0)


@read
def a_counter():
    counts = collections.Counter("aab")
    return lambda x: x * counts["a"], lambda: counts.update("aaa")


@read
def the_order_of_an_ordered_dict():
    ordered = collections.OrderedDict(x=1.0, y=2.0)
    return lambda x: x * tuple(ordered.values())[1] ** -1, lambda: ordered.move_to_end("x")


@read
def the_first_key_of_an_ordered_dict():
    ordered = collections.OrderedDict(x=1.0, y=2.0)
    return lambda x: x * ordered[next(iter(ordered))], lambda: ordered.move_to_end("x")


@read
def values_of_a_dict_taken_outside():
    table = {"a": 1.0}
    values = table.values()
    return lambda x: x * sum(values), setting(table, "b", 2.0)


@read
def a_read_only_view():
    table = {"a": 1.0}
    view = types.MappingProxyType(table)
    return lambda x: x * view["a"], setting(table, "a", 2.0)


@read
def a_bound_getitem():
    values = [1.0, 2.0]
    get = values.__getitem__
    return lambda x: x * get(0), setting(values, 0, 5.0)


@read
def a_bound_len():
    values = [1.0, 2.0]
    size = values.__len__
    return lambda x: x * size(), lambda: values.append(5.0)


@read
def a_bound_contains():
    values = [1.0, 2.0]
    has = values.__contains__
    return lambda x: x * (2 if has(5.0) else 1), lambda: values.append(5.0)


@read
def a_bound_eq():
    values = [1.0, 2.0]
    equals = values.__eq__
    return lambda x: x * (2 if equals([1.0, 2.0]) else 1), lambda: values.append(5.0)


@read
def namespaces_compared():
    one, other = types.SimpleNamespace(v=1), types.SimpleNamespace(v=1)
    return lambda x: x * 2 if one == other else x, setting(other, "v", 2)


@read
def an_index_in_an_array():
    place, values = np.array(0), [1.0, 2.0]

    def change():
        place[...] = 1

    return lambda x: x * values[place], change


@read
def a_slice_by_names():
    values, bounds = [1.0, 2.0, 3.0], [0, 1]
    return lambda x: x * sum(values[bounds[0] : bounds[1]]), setting(bounds, 1, 3)


def _function(x=1.0, *, k=2.0):
    """A text."""


@pytest.mark.parametrize(
    ("name", "value", "ask"),
    [
        ("__name__", "other", lambda f: len(f.__name__)),
        ("__qualname__", "abc", lambda f: len(f.__qualname__)),
        ("__doc__", "Another text.", lambda f: len(f.__doc__)),
        ("__module__", "m", lambda f: len(f.__module__)),
        ("__defaults__", (7.0,), lambda f: f.__defaults__[0]),
        ("__kwdefaults__", {"k": 7.0}, lambda f: f.__kwdefaults__["k"]),
        ("__annotations__", {"x": 7.0}, lambda f: len(f.__annotations__) + 1),
        ("tag", 7.0, lambda f: getattr(f, "tag", 1.0)),
        ("__defaults__", (7.0,), lambda f: inspect.signature(f).parameters["x"].default),
    ],
)
def test_data_of_a_function(name, value, ask):
    function = types.FunctionType(_function.__code__, globals(), "function", (1.0,))
    function.__kwdefaults__ = {"k": 2.0}
    function.__doc__ = "A text."
    assert_noticed(lambda: (lambda x: x * ask(function), setting(function, name, value)))


def test_annotations_changed_in_place():
    def function(x: 2.0): ...

    notes = function.__annotations__
    assert_noticed(lambda: (lambda x: x * function.__annotations__["x"], setting(notes, "x", 5.0)))


def test_keywords_of_a_compiled_partial():
    scaled = functools.partial(lambda x, k=1.0: x * k, k=2.0)
    f = jtorch.compile(scaled)
    assert f(t(1)).tolist() == [2.0]
    assert f(t(1), k=5.0).tolist() == [5.0]
    scaled.keywords["k"] = 9.0
    assert f(t(1)).tolist() == [9.0]


@read
def the_level_of_a_logger():
    logger = logging.getLogger("jtorch_test.level")
    logger.setLevel(logging.INFO)
    return lambda x: x * 2 if logger.isEnabledFor(logging.INFO) else x, lambda: logger.setLevel(logging.ERROR)


@read
def the_level_above_a_logger():
    above, logger = logging.getLogger("jtorch_test.above"), logging.getLogger("jtorch_test.above.here")
    above.setLevel(logging.INFO)
    return lambda x: x * logger.getEffectiveLevel(), lambda: above.setLevel(logging.ERROR)


@read
def the_number_of_threads():
    before = jtorch.get_num_threads()
    return lambda x: x * (jtorch.get_num_threads() + 1), lambda: _threads(before + 1, before)


def _threads(number, before):
    jtorch.set_num_threads(number)
    return lambda: jtorch.set_num_threads(before)


@read
def whether_algorithms_are_deterministic():
    def change():
        jtorch.use_deterministic_algorithms(True)
        return lambda: jtorch.use_deterministic_algorithms(False)

    return lambda x: x * (2 if jtorch.are_deterministic_algorithms_enabled() else 1), change


def test_a_setting_made_inside_is_refused():
    for make in (lambda: jtorch.set_num_threads(3), lambda: jtorch.set_default_dtype(jtorch.float64)):
        with pytest.raises(CompileError, match="a setting that stays"):
            jtorch.compile(lambda x, make=make: make() or x)(t(1))
    assert jtorch.get_default_dtype() is jtorch.float32


@read
def the_seed():
    jtorch.manual_seed(1)
    return lambda x: x * jtorch.initial_seed(), lambda: jtorch.manual_seed(2)


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter(range(1, 9)).__next__,
        lambda: itertools.count(1).__next__,
        lambda: itertools.cycle([1, 2]).__next__,
        lambda: functools.partial(next, itertools.count(1)),
        lambda: (k for k in range(1, 9)).__next__,
    ],
)
def test_elements_of_an_iterator_from_outside_are_refused(make):
    take = make()
    f = jtorch.compile(lambda x: x * take())
    for _ in range(2):
        with pytest.raises(CompileError, match="which a recording would do once"):
            f(t(1))
    assert take() == 1
