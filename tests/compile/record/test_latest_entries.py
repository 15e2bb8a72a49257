"""The latest entries of lists outside, also of those that the function has appended to."""

from __future__ import annotations

import collections
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch.errors import CompileError
from tests.each import each

X = jtorch.tensor([1.0, 2.0])


def _state():
    return types.SimpleNamespace(losses=[], rows=[], other=[3.0, 4.0], best=0.0)


def _average(s, x):
    s.losses.append((x * x).mean().item())
    return sum(s.losses[-4:]) / len(s.losses[-4:])


def _printed(s, x):
    loss = (x * x).mean()
    s.losses.append(loss.item())
    if len(s.losses) % 3 == 0:
        s.best = sum(s.losses[-3:]) / 3
    return loss * 1


def _trained(s, x):
    w = x.clone().requires_grad_()
    loss = (w * w).sum()
    loss.backward()
    s.losses.append(loss.item())
    change = s.losses[-1] - s.losses[-2] if len(s.losses) > 1 else 0.0
    return w.grad * change


def _several(s, x):
    s.losses.append(x.sum().item())
    s.losses.extend([1.5, x[0].item()])
    return s.losses[-1] * x + s.losses[-2] + s.losses[-3], sum(s.losses[-2:]), len(s.losses)


def _before_and_after(s, x):
    before = s.losses[-2:]
    s.losses.append(x.sum().item())
    return x * sum(before), s.losses[-1] + sum(s.losses[-3:]), not s.losses


def _tensors(s, x):
    s.rows.append(x * 2)
    return jtorch.stack(s.rows[-1:]), s.rows[-1] + 1


def _in_branches(s, x):
    s.losses.append(x.sum().item())
    if s.losses[-1] > 20.0:
        s.losses.append(-1.0)
    return x * s.losses[-1], len(s.losses)


def _refilled(s, x):
    s.losses.append(x.max().item())
    return sum(s.losses[-2:])


def _items(s, x):
    s.other[0] = 7.0
    s.other.append(x.sum().item())
    return x * sum(s.other[-2:])


def _two_names(s, x):
    losses = same = s.losses
    losses.append(x.sum().item())
    return same[-1], len(same), same is losses


PROGRAMS = {  # the program, how many calls it compiles at least, how many recordings it makes at most
    "an average": (_average, 15, 5), "printed": (_printed, 18, 4), "trained": (_trained, 18, 5),
    "several": (_several, 18, 2), "before and after": (_before_and_after, 16, 5),
    "tensors": (_tensors, 18, 2), "in branches": (_in_branches, 18, 4), "two names": (_two_names, 18, 2),
    "refilled": (_refilled, 15, 5), "items": (_items, 0, 18),
    "only read": (lambda s, x: (x * sum(s.losses[-3:]), len(s.losses[-3:])), 18, 7),
    "NumPy's mean": (lambda s, x: (s.losses.append(x.sum().item()), np.mean(s.losses[-5:]))[1] * x, 13, 5),
    "all of it": (lambda s, x: (s.losses.append(x.sum().item()), sum(s.losses))[1], 0, 4),
    "none": (lambda s, x: (s.losses.append(x.sum().item()), s.losses[-0:])[1], 0, 4),
    "the front": (lambda s, x: (s.losses.append(x.sum().item()), s.losses[0])[1], 0, 4),
    "too far": (lambda s, x: (s.losses.append(x.sum().item()), s.losses[-19:])[1], 0, 4),
}  # fmt: skip


@each("name", PROGRAMS)
def test_as_eager_mode(name):
    program, compiled, recordings = PROGRAMS[name]
    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        state = _state()
        step = wrap(lambda x, s=state: program(s, x))
        seen.append([])
        for k in range(18):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = step(X * k)
            seen[-1].append((repr(made), repr(state)))
            if name in ("only read", "before and after"):
                state.losses.append(k * 0.5)
            if name == "refilled" and k == 9:
                state.losses.clear()
    for k, (found, expected) in enumerate(zip(seen[1], seen[0], strict=True)):
        assert found == expected, f"{name}, call {k}"
    recorded = 1 + sum(r.outcome == "recorded" for r in step.retraces)
    assert step.calls >= compiled and recorded <= recordings, f"{name}: {step.calls}, {step.retraces}"


