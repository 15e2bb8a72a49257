"""Classes outside a compiled function, wherever they were written: what they have counts at each call."""

import importlib
import sys

import pytest

import jtorch
import jtorch.nn as nn
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


@pytest.fixture
def users_profile(tmp_path, monkeypatch):
    """A module of a user's that is called as one of the standard library's is."""
    text = """
        import dataclasses
        class Config:
            rate = 2.0
            def go(self, x):
                return x * 2
        @dataclasses.dataclass
        class Data:
            rate: float = 2.0
            def __post_init__(self):
                self.twice = 2 * self.rate
    """
    (tmp_path / "profile.py").write_text("\n".join(line[8:] for line in text.splitlines()))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "profile", raising=False)
    yield importlib.import_module("profile")
    del sys.modules["profile"]


def test_a_module_of_a_users_with_a_name_of_the_standard_librarys(users_profile):
    config, data = users_profile.Config(), users_profile.Data()
    assert_noticed(
        lambda: (lambda x: x * users_profile.Config.rate, setting(users_profile.Config, "rate", 5.0))
    )
    assert_noticed(
        lambda: (lambda x: config.go(x), setting(users_profile.Config, "go", lambda self, x: x * 5))
    )
    assert_noticed(lambda: (lambda x: x * data.rate, setting(data, "rate", 5.0)))
    assert jtorch.compile(lambda x: x * users_profile.Data(3.0).twice)(t(1)).tolist() == [6.0]


def _on_a_library(cls, name, value, then):
    def change():
        setattr(cls, name, then)
        return lambda: delattr(cls, name)

    setattr(cls, name, value)
    return change


@read
def a_constant_set_on_a_layers_class():
    layer, change = nn.Linear(1, 1), _on_a_library(nn.Linear, "gain", 2.0, 5.0)
    return lambda x: x * layer.gain, change


@read
def a_method_set_on_a_layers_class():
    change = _on_a_library(nn.Linear, "gain", lambda self: 2.0, lambda self: 5.0)
    layer = nn.Linear(1, 1)
    return lambda x: x * layer.gain(), change


@read
def a_property_set_on_an_optimizers_class():
    first, then = property(lambda self: 2.0), property(lambda self: 5.0)
    change = _on_a_library(jtorch.optim.SGD, "gain", first, then)
    optimizer = jtorch.optim.SGD([t(1).requires_grad_()], lr=0.1)
    return lambda x: x * optimizer.gain, change


@read
def a_constant_read_through_a_layers_class():
    return lambda x: x * nn.Linear.gain, _on_a_library(nn.Linear, "gain", 2.0, 5.0)


@read
def a_class_whose_instances_new_makes():
    class Point:
        gain = 2.0

        def __new__(cls, *values):
            return object.__new__(cls)

        def __init__(self, x):
            self.x = x

    return lambda x: Point(x).x * Point.gain, setting(Point, "gain", 5.0)


@read
def what_new_reads_of_its_class():
    class Point:
        gain = 2.0

        def __new__(cls, x):
            made = super().__new__(cls)
            made.x = x * cls.gain
            return made

    return lambda x: Point(x).x, setting(Point, "gain", 5.0)


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_a_class_that_counts_its_instances():
    from jtorch.core.errors import CompileError

    class Point:
        count = 0

        def __new__(cls):
            cls.count = cls.count + 1
            return object.__new__(cls)

    def f(x):
        Point()
        return x

    with pytest.raises(CompileError, match="'count' of Point"):
        jtorch.compile(f)(t(1))
    assert Point.count == 0


def test_methods_of_a_librarys_classes_are_a_read_each():
    layer = nn.Linear(1, 1)
    optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).sum() + len(list(layer.parameters()))
        loss.backward()
        optimizer.step()
        return loss

    f = jtorch.compile(step)
    f(t(1).reshape(1, 1))
    assert sum(read.guarded for read in f._newest().capture.plain) <= 17


class _Mild:
    scale = 2

    def __call__(self, x):
        return x * self.scale

    def __len__(self):
        return 3


class _Strong(_Mild):
    scale = 5

    def __len__(self):
        return 0


class _Values(list):
    pass


class _Others(_Values):
    def total(self):
        return 2


class _Layer(nn.Module):
    def forward(self, x):
        return x * 2


class _OtherLayer(_Layer):
    def forward(self, x):
        return x * 3


def _matched(thing, x):
    match thing:
        case _Strong():
            return x * 7
        case _Mild():
            return x * 9


USES_OF_A_CLASS = {
    "an attribute": lambda thing, x: x * thing.scale, "a call": lambda thing, x: thing(x),
    "isinstance": lambda thing, x: x * (2 if isinstance(thing, _Strong) else 3),
    "type": lambda thing, x: x * (2 if type(thing) is _Strong else 3),
    "__class__": lambda thing, x: x * (2 if thing.__class__ is _Strong else 3),
    "match": _matched, "truth": lambda thing, x: x * (2 if thing else 3),
    "len": lambda thing, x: x * len(thing), "map": lambda thing, x: next(map(thing, [x])),
    "hasattr": lambda thing, x: x * (2 if hasattr(thing, "more") else 3),
}  # fmt: skip


