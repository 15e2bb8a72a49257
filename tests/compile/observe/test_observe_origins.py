"""Classes that say they are of a module of Python's, and objects of those that are: what they get counts."""

import abc
import collections
import dataclasses
import datetime
import fractions
import functools
import importlib.util
import ipaddress
import logging
import string
import types

import pytest

import jtorch
from tests.compile.observe.observing import assert_noticed, setting, t

HOLDER = "class Made:\n    k = 2\n    def get(self):\n        return self.k\n"


def change(owner, name, value):
    """A change of an attribute, of lists and dicts, too."""
    return lambda: setattr(owner, name, value)


def from_text(text, name="Made"):
    """What ``text`` defines, whose ``__module__`` is "builtins"."""
    namespace = {}
    exec(text, namespace)
    return namespace[name]


def from_file(folder, module):
    """The class of a file that is called as a module of Python's, which stays the one in ``sys.modules``."""
    (folder / f"{module}.py").write_text(HOLDER)
    spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    importlib.import_module(module)
    return made.Made


CLASSES = {
    "exec": lambda folder: from_text(HOLDER),
    "derives": lambda folder: type("Derived", (from_text(HOLDER),), {"__module__": "builtins"}),
    "list": lambda folder: from_text(HOLDER.replace("Made", "Made(list)")),
    "int": lambda folder: from_text(HOLDER.replace("Made", "Made(int)")),
    "new_class": lambda folder: types.new_class("A", (), {}, lambda ns: ns.update(k=2, get=lambda s: s.k)),
    "ABCMeta": lambda folder: abc.ABCMeta("B", (), {"k": 2, "get": lambda self: self.k}),
    "no methods": lambda folder: types.new_class("A", (), {}, lambda ns: ns.update(k=2)),
    "dataclass": lambda folder: dataclasses.make_dataclass("D", [], namespace={"k": 2}),
    "profile": lambda folder: from_file(folder, "profile"),
    "queue": lambda folder: from_file(folder, "queue"),
    "token": lambda folder: from_file(folder, "token"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_an_attribute_that_hides_the_classs(name, tmp_path):
    cls = CLASSES[name](tmp_path)
    plain, asked, filled, derived = cls(), cls(), cls(), type("Derived", (cls,), {})
    assert_noticed(lambda: (lambda x: x * plain.k, change(plain, "k", 5)))
    assert_noticed(lambda: (lambda x: x * getattr(asked, "k"), change(asked, "k", 5)))  # noqa: B009
    assert_noticed(lambda: (lambda x: x * filled.k, lambda: filled.__dict__.update(k=5)))
    of_derived = derived()
    assert_noticed(lambda: (lambda x: x * of_derived.k, setting(derived, "k", 5)))
    if hasattr(cls, "get"):
        inner, replaced = cls(), cls()
        assert_noticed(lambda: (lambda x: x * inner.get(), change(inner, "k", 5)))
        assert_noticed(lambda: (lambda x: x * replaced.get(), change(replaced, "get", lambda: 5)))


OBJECTS = {
    "a constant": (string.Template, "a", lambda o: len(o.delimiter), "delimiter", "$$$"),
    "of a handler": (logging.StreamHandler, None, lambda o: len(o.terminator), "terminator", "$$$"),
    "a method": (string.Template, "abc", lambda o: len(o.substitute()), "substitute", lambda: "x"),
    "of a dict": (collections.Counter, "aab", lambda o: len(o.most_common()), "most_common", lambda: [1]),
    "of a user's dict": (collections.UserDict, {"a": 2}, lambda o: o.get("a"), "get", lambda key: 5),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_an_attribute_that_an_object_of_pythons_gets(name):
    cls, argument, use, attribute, value = OBJECTS[name]
    thing = cls(argument)
    assert_noticed(lambda: (lambda x: x * use(thing), change(thing, attribute, value)))


def test_what_an_object_of_pythons_keeps_of_a_property_is_no_change():
    network = ipaddress.ip_network("1.2.3.0/30")
    f = jtorch.compile(lambda x: x * int(network.hostmask))
    assert f(t(1)).item() == f(t(1)).item() == 3.0
    assert not len(f.retraces)


def test_descriptors_and_metaclasses():
    descriptor = from_text("class Made:\n    n = 2\n    def __get__(self, o, cls):\n        return self.n\n")
    owner = type("Owner", (), {"d": descriptor()})()
    assert_noticed(lambda: (lambda x: x * owner.d, setting(vars(type(owner))["d"], "n", 5)))
    meta = "class Meta(type):\n    flag = True\n    def __instancecheck__(cls, o):\n        return cls.flag\n"
    made = from_text(f"{meta}class Made(metaclass=Meta):\n    pass\n")
    assert_noticed(lambda: (lambda x: x * (2 if isinstance(3, made) else 5), setting(made, "flag", False)))
    other = from_text(HOLDER.replace("2", "5"))
    thing = from_text(HOLDER)()
    assert_noticed(lambda: (lambda x: x * thing.k, setting(thing, "__class__", other)))


def test_methods_that_dataclasses_write():
    text = "import dataclasses\n@dataclasses.dataclass\nclass Made:\n    k: float = 2.0\n"
    for cls in (from_text(text), dataclasses.make_dataclass("D", [("k", float, 2.0)])):
        init = cls.__init__
        assert_noticed(lambda: (lambda x: x * cls().k, setting(init, "__defaults__", (5.0,))))  # noqa: B023


@pytest.mark.parametrize("base", [(datetime.date, 2020, 1, 1), (fractions.Fraction, 1, 2)])
def test_a_static_argument_with_attributes_of_its_own(base):
    cls, *arguments = base
    made = type("Made", (cls,), {"k": 2, "__module__": "builtins"})
    f = jtorch.compile(lambda x, d: x * d.k)
    one, other = made(*arguments), made(*arguments)
    other.k = 5
    assert [f(t(1), one).item(), f(t(1), other).item()] == [2.0, 5.0]


def test_what_a_cache_keeps_in_an_object():
    made, state = from_text(HOLDER), {}

    @functools.lru_cache
    def kept():
        thing = made()
        thing.value = state["w"] * 2
        return thing

    @jtorch.compile
    def f(x):
        state["w"] = x * 1
        return x * kept().value

    assert [f(t(k)).item() for k in (2, 3, 4)] == [8.0, 12.0, 16.0]