def test_a_list_that_gets_shorter_is_another_program():
    def program(x):
        losses.append(x.sum().item())
        return x * sum(losses[-3:])

    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        losses = [1.0, 2.0, 4.0]
        step, found = wrap(program), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(9):
                if k == 4:
                    del losses[1:]
                if k == 7:
                    losses[:] = [0.5, 0.25, -1.0]
                found.append((step(X * k).tolist(), list(losses)))
        seen.append(found)
    assert seen[0] == seen[1]


def test_what_a_disabled_function_may_have_appended_is_not_taken_for_known():
    losses = []

    @jtorch.compiler.disable
    def spoil(x):
        losses.append(float(len(losses)))

    def program(x):
        losses.append(x.sum().item())
        spoil(x)
        return x * losses[-1]

    with pytest.raises(CompileError, match="can reach the end of a list"):
        jtorch.compile(program)(X)
    step, seen = jtorch.compile(program, fullgraph=False), []
    losses.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(4):
            seen.append(step(X * k).tolist())
    assert losses == [0.0, 1.0, 3.0, 3.0, 6.0, 5.0, 9.0, 7.0]
    assert seen == [[0.0, 0.0], [3.0, 6.0], [10.0, 20.0], [21.0, 42.0]]


def _front_and_end(x, values):
    return x * values[0] * 10 + values[-1]


def _end_and_front(x, values):
    return x * values[-1] * 10 + values[0]


def _front_and_latest(x, values):
    return x * values[0] * 10 + sum(values[-2:])


def _front_and_appended(x, values):
    front = values[0]
    values.append(0.5)
    made = x * front * 10 + sum(values[-3:])
    values.append(len(values))
    return made + values[-4]


def _end_of_a_deque(x, values):
    return x * values[1] * 10 + values[-1] - values[-2]


@each("program", [_front_and_end, _end_and_front, _front_and_latest, _front_and_appended, _end_of_a_deque])
def test_an_entry_that_has_two_names_at_one_length(program):
    """The first is the latest, too, where there is one."""
    contents = [[1.0, 1.5], [2.0, 2.5], [3.0, 3.5], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 3.0, 5.0, 7.0],
                [2.0, 4.0], [6.0, 5.0, 4.0]]  # fmt: skip
    if program in (_front_and_end, _end_and_front):
        contents = [[1.0], [2.0], [3.0], *contents, [9.0]]
    kind = collections.deque if program is _end_of_a_deque else list
    seen = []
    for wrap in (lambda f: f, jtorch.compile(fullgraph=False)):
        values, found = kind(), []
        step = wrap(lambda x, values=values: program(x, values))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for content in contents:
                values.clear()
                values.extend(content)
                found.append((step(X).tolist(), list(values)))
        seen.append(found)
    assert seen[1] == seen[0]


def test_too_few_entries_are_told():
    losses = [1.0, 2.0]

    @jtorch.compile
    def program(x):
        losses.append(x.sum().item())
        return x * sum(losses[-4:])

    with pytest.raises(CompileError, match=r"latest 4 entries of a list .* fewer than 3 before .* as many"):
        program(X)
    assert losses == [1.0, 2.0]
    losses.append(4.0)
    assert [program(X).tolist() for _ in range(2)] == [[10.0, 20.0], [12.0, 24.0]]


def test_an_error_takes_back_what_was_appended():
    losses = [1.0, 2.0]

    def program(x):
        losses.append(x.sum().item())
        made = x * sum(losses[-2:])
        losses.remove(2.0)
        return made

    with pytest.raises(CompileError, match="changes the entries"):
        jtorch.compile(program)(X)
    assert losses == [1.0, 2.0]
