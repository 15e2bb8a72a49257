"""Lists, tuples, deques, dicts and floats outside that change between calls are read at each call."""

from __future__ import annotations

import collections
import json
import math
import types
import typing
import warnings

import numpy as np
import pytest

import jtorch
from tests.each import each

GAMMA = 0.5


def _returns(s, x):
    total, found = x.sum() * 0, []
    for r in s.rewards[::-1]:
        total = r + GAMMA * total
        found.append(total.item())
    return jtorch.tensor(found) + x.sum()


def _of_tuples(s, x):
    loss = x.sum()
    for state, action, reward, done in s.data:
        loss = loss + (jtorch.tensor(state) * x).sum() * reward * (0.0 if done else 1.0) + action
    return loss


def _data(k):
    rows = [(np.array([k, j], np.float32), k + j, 0.5 * k - j, False) for j in range(3)]
    return [*rows[:-1], (*rows[-1][:-1], True)]


PROGRAMS = {  # what is set before call k, the program, how many recordings there may be
    "returns": (lambda s, k: setattr(s, "rewards", [k * 0.5, -1.0, k]), _returns, 2),
    "a tensor of floats": (
        lambda s, k: setattr(s, "rewards", [float(k), -0.0]), lambda s, x: jtorch.tensor(s.rewards) / x, 2,
    ),
    "a tensor of integers": (
        lambda s, k: setattr(s, "actions", [[k], [2 - k]]),
        lambda s, x: (jtorch.tensor(s.actions), x), 2,
    ),
    "gathered": (
        lambda s, k: setattr(s, "actions", [[k % 2], [1]]),
        lambda s, x: x.view(1, 2).expand(2, 2).gather(1, jtorch.tensor(s.actions)), 2,
    ),
    "tuples with arrays": (lambda s, k: setattr(s, "data", _data(k)), _of_tuples, 2),
    "a deque": (
        lambda s, k: setattr(s, "d", collections.deque([k * 1.5, k], 2)),
        lambda s, x: (x * s.d[0] + s.d[-1], s.d.maxlen), 2,
    ),
    "refilled": (
        lambda s, k: s.kept.__setitem__(slice(None), [k * 1.5, 2.0]), lambda s, x: x * sum(s.kept), 2,
    ),
    "one entry": (lambda s, k: s.kept.__setitem__(0, k * 1.5), lambda s, x: x * s.kept[0], 2),
    "a value of a dict": (lambda s, k: s.table.update(rate=k * 1.5), lambda s, x: x * s.table["rate"], 2),
    "another dict": (
        lambda s, k: setattr(s, "table", {"rate": k * 1.5, "n": k}),
        lambda s, x: x * s.table["rate"] + s.table["n"], 2,
    ),
    "a float": (lambda s, k: setattr(s, "rate", k * 1.5), lambda s, x: x * s.rate, 2),
    "nan and zeros": (
        lambda s, k: setattr(s, "rate", [0.0, -0.0, math.nan, math.inf, 1.0][k]),
        lambda s, x: (x / s.rate if s.rate == s.rate else x), 5,
    ),
    "compared": (
        lambda s, k: setattr(s, "rewards", [k - 2.5, 1.0]),
        lambda s, x: sum(x * r if r > 0 else x for r in s.rewards), 3,
    ),
    "empty": (lambda s, k: setattr(s, "rewards", []), lambda s, x: x * len(s.rewards), 2),
    "flags": (lambda s, k: setattr(s, "rewards", [True, "a"]), lambda s, x: x * s.rewards[0], 2),
    "integers that decide": (
        lambda s, k: setattr(s, "sizes", (k + 1, 2)), lambda s, x: jtorch.ones(s.sizes) * x, 5,
    ),
    "integers compared": (
        lambda s, k: setattr(s, "sizes", [k % 2, 2]), lambda s, x: x if s.sizes[0] == 1 else -x, 3,
    ),
    "texts": (lambda s, k: setattr(s, "rewards", [k * 0.5]), lambda s, x: (x, json.dumps(s.rewards)), 5),
    "arrays of them": (
        lambda s, k: setattr(s, "rewards", [k * 0.5, k]), lambda s, x: x * float(np.mean(s.rewards)), 5,
    ),
    "lengths": (lambda s, k: setattr(s, "rewards", [1.0] * k), lambda s, x: x * sum(s.rewards), 5),
    "kinds": (
        lambda s, k: setattr(s, "rewards", [[1, 1.0, True, None, 2.5][k], 2.0]),
        lambda s, x: (x, repr(s.rewards[0])), 5,
    ),
    "returned": (lambda s, k: setattr(s, "rewards", [k * 1.0]), lambda s, x: (s.rewards, x), 5),
    "kept": (
        lambda s, k: setattr(s, "rewards", [k * 1.0]), lambda s, x: setattr(s, "last", s.rewards) or x, 5,
    ),
    "asked which it is": (
        lambda s, k: setattr(s, "other", s.rewards) or setattr(s, "rewards", [k * 1.0]),
        lambda s, x: x * (1 if s.rewards is s.other else 2) * s.rewards[0], 5,
    ),
    "the same list twice": (
        lambda s, k: setattr(s, "rewards", [k * 1.0]) or setattr(s, "other", s.rewards),
        lambda s, x: s.other.append(x.sum().item()) or x * len(s.rewards), 5,
    ),
    "now the same list": (
        lambda s, k: setattr(s, "rewards", [k * 1.0]) or setattr(s, "other", s.rewards if k > 2 else [0.0]),
        lambda s, x: s.other.append(x.sum().item()) or x * s.rewards[-1], 5,
    ),
    "appended to": (
        lambda s, k: setattr(s, "rewards", [k * 1.0]),
        lambda s, x: s.rewards.append(x.sum().item()) or x, 5,
    ),
    "emptied for the next": (
        lambda s, k: s.rewards.extend([k * 1.0, 2.0]),
        lambda s, x: (_returns(s, x), setattr(s, "rewards", []))[0], 2,
    ),
    "handed to a disabled function": (
        lambda s, k: setattr(s, "rewards", [k * 1.0]), lambda s, x: _appends(s.rewards) or x * 2, 5,
    ),
}  # fmt: skip


