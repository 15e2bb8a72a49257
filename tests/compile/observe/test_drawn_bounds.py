"""How far to draw in compiled functions, where that is another number at each call:
``random.sample(range(n), k)``, ``random.randint(0, len(rows) - 1)``."""

from __future__ import annotations

import random
import types
import warnings

import numpy as np

import jtorch
from jtorch.compiler import disable
from tests.each import each

X = jtorch.arange(40.0)
OWN = random.Random(1)


class Memory:
    """Fills, and gives rows by their numbers."""

    def __init__(self):
        self.size, self.rows, self.values = 0, [], jtorch.zeros(64)

    def push(self, value):
        self.rows.append(value)
        self.values[self.size] = value
        self.size += 1

    def __len__(self):
        return len(self.rows)

    def sample(self, n):
        return self.values[random.sample(range(self.size), n)]


def _by_name(m, x, n):
    where = random.choices(population=range(n), k=5)
    return x[where] + jtorch.tensor(where)


def _two_bounds(m, x, n):
    return x[random.sample(range(1, n), 3)] * random.choice(range(0, n, 2)), random.random()


def _in_a_variable(m, x, n):
    rows = range(n)
    return x[random.sample(rows, 3)]


def _asked_first(m, x, n):
    return x[random.sample(range(n), 3)] * sum(range(n))


def _after_a_disabled_function(m, x, n):
    y = _doubled(x)
    return y[random.sample(range(n), 3)]


@disable
def _doubled(x):
    return x * 2


def _counted(m, x, n):
    m.size += 1
    where = np.random.randint(0, m.size - 1, 2)
    m.size -= 1
    return x[where]


def _by_another_function(m, x, n):
    return x[_picked(range(n), 3)]


def _picked(rows, k):
    return random.sample(rows, k)


