"""NumPy's numbers that are passed, lie outside or are drawn out of a buffer: read at each call."""

from __future__ import annotations

import collections
import random
import types

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.core.errors import CompileError
from jtorch.distributions import Normal

pytestmark = pytest.mark.filterwarnings("ignore::jtorch.errors.RetraceWarning")

VALUES = (1.5, 0.25, -2.0, 0.0, 3.0, float("nan"), 1.5)
CLASSES = (np.float64, np.float32, np.int64, np.int32)


def shown(value):
    """What tells one result from another: classes, dtypes and elements."""
    if isinstance(value, (tuple, list)):
        return type(value), [shown(v) for v in value]
    if isinstance(value, dict):
        return [(shown(key), shown(v)) for key, v in value.items()]
    elements = value.tolist() if isinstance(value, (jtorch.Tensor, np.ndarray, np.generic)) else value
    return type(value), getattr(value, "dtype", None), repr(elements)


def told(f, *arguments):
    try:
        return shown(f(*arguments))
    except Exception as error:
        return type(error)


def numbers(cls):
    return [cls(v) for v in VALUES if v == v or issubclass(cls, np.floating)]


COMPUTED = {
    "beside a tensor": lambda x, r: (x * r, r - x, x / r, r + x),
    "beside integers": lambda x, r: (x.long() + r, r * x.long()),
    "beside numbers": lambda x, r: (r * 2, 1 - r, r + 0.5, r * r, -r, abs(r), r > 1),
    "beside another": lambda x, r: (r + np.float32(0.1), r * np.int64(3)),
    "given back": lambda x, r: (r, [r, {"r": r}], r.dtype, r.shape, r.item()),
    "tensors of it": lambda x, r: (jtorch.tensor(r), jtorch.tensor([r, 2.0]), jtorch.as_tensor([[r]])),
    "arrays of it": lambda x, r: (np.array([r, 1.0]), x[:2] * jtorch.from_numpy(np.array([r, 1.0]))),
    "in place": lambda x, r: x.clone().mul_(r).add_(r),
    "as an option": lambda x, r: (x.add(x, alpha=r), F.leaky_relu(x, r), x.clamp(r)),
    "added up": lambda x, r: sum([r, r], 0.0) + x,
    "its class": lambda x, r: (isinstance(r, float), isinstance(r, np.floating), x + 1),
}
ASKED = {
    "float": lambda x, r: float(r) * x,
    "compared with a tensor": lambda x, r: (x > r, r <= x, r == x, x != r),
    "a text": lambda x, r: (f"{r:.2f}", x),
    "a key": lambda x, r: {r: x},
    "an index": lambda x, r: x[int(abs(r)) % 3 if r == r else 0],
    "max": lambda x, r: (max(r, 0.5), x * min(r, 1)),
    "a function of Python's": lambda x, r: x * (abs(float(r)) ** 0.5 + round(float(np.nan_to_num(r)))),
    "a function of NumPy's": lambda x, r: (np.isnan(r), np.nan_to_num(r) * x),
    "a branch": lambda x, r: x + 1 if r > 0.5 else x - 1,
    "a distribution": lambda x, r: Normal(0.0, abs(float(np.nan_to_num(r))) + 1.0).log_prob(x),
    "an element": lambda x, r: (F.pad(x, (1, 1), value=r), jtorch.full((2,), r), x.masked_fill(x > 0, r)),
    "what takes numbers alone": lambda x, r: Normal(r, 1.0).log_prob(x),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_one_that_is_computed_with_is_recorded_once(name):
    function, x = COMPUTED[name], jtorch.tensor([0.5, -1.25, 2.0])
    for cls in CLASSES:
        compiled = jtorch.compile(function, fullgraph=True)
        for r in numbers(cls):
            with np.errstate(all="ignore"):
                assert told(compiled, x, r) == told(function, x, r), (cls, r)
        assert len(compiled.retraces) == 0, cls


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_one_of_which_more_is_asked_is_known(name):
    function, x = ASKED[name], jtorch.tensor([0.5, -1.25, 2.0])
    for cls in CLASSES:
        compiled = jtorch.compile(function)
        for r in numbers(cls):
            assert told(compiled, x, r) == told(function, x, r), (cls, r)


def test_each_class_is_a_recording():
    others = [
        np.float64(0.5),
        np.float32(0.5),
        0.5,
        np.int64(1),
        1,
        True,
        np.True_,
        np.float16(0.5),
        np.uint8(3),
    ]
    compiled = jtorch.compile(lambda x, r: (r, x * r))
    x = jtorch.ones(2)
    for r in others * 2:
        assert shown(compiled(x, r)) == shown((r, x * r)), r


def test_an_index_of_numpys_gives_a_view():
    compiled = jtorch.compile(lambda x, k: x[k].add_(1))
    x = jtorch.zeros(3, 2)
    for k in (0, 1, 2, 1):
        compiled(x, np.int64(k))
    assert x.tolist() == [[1, 1], [2, 2], [1, 1]]


@pytest.mark.parametrize("cls", CLASSES)
def test_one_outside_that_somebody_replaces_is_recorded_twice(cls):
    agent = types.SimpleNamespace(scale=cls(1), seen=[cls(1), cls(2)])
    compiled = jtorch.compile(lambda x: (x * agent.scale, x * jtorch.tensor(agent.seen)), fullgraph=True)
    x = jtorch.ones(2)
    for k in range(6):
        agent.scale, agent.seen = cls(k / 2), [cls(k), cls(k * 3)]
        assert shown(compiled(x)) == shown((x * agent.scale, x * jtorch.tensor(agent.seen)))
    assert len(compiled.retraces) <= 2


def test_one_that_a_disabled_function_gets_runs_eagerly():
    note = jtorch.compiler.disable(lambda r: None)

    def f(x, r):
        note(r)
        return x * r

    compiled = jtorch.compile(f)
    for r in (np.float64(2.0), np.float64(3.0)):
        assert compiled(jtorch.ones(2), r).tolist() == [r, r]


class Buffer:
    """As minimalRL's: what the environment gives lies in tuples, its rewards numbers of NumPy's."""

    def __init__(self):
        self.buffer = collections.deque(maxlen=100)

    def fill(self, generator, n):
        for _ in range(n):
            state, after = generator.standard_normal((2, 3)).astype(np.float32)
            reward, flag = generator.random(), generator.random() < 0.2
            self.buffer.append((state, generator.integers(2), np.float64(reward), after, bool(flag)))

    def sample(self, n):
        states, actions, rewards, masks = [], [], [], []
        for state, action, reward, _, done in random.sample(self.buffer, n):
            states.append(state)
            actions.append([action])
            rewards.append([reward / 10.0])
            masks.append([0.0 if done else 1.0])
        return (
            jtorch.tensor(np.array(states)), jtorch.tensor(actions),
            jtorch.tensor(rewards, dtype=jtorch.float), jtorch.tensor(masks),
        )  # fmt: skip


def test_those_drawn_out_of_a_buffer():
    buffer, generator = Buffer(), np.random.default_rng(0)
    buffer.fill(generator, 20)
    model = jtorch.nn.Linear(3, 2)

    def loss_of():
        states, actions, rewards, masks = buffer.sample(8)
        chosen = model(states).gather(1, actions)
        return ((chosen - rewards * masks) ** 2).mean(), rewards

    compiled = jtorch.compile(loss_of, fullgraph=True)
    for k in range(5):
        random.seed(k)
        expected = loss_of()
        random.seed(k)
        found = compiled()
        assert found[1].tolist() == expected[1].tolist() and found[0].item() == expected[0].item()
        buffer.fill(generator, 1)
    assert len(compiled.retraces) <= 1


def test_a_branch_on_one_of_many_that_are_drawn_is_refused():
    pool = [np.float64(k) for k in range(10)]

    def f(x):
        return sum(x if r > 4 else -x for r in random.sample(pool, 4))

    with pytest.raises(CompileError, match="a branch on one of many elements"):
        jtorch.compile(f, fullgraph=True)(jtorch.ones(2))
