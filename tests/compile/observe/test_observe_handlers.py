"""Looking on runs no code of the user's: objects are asked for names as often as in eager mode."""

import jtorch
from tests.compile.observe.observing import t


class Ops:
    """Knows names by a table, and says so in its own way where one is missing."""

    def __init__(self, asked):
        self.__dict__.update(table={}, asked=asked)

    def __getattr__(self, name):
        self.asked.append(name)
        return self.table[name]

    def __call__(self, x):
        return x * 2


class SlottedOps:
    __slots__ = ("asked",)

    def __init__(self, asked):
        self.asked = asked

    def __getattr__(self, name):
        self.asked.append(name)
        raise KeyError(name)

    def __call__(self, x):
        return x * 2


def test_a_callable_that_answers_for_any_name():
    for cls in (Ops, SlottedOps):
        asked = []
        ops = cls(asked)

        def caught(x, ops=ops):
            try:
                return ops(x)
            except KeyError:
                return x * 0

        for f in (lambda x, ops=ops: ops(x), caught, lambda x, ops=ops: ops.__call__(x)):
            assert jtorch.compile(f)(t(1)).tolist() == [2.0]
        assert asked == []


def test_objects_with_answers_of_their_own_that_are_handed_over():
    for cls in (Ops, SlottedOps):
        asked = []
        ops = cls(asked)
        f = jtorch.compile(lambda x, ops=ops: x * len(list(zip([ops], [1], strict=True))) * [ops].count(ops))
        assert f(t(1)).tolist() == [1.0]
        assert jtorch.compile(lambda x, a: x * len(a))(t(1), [ops]).tolist() == [1.0]
        assert asked == []
