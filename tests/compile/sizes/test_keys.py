"""Sizes as keys, entries and attributes outside: what is kept are numbers, also where a recording is taken
back."""

from __future__ import annotations

import collections
import types

import pytest

import jtorch

Named = collections.namedtuple("Named", "n word")
KEYS = {
    "a shape": lambda x: x.shape,
    "a tuple": lambda x: tuple(x.shape),
    "a named tuple": lambda x: Named(x.shape[0], "a"),
    "nested": lambda x: (x.shape, ("b", x.shape[0])),
    "a size": lambda x: x.shape[0],
    "computed": lambda x: len(x) + 1,
    "a quotient": lambda x: x.shape[0] / 2,
    "a text": lambda x: str(x.shape),
    "a set": lambda x: frozenset(x.shape),
}


def in_a_dict(key, held):
    def f(x):
        k = key(x)
        if k not in held:
            held[k] = jtorch.full((), float(len(held)))
        return x + held[k]

    return f


def in_a_list(key, held):
    def f(x):
        k = key(x)
        if k not in held["seen"]:
            held["seen"].append(k)
        return x + held["seen"].index(k)

    return f


def in_an_attribute(key, held):
    def f(x):
        held["object"].key = key(x)
        return x + 1

    return f


def told(value):
    if isinstance(value, tuple):
        return type(value), [told(part) for part in value]
    return type(value), repr(value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jtorch.errors.EagerWarning", "ignore::jtorch.errors.RetraceWarning")
@pytest.mark.parametrize("keep", [in_a_dict, in_a_list, in_an_attribute], ids=lambda f: f.__name__)
def test_what_is_kept_of_sizes_is_what_eager_mode_keeps(keep):
    for name, key in KEYS.items():
        results = []
        for wrap in (lambda f: f, lambda f: jtorch.compile(f, fullgraph=False)):
            held = {"seen": [], "object": types.SimpleNamespace()} if keep is not in_a_dict else {}
            function, found = wrap(keep(key, held)), []
            for n in (2, 2, 3, 2, 3, 4, 5, 3):
                found.append(function(jtorch.ones(n)).tolist())
                kept = [*held.get("seen", ()), *vars(held["object"]).values()] if "seen" in held else held
                found.append([told(k) for k in kept])
            results.append(found)
        assert results[0] == results[1], name


class Key(tuple):
    def __new__(cls, *parts):
        made = tuple.__new__(cls, parts)
        made.note = len(parts)
        return made


def test_a_key_of_a_users_class_keeps_its_attributes():
    compiled = jtorch.compile(lambda x: (x * 2, {Key(x.shape[0], 1): 1}))
    for n in (3, 4, 5):
        ((key, _),) = compiled(jtorch.ones(n))[1].items()
        assert key == (n, 1) and type(key) is Key and key.note == 2
