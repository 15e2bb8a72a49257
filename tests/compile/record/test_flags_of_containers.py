"""Bools in a list outside that is another one at each call: what a function may do with them."""

from __future__ import annotations

import json
import random
import warnings

import pytest

import jtorch


class Box:
    pass


def first(flags):
    return flags[0]


USES = {
    "chosen numbers": lambda x, d: x * sum(0.5 if flag else 2.0 for flag in d),
    "chosen integers": lambda x, d: x * sum(0 if flag else 1 for flag in d),
    "negated": lambda x, d: x * sum(1.0 if not flag else 0.0 for flag in d),
    "branches": lambda x, d: branches(x, d),
    "a tensor of them": lambda x, d: x * jtorch.tensor(d).sum() + jtorch.tensor([[float(f)] for f in d]).T,
    "a float tensor": lambda x, d: x + jtorch.tensor(d, dtype=jtorch.float32),
    "chosen, then a tensor": lambda x, d: x + jtorch.tensor([[0 if f else 1] for f in d], dtype=jtorch.float),
    "numbers": lambda x, d: x * (d[0] + 1) + d[1] * 2.5 - (d[2] + 0),
    "products": lambda x, d: x * (0.9 * (1 - d[0]) + 0.1 * d[1] * d[2]),
    "sum": lambda x, d: x * sum(d),
    "any and all": lambda x, d: x * (3.0 if any(d) else 1.0) + (1.0 if all(d) else 0.0),
    "and, or": lambda x, d: x * (2.0 if d[0] and d[1] else 3.0 if d[2] or d[0] else 4.0),
    "bits": lambda x, d: x * float((d[0] & d[1]) | (d[2] ^ d[0])),
    "is": lambda x, d: x * (2 if d[0] is True else 3),
    "equal": lambda x, d: x * (2 if d[0] == d[1] else 3) * (1 if d[2] == 1 else 5),
    "kinds": lambda x, d: x * isinstance(d[0], bool) * (type(d[1]) is bool),
    "text": lambda x, d: x * len(str(d[0])) * len(f"{d[1]}") * len(json.dumps(d[2])),
    "a key": lambda x, d: x * {True: 2.0, False: 3.0}[d[0]],
    "an index": lambda x, d: x[d[0]] * (5.0, 7.0)[d[1]],
    "a mask": lambda x, d: x[jtorch.tensor(d)].sum(),
    "where": lambda x, d: jtorch.where(jtorch.tensor(d[:3]), x, -x),
    "int, float, bool": lambda x, d: x * int(d[0]) + float(d[1]) + bool(d[2]),
    "compared": lambda x, d: x * (1.0 if d[0] < d[1] else 2.0) + max(d[0], d[2]),
    "sorted": lambda x, d: x * (1 + sorted(d)[1]) + d.index(True) if True in d else x,
    "count": lambda x, d: x * d.count(True),
    "handed on": lambda x, d: x * (1 + first(d)),
    "returned": lambda x, d: (x * 2, d[0], [not d[1]]),
    "kept": lambda x, d: kept(x, d),
    "while": lambda x, d: waited(x, d),
}  # fmt: skip


def branches(x, d):
    for k, flag in enumerate(d):
        if flag:
            x = x * (k + 2)
        else:
            x = x - k
    return x


def kept(x, d):
    out = Box()
    out.flag = d[0]
    return x * (2.0 if out.flag else 3.0) + (out.flag + 0)


def waited(x, d):
    k = 0
    while k < len(d) and not d[k]:
        k += 1
    return x * k


def plain(found):
    if isinstance(found, (tuple, list)):
        return [plain(part) for part in found]
    return (str(found.dtype), found.tolist()) if isinstance(found, jtorch.Tensor) else (type(found), found)


@pytest.mark.parametrize("form", ["list", "tuples"])
@pytest.mark.parametrize("name", USES)
def test_the_same_as_eagerly(name, form):
    use, box, random_ = USES[name], Box(), random.Random(name)
    x = jtorch.tensor([1.0, 2.0, 3.0])

    def function(x):
        flags = list(box.flags) if form == "list" else [flag for _, flag in box.flags]
        return use(x, flags)

    compiled = jtorch.compile(function, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            flags = [random_.random() < 0.5 for _ in range(3)]
            box.flags = flags if form == "list" else [(random_.random(), flag) for flag in flags]
            assert plain(compiled(x)) == plain(function(x))


def test_a_rollout_is_recorded_once_for_all_its_flags():
    """What minimalRL's PPO does with its transitions."""
    agent, random_ = Box(), random.Random(0)

    def update(x):
        rewards, masks = [], []
        for transition in agent.data:
            reward, done = transition
            mask = 0 if done else 1
            rewards.append([reward])
            masks.append([mask])
        agent.data = []
        r, m = jtorch.tensor(rewards), jtorch.tensor(masks, dtype=jtorch.float)
        return (x * r * m).sum()

    compiled, x = jtorch.compile(update, fullgraph=True), jtorch.ones(6, 1)
    for _ in range(20):
        data = [(random_.random(), random_.random() < 0.3) for _ in range(6)]
        agent.data = list(data)
        found = compiled(x).item()
        agent.data = list(data)
        assert found == pytest.approx(update(x).item(), rel=1e-6)  # a sum, in another order
    assert len(compiled.retraces) <= 1
