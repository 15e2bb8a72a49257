"""Classes that are registered with abstract ones, of Python's or the user's, after a recording asked."""

import abc
import functools
import numbers
import sys
import typing
from collections.abc import Mapping, Sequence

import pytest

import jtorch
from jtorch.compile.observe.fact_guards import RegistryRead
from tests.compile.observe.observing import assert_noticed, t


class Own(abc.ABC):  # noqa: B024 - nothing has to be there
    """Of the user's."""


def _by_class(n):
    match n:
        case numbers.Number():
            return True
    return False


def _by_items(n):
    match n:
        case [_, _]:
            return True
    return False


def _by_keys(n):
    match n:
        case {}:
            return True
    return False


class Check(type):
    def __instancecheck__(cls, value):
        return isinstance(value, numbers.Number)


class Checked(metaclass=Check):
    pass


@functools.singledispatch
def is_number(n):
    return False


@is_number.register(numbers.Number)
def _(n):
    return True


TESTS = {
    "isinstance": (lambda n: isinstance(n, numbers.Number), numbers.Number),
    "one of several": (lambda n: isinstance(n, (int, numbers.Number)), numbers.Number),
    "a union": (lambda n: isinstance(n, int | numbers.Number), numbers.Number),
    "an old union": (lambda n: isinstance(n, typing.Union[int, numbers.Number]), numbers.Number),  # noqa: UP007
    "of collections": (lambda n: isinstance(n, Sequence), Sequence),
    "of typing": (lambda n: isinstance(n, typing.Sequence), Sequence),
    "issubclass": (lambda n: issubclass(type(n), Sequence), Sequence),
    "with one that derives": (lambda n: isinstance(n, numbers.Number), numbers.Integral),
    "of the class": (lambda n: numbers.Number.__instancecheck__(n), numbers.Number),
    "map": (lambda n: all(map(isinstance, [n], [numbers.Number])), numbers.Number),
    "partial": (lambda n: functools.partial(isinstance, n)(numbers.Number), numbers.Number),
    "a user's test": (lambda n: isinstance(n, Checked), numbers.Number),
    "a user's class": (lambda n: isinstance(n, Own), Own),
    "match a class": (_by_class, numbers.Number),
    "match items": (_by_items, Sequence),
    "match keys": (_by_keys, Mapping),
    "singledispatch": (is_number, numbers.Number),
}


def new_class():
    """One that may count as anything."""

    class New:
        def __len__(self):
            return 2

        def __getitem__(self, k):
            return [4, 5][k]

        def keys(self):
            return []

    return New


@pytest.mark.parametrize("name", TESTS)
def test_a_class_that_is_registered_later(name):
    test, abstract = TESTS[name]
    new = new_class()
    thing = new()
    assert_noticed(lambda: (lambda x: x * (2 if test(thing) else 5), lambda: abstract.register(new) and None))


def test_that_others_are_registered_is_no_change():
    thing = new_class()()
    f = jtorch.compile(lambda x: x * (2 if isinstance(thing, numbers.Number) else 5))
    for _ in range(3):
        assert f(t(1)).item() == 5.0
        numbers.Number.register(new_class())
    assert not len(f.retraces)


def test_an_import_inside_that_registers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "registering.py").write_text(
        "import numbers\nclass Own: pass\nnumbers.Number.register(Own)\n"
    )
    thing = new_class()()

    @jtorch.compile
    def f(x):
        known = isinstance(thing, numbers.Number)
        import registering  # noqa: F401

        return x * (2 if known else 5)

    assert f(t(1)).item() == f(t(1)).item() == 5.0
    assert not len(f.retraces)
    del sys.modules["registering"]


def test_guards_run_no_hook_of_a_class():
    seen = []

    class Hooked(Own):
        @classmethod
        def __subclasshook__(cls, other):
            seen.append(other)
            return NotImplemented

    new = new_class()
    read = RegistryRead((new, Own))
    numbers.Number.register(new_class())
    assert read.holds() and seen == []
    Hooked.register(new)
    assert not read.holds() and seen == [new]
