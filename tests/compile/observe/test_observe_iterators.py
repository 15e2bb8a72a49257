"""Iterators from outside: whatever takes elements from one is refused, since a recording would do it once."""

import itertools

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t


def unpacks(x, values):
    first, *_ = values
    return x * first


def unpacks_pair(x, values):
    first, _second = values
    return x * first


def yields(x, values):
    def each():
        yield from values

    return x * sum(each())


TAKES = {
    "a list display": lambda x, values: x * sum([*values]),
    "a set display": lambda x, values: x * sum({*values}),
    "a tuple display": lambda x, values: x * sum((*values,)),
    "an assignment with a star": unpacks,
    "an assignment to two": unpacks_pair,
    "in": lambda x, values: x * (2 if 2.0 in values else 3),
    "not in": lambda x, values: x * (2 if 7.0 not in values else 3),
    "list()": lambda x, values: x * sum(list(values)),
    "zip()": lambda x, values: x * sum(a for a, _ in zip(values, values, strict=True)),
    "sum()": lambda x, values: x * sum(values),
    "extend()": lambda x, values: [].extend(values) or x,
    "a slice that is set": lambda x, values: [0].__setitem__(slice(0, 1), values) or x,
    "map(next)": lambda x, values: x * sum(map(next, [values])),
    "chain.from_iterable()": lambda x, values: x * sum(itertools.chain.from_iterable([values])),
    "yield from": yields,
    "arguments with a star": lambda x, values: x * max(*values),
    "a tensor": lambda x, values: x * jtorch.tensor([*values])[0],
}
ITERATORS = {
    "of a list": lambda: iter([1.0, 2.0]),
    "of map": lambda: map(float, [1.0, 2.0]),
    "a generator": lambda: (v for v in [1.0, 2.0]),
}


@pytest.mark.parametrize("kind", ITERATORS)
@pytest.mark.parametrize("name", TAKES)
def test_taking_elements_is_refused_before_it_happens(name, kind):
    values = ITERATORS[kind]()
    with pytest.raises(CompileError, match="which a recording would do once"):
        jtorch.compile(lambda x: TAKES[name](x, values))(t(1))
    assert list(values) == [1.0, 2.0]


def test_a_slice_of_a_local_list_set_from_an_iterator():
    values = iter([1.0, 2.0])

    def f(x):
        entries = [0.0]
        entries[:] = values
        return x * entries[0]

    with pytest.raises(CompileError, match="which a recording would do once"):
        jtorch.compile(f)(t(1))


def test_iterators_made_inside_are_the_functions_own():
    table = [1.0, 2.0]

    def f(x):
        values = iter(table)
        first, *_ = values
        return x * first * sum([*map(float, table)]) * (2 if 2.0 in iter(table) else 3)

    compiled = jtorch.compile(f)
    for _ in range(2):
        assert compiled(t(1)).tolist() == [6.0]
    table[0] = 5.0
    assert compiled(t(1)).tolist() == [70.0]