LOUD = ("the same list twice", "now the same list", "handed to a disabled function")  # as they were before


@jtorch.compiler.disable
def _appends(rewards):
    rewards.append(3.0)


def _state(cls):
    state = cls()
    state.rewards, state.kept, state.table, state.other = [], [1.0, 2.0], {"rate": 1.0}, None
    return state


@pytest.mark.slow
@each("name", PROGRAMS)
def test_what_changes_between_calls(name):
    change, program, recordings = PROGRAMS[name]
    for cls in (types.SimpleNamespace, jtorch.nn.Module):
        seen = []
        for wrap in (lambda f: f, lambda f: jtorch.compile(f, mode="interpret")):
            state = _state(cls)
            function = wrap(lambda x, s=state: program(s, x))
            seen.append([])
            for k in range(5):
                change(state, k)
                try:
                    made = function(jtorch.tensor([1.0, 2.0]))
                except jtorch.errors.CompileError as error:
                    assert name in LOUD and __file__ in str(error), f"{name}: {error}"
                    break
                facts = {key: repr(v) for key, v in vars(state).items() if not key.startswith("_")}
                same = [a is b for a in _lists(made) for b in (state.rewards, state.other)]
                seen[-1].append((repr(made), facts, same))
        assert seen[0][: len(seen[1])] == seen[1], f"{name} of a {cls.__name__}"
        assert len(function.retraces) < recordings, f"{name} of a {cls.__name__}: {function.retraces}"


def _lists(made):
    return [part for part in made if isinstance(part, list)] if isinstance(made, tuple) else []


def test_kernels_and_gradients_of_numbers_in_a_list():
    state = types.SimpleNamespace()

    def step(x):
        x = x.clone().requires_grad_()
        loss = sum((x**k * w).sum() for k, w in zip(state.powers, state.weights, strict=True))
        loss.backward()
        return x.grad

    compiled = jtorch.compile(step, verify="first")
    for k in range(4):
        state.powers, state.weights = [2.0 + k, 1.0], collections.deque([0.5 * k, -1.0])
        x = jtorch.tensor([1.0, 3.0])
        assert jtorch.allclose(compiled(x), step(x))
    assert len(compiled.retraces) == 1


