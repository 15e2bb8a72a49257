"""What the standard library says of objects, of the process and of its own: ``inspect``, ``os``, caches."""

import copy
import functools
import inspect
import operator
import os
import threading
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


# -- partial -----------------------------------------------------------------------------------------------


def times(k, x):
    return x * k


def _of_a_partial(call):
    made = functools.partial(times, 2)
    return call(made), lambda: made.__setstate__((times, (5,), {}, {}))


@read
def the_state_of_a_partial():
    return _of_a_partial(lambda made: lambda x: made(x))


@read
def the_state_of_a_partial_that_is_compiled():
    return _of_a_partial(lambda made: made)


@read
def the_state_of_a_partial_that_map_calls():
    return _of_a_partial(lambda made: lambda x: next(map(made, [x])))


@read
def the_function_of_a_partial():
    made = functools.partial(times, 2)
    return lambda x: made(x), lambda: made.__setstate__((lambda k, x: x + k, (2,), {}, {}))


# -- arrays as indices -------------------------------------------------------------------------------------

INDEXED = {
    "range": lambda x, at: x * range(1, 10)[at],
    "list": lambda x, at: x * [1, 2, 3, 4][at],
    "tuple": lambda x, at: x * (1, 2, 3, 4)[at],
    "text": lambda x, at: x * int("1234"[at]),
    "bytes": lambda x, at: x * bytearray(b"1234")[at],
    "a slice": lambda x, at: x * len([1, 2, 3, 4][:at]),
    "a slice of a range": lambda x, at: x * len(range(10)[at:]),
    "a step": lambda x, at: x * len(range(10)[::at]),
    "a write": lambda x, at: x * _written([0] * 5, at, 1),
    "a written slice": lambda x, at: x * _written([0] * 5, slice(at, None), [1]),
}


def _written(values, key, value):
    values[key] = value
    return 1 + values.index(1)


@pytest.mark.parametrize("name", INDEXED)
def test_an_array_as_an_index_is_read(name):
    def make():
        at = np.array(2)
        return lambda x: INDEXED[name](x, at), setting(at, ..., 3)

    assert_noticed(make)


# -- names of objects, classes and modules -----------------------------------------------------------------


class Thing:
    k = 2


def _on(owner, name, value):
    def change():
        before = vars(owner).get(name)
        setattr(owner, name, value)
        return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)

    return change


def _numbers(owner):
    return sum(value for _, value in inspect.getmembers(owner, lambda value: isinstance(value, int)))


@read
def members_of_an_object():
    thing = Thing()
    return lambda x: x * _numbers(thing), _on(thing, "j", 3)


@read
def members_of_the_class_of_an_object():
    thing = Thing()
    return lambda x: x * _numbers(thing), _on(Thing, "k", 3)


@read
def members_of_a_class():
    return lambda x: x * _numbers(Thing), _on(Thing, "k", 3)


@read
def members_that_a_class_gets():
    return lambda x: x * _numbers(Thing), _on(Thing, "j", 3)


@read
def members_of_a_module():
    module = types.ModuleType("module")
    module.k = 2
    return lambda x: x * _numbers(module), _on(module, "k", 3)


@read
def names_of_a_class():
    return lambda x: x * len(dir(Thing)), _on(Thing, "j", 3)


@read
def names_of_an_object_by_its_class():
    thing = Thing()
    return lambda x: x * len(dir(thing)), _on(Thing, "j", 3)


HANDED_OVER = {
    "copied": lambda x, thing: x * copy.copy(thing).k,
    "copied deeply": lambda x, thing: x * copy.deepcopy([thing])[0].k,
    "asked by map": lambda x, thing: x * next(map(operator.attrgetter("k"), [thing])),
    "asked by object": lambda x, thing: x * object.__getattribute__(thing, "k"),
    "asked by inspect": lambda x, thing: x * inspect.getattr_static(thing, "k"),
    "asked with another value": lambda x, thing: x * inspect.getattr_static(thing, "j", 2),
    "listed": lambda x, thing: x * sum(not name.startswith("_") for name in thing.__dir__()),
}


