"""Names of what a function holds: they call nothing of the user's, and do not mind what is taken away."""

from __future__ import annotations

import enum
import gc

import numpy as np

import jtorch
from jtorch.compile.inspect.naming import named_by
from jtorch.compile.observe.guards import by_value, in_words, told


class Silent:
    """A key whose text nobody but the program may ask for."""

    def __init__(self, number=0):
        self.number = number

    def __hash__(self):
        return hash(self.number)

    def __eq__(self, other):
        return isinstance(other, Silent) and other.number == self.number

    def __repr__(self):
        raise ValueError("a text that the program did not ask for")


class Text(str):
    __slots__ = ()

    def __repr__(self):
        raise ValueError("a text that the program did not ask for")


class Color(enum.Enum):
    RED = 1

    def __repr__(self):
        raise ValueError("a text that the program did not ask for")


TABLE = {Silent(): jtorch.full((2,), 3.0), (Text("a"), 1): jtorch.ones(2), Color.RED: jtorch.ones(2)}


def test_no_text_of_the_users_is_asked_for():
    class Net(jtorch.nn.Module):
        def __init__(self):
            super().__init__()
            self.name, self.table = Text("net"), {Text("w"): jtorch.ones(2)}

        def forward(self, x, batch, key):
            total = x * sum(TABLE.values()) + self.table[Text("w")] + len(self.name)
            return {Text("y"): total + batch[Silent(1)] + len(key), Silent(2): total}

    net = Net()
    compiled = jtorch.compile(net)
    for k in range(4):
        batch = {Silent(1): jtorch.ones(2) * k, Text("b"): 2.0, (Silent(3), 1): k, Color.RED: Text("c")}
        got, right = compiled(jtorch.ones(2), batch, Text("key")), net(jtorch.ones(2), batch, Text("key"))
        assert got[Text("y")].tolist() == right[Text("y")].tolist() == [12.0 + k] * 2
        assert got[Silent(2)].tolist() == right[Silent(2)].tolist()
    assert compiled.explain(jtorch.ones(2), batch, Text("key")) is not None
    assert compiled.stats(jtorch.ones(2), batch, Text("key")) is not None


def test_values_in_words():
    words = [in_words(v) for v in ((Text("a"),), Color.RED, Silent(), slice(1, None), 1.5, np.int8(3))]
    assert words == ["('a',)", "Color.RED", "<Silent>", "slice(1, None, None)", "1.5", repr(np.int8(3))]
    assert in_words([].append) == "<builtin_function_or_method>"
    assert told(Text("a")) == "a Text" and told("a") == "'a'"


def test_texts_of_a_users_class_that_differ_are_not_the_same():
    class Same(str):
        def __repr__(self):
            return "always the same"

    assert by_value(Same("a")) == by_value(Same("a")) != by_value(Same("b"))
    assert by_value(np.float32(-0.0)) != by_value(np.float32(0.0))
    assert by_value(1) != by_value(1.0) and by_value(Silent()) != by_value(Silent())

    @jtorch.compile
    def f(x, key):
        return {key: x * 2}

    for key in "ab" * 2:
        assert [str.__str__(k) for k in f(jtorch.ones(1), Same(key))] == [key]


ENTRIES = {}


def test_entries_that_a_finalizer_takes_out_meanwhile():
    class Ring:
        def __init__(self, key):
            self.me, self.key = self, key

        def __del__(self):
            ENTRIES.pop(self.key, None)

    def f(x):
        return x + len(ENTRIES)

    gc.collect()
    before = gc.get_threshold()
    try:
        for held in (*range(100, 700, 50), *range(700, 3000, 300)):  # somewhere in there, a collection is due
            gc.set_threshold(held)
            gc.disable()
            ENTRIES.update((k, jtorch.ones(1)) for k in range(3000))
            gc.collect()
            for k in range(5):
                Ring(k)
            gc.enable()
            named = named_by(f)
            assert any(name.startswith("ENTRIES[") for name in named.tensors)
    finally:
        gc.set_threshold(*before)
        gc.enable()
        gc.collect()
        ENTRIES.clear()
