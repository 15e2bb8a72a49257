"""How much containers outside hold, where that changes between calls: read at each call, not recorded."""

from __future__ import annotations

import collections
import random
import types
import warnings

import jtorch
from tests.each import each

X = jtorch.tensor([1.0, 2.0])


class Memory:
    """As the replay memory of PyTorch's DQN tutorial."""

    def __init__(self):
        self.memory = collections.deque(maxlen=12)

    def push(self, row):
        self.memory.append(row)

    def sample(self, n):
        return random.sample(self.memory, n)

    def __len__(self):
        return len(self.memory)


class Doubled(list):
    def __len__(self):
        return 2 * list.__len__(self)


def _state():
    return types.SimpleNamespace(
        rows=[], memory=Memory(), table={}, seen=set(), doubled=Doubled(), other=[1.0, 2.0], steps=0
    )


def _fill(s, k):
    s.rows.append(k)
    s.memory.push(float(k))
    s.table[k % 7] = k
    s.seen.add(k % 5)
    list.append(s.doubled, k)
    if k == 13:
        s.rows.clear()


def _optimize(s, x):
    if len(s.memory) < 8:
        return None
    return x * sum(s.memory.sample(4))


def _pops(s, x):
    if len(s.rows) == 6:
        return x * s.rows.pop()
    return x


def _appends(s, x):
    before = len(s.rows)
    s.other.append(1.5)
    return x * before * len(s.other)


def _appends_first(s, x):
    s.rows.append(-1)
    return x * len(s.rows)


PROGRAMS = {  # the program, how many recordings there may be
    "only when full": (lambda s, x: x * 2 if len(s.rows) == 9 else None, 3),
    "too few yet": (_optimize, 12),
    "by its own method": (lambda s, x: x + len(s.memory), 2),
    "arithmetic": (lambda s, x: x * (len(s.rows) + 1) / (len(s.rows) + 2), 2),
    "a dict and a set": (lambda s, x: x * len(s.table) + len(s.seen), 2),
    "truth": (lambda s, x: (x * 2 if s.rows else x) + (0.0 if s.memory else 1.0), 3),
    "not": (lambda s, x: x if not s.rows else -x, 2),
    "a method of a list's subclass": (lambda s, x: x * len(s.doubled), 20),
    "a fraction that fills": (lambda s, x: x * min(len(s.rows), 10) / 10, 3),
    "every third": (lambda s, x: x * 2 if len(s.rows) % 3 == 0 else x, 3),
    "a range": (lambda s, x: sum((x * k for k in range(len(s.rows))), x), 20),
    "returned": (lambda s, x: (x * 1, len(s.rows)), 2),
    "a tensor of it": (lambda s, x: x + jtorch.tensor(len(s.rows)), 2),
    "a shape": (lambda s, x: jtorch.zeros(len(s.rows) + 1, 2) + x, 20),
    "a text": (lambda s, x: (x * 1, f"{len(s.rows)} rows"), 20),
    "popped": (_pops, 20), "appended to another": (_appends, 20), "appended first": (_appends_first, 20),
    "its entries, too": (lambda s, x: x * len(s.rows) + (s.rows[0] if len(s.rows) else 0), 20),
    "all of it": (lambda s, x: x * len(s.rows) + sum(s.rows), 20),
    "of a copy": (lambda s, x: x * len(list(s.rows)), 20),
    "called by map": (lambda s, x: x * sum(map(len, (s.rows, s.other))), 20),
    "two of one": (lambda s, x: x * len(s.rows) - len(s.memory) * 2 + (len(s.rows) > 4), 4),
}  # fmt: skip


@each("name", PROGRAMS)
def test_as_eager_mode(name):
    program, recordings = PROGRAMS[name]
    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        state = _state()
        random.seed(3)
        step = wrap(lambda x, s=state: program(s, x))
        seen.append([])
        for k in range(18):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = step(X)
            seen[-1].append((repr(made), repr(state.rows), repr(state.other)))
            _fill(state, k)
    for k, (found, expected) in enumerate(zip(seen[1], seen[0], strict=True)):
        assert found == expected, f"{name}, call {k}"
    assert sum(r.outcome == "recorded" for r in step.retraces) < recordings, f"{name}: {step.retraces}"