def test_a_backward_outside_through_tensors_in_a_list():
    state = types.SimpleNamespace()
    compiled = jtorch.compile(lambda x: sum(x * w * t for w, t in state.pairs))
    for k in range(4):
        state.pairs = [(k + 0.5, jtorch.tensor([1.0, k])), (2.0, jtorch.ones(2))]
        x = jtorch.ones(2, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [k + 2.5, (k + 0.5) * k + 2.0]
    assert len(compiled.retraces) == 1


def test_a_variable_of_an_enclosing_function_that_changes():
    rate = 1.0
    compiled = jtorch.compile(lambda x: x * rate * GAMMA)
    for rate in (1.0, 2.0, 3.0, 4.0):
        assert compiled(jtorch.ones(1)).item() == rate * GAMMA
    assert len(compiled.retraces) == 1


def _carried(kind):
    cell = jtorch.nn.LSTMCell(3, 4)
    state = types.SimpleNamespace()

    def step(x):
        state.hidden = kind(t.detach() for t in state.hidden)
        state.hidden = kind(cell(x, tuple(state.hidden)))
        loss = state.hidden[0].sum()
        loss.backward()
        return loss.detach()

    return cell, state, step


@each("kind", [tuple, list])
def test_the_state_of_a_recurrent_network_in_an_attribute(kind):
    """What the function itself puts there are arguments: two plans, with a graph and without one."""
    cell, state, step = _carried(kind)
    compiled = jtorch.compile(step, fullgraph=True)
    found = []
    for run in (step, compiled):
        jtorch.manual_seed(0)
        cell.zero_grad()
        state.hidden = kind([jtorch.zeros(2, 4), jtorch.zeros(2, 4)])
        losses = [run(jtorch.randn(2, 3)).item() for _ in range(6)]
        found.append([*losses, *state.hidden[0].flatten().tolist(), *cell.weight_hh.grad.flatten().tolist()])
        assert type(state.hidden) is kind and state.hidden[0].requires_grad
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-6)
    assert len(compiled.retraces) == 1


def test_an_integer_that_somebody_counts_outside():
    state = types.SimpleNamespace(step=5)
    compiled = jtorch.compile(lambda x: (x * state.step, state.step * 0.5, 0.9**state.step), fullgraph=True)
    for k in range(6):
        found = compiled(jtorch.ones(1))
        assert (found[0].item(), found[1]) == (state.step, state.step * 0.5) and found[2] == 0.9**state.step
        state.step += k + 1
    assert len(compiled.retraces) == 1


def test_an_integer_outside_that_is_a_size_is_recorded_for_each():
    state = types.SimpleNamespace(n=2)
    compiled = jtorch.compile(lambda x: x[: state.n] * state.n, fullgraph=True)
    for n in (2, 3, 2, 4, 3):
        state.n = n
        assert compiled(jtorch.ones(5)).tolist() == [n] * n
    assert len(compiled.retraces) == 2


def test_a_list_that_does_not_change_is_guarded_as_before():
    state = types.SimpleNamespace(rewards=[1.0, 2.0])
    compiled = jtorch.compile(lambda x: x * sum(state.rewards))
    compiled(jtorch.ones(1))
    (plan,) = next(iter(compiled.plans.values()))
    assert not plan.capture.opened
    assert not plan.capture.counted


def test_what_is_asked_of_such_a_plan():
    state = types.SimpleNamespace(rewards=[1.0, 2.0])
    compiled = jtorch.compile(lambda x: x * sum(state.rewards))
    x = jtorch.ones(1)
    for k in range(3):
        state.rewards = [k + 1.0, 2.0]
        compiled(x)
    assert "mul" in str(compiled.graph())
    assert str(compiled.explain(x))
    assert str(compiled.stats(x))
    state.rewards = [1.0]
    assert compiled(jtorch.ones(1)).item() == 1.0
    assert "rewards" in str(compiled.retraces)