@pytest.mark.parametrize("use", USES_OF_A_CLASS)
def test_a_class_that_is_assigned(use):
    thing = _Mild()
    f = jtorch.compile(lambda x: USES_OF_A_CLASS[use](thing, x))
    _Strong.more = 1
    for cls in (_Mild, _Strong, _Strong, _Mild):
        thing.__class__ = cls
        x = jtorch.ones(2)
        assert f(x).tolist() == USES_OF_A_CLASS[use](thing, x).tolist()


class _Slotted:
    __slots__ = ("k",)

    def total(self):
        return self.k


class _SlottedToo:
    __slots__ = ("k",)

    def total(self):
        return self.k * 10


def test_a_class_that_is_assigned_to_what_has_slots():
    thing = _Slotted()
    thing.k = 2
    f = jtorch.compile(lambda x: x * thing.total())
    for cls, k in ((_Slotted, 2), (_SlottedToo, 2), (_SlottedToo, 3), (_Slotted, 3)):
        thing.__class__, thing.k = cls, k
        assert f(jtorch.ones(1)).item() == (k if cls is _Slotted else k * 10)


def test_a_class_that_the_function_assigns_is_refused_and_put_back():
    thing = _Mild()

    def f(x):
        thing.__class__ = _Strong
        return x * thing.scale

    with pytest.raises(jtorch.errors.CompileError):
        jtorch.compile(f)(jtorch.ones(1))
    assert type(thing) is _Mild


def test_a_class_that_is_assigned_to_a_container_or_a_module():
    values, layer = _Values([1, 2]), _Layer()
    f = jtorch.compile(lambda x: layer(x) * (values.total() if hasattr(values, "total") else values[0]))
    pairs = [(_Values, _Layer), (_Others, _Layer), (_Others, _OtherLayer), (_Values, _Layer)]
    for container, module in pairs:
        values.__class__, layer.__class__ = container, module
        expected = (2.0 if module is _Layer else 3.0) * (2 if container is _Others else 1)
        assert f(jtorch.ones(1)).item() == expected


class _Two:
    value = 2

    def __getattribute__(self, name):
        LOOKED.append(name)
        return object.__getattribute__(self, name)

    def __enter__(self):
        return 2

    def __exit__(self, *error):
        pass

    def __iter__(self):
        return iter([2])

    def __float__(self):
        return 2.0

    def __index__(self):
        return 2

    def __str__(self):
        return "--"

    def __neg__(self):
        return 2

    def __radd__(self, other):
        return other + 2

    def __getitem__(self, k):
        return 2

    def __contains__(self, k):
        return True

    def __abs__(self):
        return 2

    def __call__(self, x):
        return x * 2


class _Five(_Two):
    value = 5
    __enter__ = __neg__ = __abs__ = __index__ = lambda self: 5
    __iter__ = lambda self: iter([5])  # noqa: E731
    __float__ = lambda self: 5.0  # noqa: E731
    __str__ = lambda self: "-----"  # noqa: E731
    __radd__ = lambda self, other: other + 5  # noqa: E731
    __getitem__ = lambda self, k: 5  # noqa: E731
    __contains__ = lambda self, k: False  # noqa: E731
    __call__ = lambda self, x: x * 5  # noqa: E731


LOOKED = []


def _entered(thing):
    with thing as k:
        return k


def _unpacked(thing):
    (k,) = thing
    return k


BY_SPECIAL_METHODS = {
    "with": _entered, "unpack": _unpacked, "for": lambda thing: sum(k for k in thing),
    "sum": sum, "float": float, "index": lambda thing: [0, 1, 2, 3, 4, 5][thing],
    "str": lambda thing: len(str(thing)), "format": lambda thing: len(f"{thing}"),
    "neg": lambda thing: -thing,
    "add": lambda thing: 1 + thing, "sum of": lambda thing: sum([thing, thing]),
    "item": lambda thing: thing[0], "in": lambda thing: 2 if 1 in thing else 3, "abs": abs,
    "map": lambda thing: next(map(thing, [1])), "list": lambda thing: max(list(thing)),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_SPECIAL_METHODS)
def test_a_class_that_is_assigned_to_what_special_methods_are_asked_of(name):
    thing, use = _Two(), BY_SPECIAL_METHODS[name]
    f = jtorch.compile(lambda x: x * use(thing))
    for cls in (_Two, _Five, _Five, _Two):
        object.__setattr__(thing, "__class__", cls)
        expected = use(thing)
        LOOKED.clear()
        assert f(jtorch.ones(1)).item() == expected
    LOOKED.clear()
    f(jtorch.ones(1))
    assert LOOKED == [], "a guard runs no code of the user's"


def test_a_special_method_that_is_a_lambda_and_is_replaced():
    class Thing:
        __len__ = lambda self: 2  # noqa: E731
        __float__ = lambda self: 2.0  # noqa: E731

    thing = Thing()
    f = jtorch.compile(lambda x: x * len(thing) * float(thing))
    assert f(jtorch.ones(1)).item() == 4
    Thing.__len__ = lambda self: 3
    assert f(jtorch.ones(1)).item() == 6
    Thing.__float__ = lambda self: 5.0
    assert f(jtorch.ones(1)).item() == 15