def test_an_attribute_that_an_object_gets_after_it_was_handed_over_is_noticed():
    def case(f, made, name):
        return lambda: (lambda x: f(x, made), _on(made, name, 5))

    for how, f in HANDED_OVER.items():
        own, plain = Thing(), types.SimpleNamespace(k=2)
        own.i = plain.i = 1
        for made in (Thing(), own, plain):
            name = "k" if how.startswith(("copied", "asked by")) else "j"
            try:
                assert_noticed(case(f, made, name))
            except AssertionError as error:
                raise AssertionError(f"{how}, of {vars(made)}") from error


def test_an_attribute_that_a_container_gets_after_it_was_handed_over_is_noticed():
    for base in (list, dict, set, tuple, frozenset, str, float, ValueError):
        made = type("Mine", (base,), {})()
        assert_noticed(lambda made=made: (lambda x: x * getattr(copy.copy(made), "k", 2), _on(made, "k", 5)))


def _counts(x, thing):
    thing.n = getattr(thing, "n", 0) + 1
    return x * len(vars(copy.copy(thing)))


def _sets(x, thing):
    thing.n = 3.0
    return x * copy.copy(thing).n


def _sets_after(x, thing):
    copied = copy.copy(thing)
    thing.n = 3.0
    return x * len(vars(copied))


def test_an_attribute_that_the_function_itself_sets_before_or_after_it_hands_over():
    for f, plans in ((_counts, 2), (_sets, 1), (_sets_after, 2)):
        for make in (Thing, types.SimpleNamespace):
            mine, others = make(), make()
            compiled = jtorch.compile(lambda x, f=f, mine=mine: f(x, mine))
            for k in range(4):
                if k == 3:  # which counts as well
                    mine.i = others.i = 1
                assert compiled(t(1, k)).tolist() == f(t(1, k), others).tolist(), (f, make, k)
                assert vars(mine) == vars(others), (f, make, k)
                recorded = sum(map(len, compiled.plans.values()))
                assert recorded <= plans + (k == 3), (f, make, k)


def test_an_object_of_the_library_may_keep_what_it_computes():
    made = jtorch.distributions.Categorical(logits=t(1, 2))
    f = jtorch.compile(lambda x: x * next(map(operator.attrgetter("probs"), [made])))
    for k in range(3):
        np.testing.assert_allclose(f(t(1, k)).numpy(), (t(1, k) * t(1, 2).softmax(0)).numpy(), rtol=1e-6)


@read
def names_that_inspect_classifies():
    return lambda x: x * len(inspect.classify_class_attrs(Thing)), _on(Thing, "j", 3)


# -- the process -------------------------------------------------------------------------------------------


def _of_the_environment(ask):
    os.environ["JTORCH_TEST_RATE"] = "2"
    return lambda x: x * int(ask()), _raised


def _raised():
    os.environ["JTORCH_TEST_RATE"] = "3"
    return lambda: os.environ.pop("JTORCH_TEST_RATE")


@read
def a_path_with_a_variable():
    return _of_the_environment(lambda: os.path.expandvars("$JTORCH_TEST_RATE"))


@read
def a_variable_as_bytes():
    return _of_the_environment(lambda: os.getenvb(b"JTORCH_TEST_RATE"))


def _with_a_thread(ask):
    end = threading.Event()
    thread = threading.Thread(target=end.wait, daemon=True)

    def change():
        thread.start()

        def undo():
            end.set()
            thread.join()

        return undo

    return lambda x: x * ask(), change


@read
def how_many_threads_there_are():
    return _with_a_thread(threading.active_count)


@read
def which_threads_there_are():
    return _with_a_thread(lambda: len(threading.enumerate()))


# -- caches ------------------------------------------------------------------------------------------------


@read
def what_a_cache_has_seen():
    cached = functools.lru_cache(None)(lambda k: k)
    cached(1)
    return lambda x: x * cached.cache_info().misses, lambda: cached(2)


def test_a_cache_that_the_function_uses_and_asks_is_an_error():
    cached = functools.lru_cache(None)(lambda k: k)
    for f, sentence in (
        (lambda x: x * cached(3) * cached.cache_info().hits, "of a function that it calls"),
        (lambda x: x * cached.cache_info().hits * cached(3), "changes what the cache of .* has seen"),
    ):
        with pytest.raises(CompileError, match=rf"test_observe_facts.py.* {sentence}"):
            jtorch.compile(f)(t(1))


@pytest.mark.parametrize("name", READS)
def test_what_is_read_is_noticed(name):
    assert_noticed(READS[name])