def test_what_a_backward_outside_reads_is_guarded():
    state = types.SimpleNamespace(rate=1.0)

    class Scaled(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * state.rate

    compiled = jtorch.compile(Scaled.apply)
    for k in range(4):
        state.rate = k + 0.5
        x = jtorch.ones(1, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.item() == k + 0.5


def test_what_a_disabled_function_may_change_is_guarded():
    state = types.SimpleNamespace(rewards=[1.0])

    @jtorch.compiler.disable
    def push(k):
        if k > 2:
            state.rewards.append(5.0)

    def f(x, k):
        push(k)
        return x * len(state.rewards)

    compiled = jtorch.compile(f)
    for k in range(3):
        state.rewards = [k * 1.0]
        assert compiled(jtorch.ones(1), k).item() == 1.0
    assert not any(plan.capture.opened for plans in compiled.plans.values() for plan in plans)


def test_shapes_of_arrays_and_slots():
    class Slotted:
        __slots__ = ("rewards",)

    state = Slotted()
    array = np.zeros((2, 3))
    compiled = jtorch.compile(lambda x: x * sum(state.rewards) + array.shape[1])
    for k in range(3):
        state.rewards = [0.5 * k, 1.0]
        array.resize((3, 2) if k % 2 else (2, 3), refcheck=False)
        assert compiled(jtorch.ones(1)).item() == 0.5 * k + 1.0 + array.shape[1]


@pytest.mark.parametrize("kind", ["deque", "list"])
def test_the_latest_of_a_buffer_that_fills_is_one_plan(kind):
    """As ACER's update on the rollout that was just put there."""

    def run(wrap):
        memory = types.SimpleNamespace(buffer=collections.deque(maxlen=5) if kind == "deque" else [])

        def latest():
            return memory.buffer[-1]

        def step(x):
            states, total = [], 0.0
            for state, action, reward, done in latest():
                states.append(state)
                total = total + reward * (0.0 if done else 1.0) + action
            return (jtorch.tensor(states) * x).sum() + total

        step, told = wrap(step), []
        for k in range(9):  # from the sixth on the first ones go
            memory.buffer.append(_data(k))
            told.append(step(jtorch.ones(2)).item())
            told.append(step(jtorch.full((2,), 2.0)).item())
        memory.buffer.append(7.0)
        told.append(repr(_raised(step, jtorch.ones(2))))
        memory.buffer.clear()
        told.append(repr(_raised(step, jtorch.ones(2))))
        return told, step

    (found, compiled), (expected, _) = run(jtorch.compile(fullgraph=False)), run(lambda f: f)
    assert found == expected
    assert sum(r.outcome == "recorded" for r in compiled.retraces) <= 2


def _raised(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


def test_what_a_function_does_to_a_buffer_of_which_it_reads_one_entry():
    def moved(s, x):
        s.d.appendleft(s.d[-1] * 2.0)
        return x * s.d[0]

    def popped(s, x):
        s.d.append(s.d[0] + 1.0)
        return x * s.d.popleft()

    def written(s, x):
        s.d[-1] = s.d[-1] + 0.5
        return x * s.d[-1]

    def both(s, x):
        return x * s.d[0] + s.d[-len(s.d)] + len(s.d)

    for program in (moved, popped, written, both):

        def run(wrap, program=program):
            state = types.SimpleNamespace(d=collections.deque([1.0, 2.0, 3.0], 4))
            step, told = wrap(lambda x: program(state, x)), []
            for k in range(6):
                if k % 2:
                    state.d.append(k * 1.5)
                if k == 4:
                    state.d.rotate()
                told.append(step(jtorch.ones(1)).item())
            return told, list(state.d)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f), program.__name__


class _Table:
    entries: typing.ClassVar = {"a": 1.0, "b": 2.0}


_READ = {
    "an entry and each key": lambda x: (x * _Table.entries["a"], [_Table.entries[k] for k in _Table.entries]),
    "an entry and the keys": lambda x: (x * _Table.entries["a"], list(_Table.entries)),
    "an entry and the values": lambda x: (x * _Table.entries["a"], list(_Table.entries.values())),
}


@each("read", list(_READ.values()), ids=list(_READ))
def test_a_table_of_a_class_whose_entry_moves_and_that_is_read_in_whole(read):
    step = jtorch.compile(read, fullgraph=True)
    for k in range(4):
        _Table.entries["a"] = 1.0 + k
        found, expected = step(jtorch.ones(1)), read(jtorch.ones(1))
        assert found[0].item() == expected[0].item() == 1.0 + k
        assert found[1] == expected[1]