PROGRAMS = {  # the program, how many recordings it makes at most
    "of an argument": (lambda m, x, n: x[random.sample(range(n), 4)], 2),
    "of an attribute": (lambda m, x, n: m.sample(3) * x[0], 2),
    "of a length": (lambda m, x, n: x[random.sample(range(len(m)), 2)], 2),
    "of a list's length": (lambda m, x, n: x[jtorch.tensor(random.sample(range(len(m.rows)), 2))], 2),
    "one of them": (lambda m, x, n: x * random.choice(range(n)), 2),
    "by name": (_by_name, 2), "two bounds": (_two_bounds, 2),
    "a generator's own": (lambda m, x, n: x[OWN.sample(range(n), 3)] + OWN.random(), 2),
    "how many is computed": (lambda m, x, n: x[random.sample(range(n), min(3, len(x)))], 2),
    "in a variable": (_in_a_variable, 12), "asked first": (_asked_first, 12),
    "by another function": (_by_another_function, 12),
    "its first": (lambda m, x, n: x * random.sample(range(n), 2)[0], 2),
    "too few": (lambda m, x, n: x[random.sample(range(n), 9)], 12),
    "none": (lambda m, x, n: x[random.sample(range(n - n), 1)], 12),
    "a range of a sum": (lambda m, x, n: x[random.sample(range(n + 1), 3)], 2),
    "the last one": (lambda m, x, n: x * random.randint(0, len(m) - 1), 2),
    "NumPy's": (lambda m, x, n: x[np.random.randint(0, len(m.rows) - 2, 3)], 2),
    "a choice of half": (lambda m, x, n: x[np.random.choice(n // 2, 2, replace=False)], 2),
    "several operators": (lambda m, x, n: x * random.randrange(1 - len(m), 3 + (n - 1) // 2 + n), 2),
    "many operators": (lambda m, x, n: x * random.randrange(n + n + n + n + n + n + n), 3),
    "what it counts": (_counted, 3),
    "of what was drawn": (lambda m, x, n: x * random.randint(0, random.randint(1, n) + 1), 3),
    "of elements": (lambda m, x, n: x * random.randint(0, n + int(x[1].item())), 3),
    "negative": (lambda m, x, n: x * random.randint(-n, -(n // 3)), 3),
    "too far down": (lambda m, x, n: x * random.randrange(n - 9), 3),
    "spread": (lambda m, x, n: x[random.sample(*(range(n), 3))], 12),
    "not drawn": (lambda m, x, n: x[list(range(n))], 12),
    "after a disabled function": (_after_a_disabled_function, 12),
}  # fmt: skip


@each("name", PROGRAMS)
def test_as_eager_mode(name):
    program, recordings = PROGRAMS[name]
    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        random.seed(3), OWN.seed(4), np.random.seed(5)
        memory, found = Memory(), []
        for value in (1.0, 2.0, 4.0):
            memory.push(value)
        step = wrap(lambda x, n, m=memory: program(m, x, n))
        for k in range(11):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    made = repr(step(X, 5 + k))
                except Exception as error:
                    made = f"{type(error).__name__}: {error}".partition(" (at ")[0]
            found.append((made, random.getstate(), OWN.getstate(), np.random.rand()))
            memory.push(k * 0.5)
        seen.append(found)
    for k, (found, expected) in enumerate(zip(seen[1], seen[0], strict=True)):
        assert found == expected, f"{name}, call {k}"
    recorded = 1 + sum(r.outcome == "recorded" for r in step.retraces)
    assert recorded <= recordings, f"{name}: {step.retraces}"


SIZES = {  # the program, how many recordings it makes at most
    "a choice": (lambda x: x[np.random.choice(len(x), 3)], 2),
    "a choice without replacement": (lambda x: x[np.random.choice(x.shape[0], 3, replace=False)], 2),
    "integers": (lambda x: x[np.random.randint(0, len(x), 3)], 2),
    "integers by name": (lambda x: x[np.random.randint(low=0, high=len(x), size=3)], 12),
    "one of them": (lambda x: x[random.randrange(len(x))], 2),
    "the last one": (lambda x: x[random.randint(0, len(x) - 1)], 2),
    "a sample": (lambda x: x[random.sample(range(len(x)), 3)], 2),
    "a sample of half": (lambda x: x[random.sample(range(len(x) // 2, len(x)), 2)] / len(x), 2),
    "two axes": (lambda x: x.reshape(-1, 1).expand(-1, 4)[random.randrange(x.numel() - 2)], 2),
    "a size of a mask": (lambda x: x[random.randrange(len(x[x > 1.0]))], 12),
    "a permutation": (lambda x: x[np.random.permutation(len(x))], 12),
    "as many": (lambda x: x[np.random.randint(0, len(x), len(x))], 12),
    "as many of a choice": (lambda x: x[np.random.choice(len(x), len(x) // 2)], 12),
    "too few": (lambda x: x[np.random.choice(len(x), 8, replace=False)], 12),
    "in a list": (lambda x: x[random.choice([0, len(x) - 1])], 12),
    "with a permutation": (
        lambda x: x[np.random.permutation(len(x))] + x[np.random.choice(len(x), 1)], 12,
    ),
}  # fmt: skip


@each("name", SIZES)
def test_sizes_as_eager_mode(name):
    program, recordings = SIZES[name]
    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        random.seed(3), np.random.seed(5)
        step, found = wrap(program), []
        for n in (5, 9, 6, 7, 12, 5, 8, 9, 30, 4, 3, 10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    made = repr(step(jtorch.arange(float(n))))
                except Exception as error:
                    made = f"{type(error).__name__}: {error}".partition(" (at ")[0]
            found.append((made, random.getstate(), np.random.rand()))
        seen.append(found)
    for k, (found, expected) in enumerate(zip(seen[1], seen[0], strict=True)):
        assert found == expected, f"{name}, call {k}"
    recorded = 1 + sum(r.outcome == "recorded" for r in step.retraces)
    assert recorded <= recordings, f"{name}: {step.retraces}"


def test_integers_that_are_sizes_say_how_far_to_draw():
    def program(x, n):
        return x[:n] * random.randrange(n) + random.randint(n // 2, n)

    compiled, seen = jtorch.compile(program, fullgraph=True), []
    for step in (program, compiled):
        random.seed(2)
        seen.append([step(X, n).tolist() for n in (3, 5, 9, 4, 30, 7)])
    assert seen[0] == seen[1] and len(compiled.retraces) <= 2


def test_a_range_that_moves_is_no_other_program():
    state = types.SimpleNamespace(n=3)

    @jtorch.compile(fullgraph=True)
    def program(x):
        return x[random.sample(range(state.n), 3)]

    for n in (3, 8, 30, 4, 17):
        state.n = n
        random.seed(n)
        found = program(X).tolist()
        random.seed(n)
        assert found == random.sample(range(n), 3)
    assert program.calls == 5 and len(program.retraces) == 1
