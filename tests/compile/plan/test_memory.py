"""The memory plan: what runs when, what is written over what, and that no two live values share bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.plan.in_place import candidates
from jtorch.compile.plan.memory import Place, Plan, Where
from jtorch.compile.run.targets import PYTHON
from tests.compile.chain import (
    arguments_of,
    assert_chain,
    destinations_of,
    execute,
    optimised,
    planned,
    trace,
)
from tests.compile.programs import Program, programs


def plan_of(function, *leaves) -> Plan:
    made = trace(function, leaves)
    return planned(finalise(optimised(made.graph)), destinations_of(made))


def floats(*shape, seed=0, requires_grad=False):
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return jtorch.from_numpy(values).requires_grad_(requires_grad)


def assert_sound(plan: Plan) -> None:
    """What must hold of every plan, whatever it computes."""
    turn = {t: k for k, t in enumerate(plan.tasks)}
    writer = {v: t for t in plan.tasks for v in t.writes}
    parts = _parts(plan)
    for task in plan.tasks:
        for var in task.reads:
            assert var in plan.places
            for part in parts.get(var, [var]):
                if part in writer:
                    assert turn[writer[part]] < turn[task], f"{var} is read before it is written"
    _assert_old_values_read_first(plan, turn, writer)
    _assert_nothing_shared(plan, turn, writer)
    last = max((turn[t] for t in _failing(plan)), default=-1)
    for task in plan.tasks:
        assert not task.visible or turn[task] > last, "a visible write before a step that can fail"


def _failing(plan) -> list:
    """The steps that can fail: those that check something which no step before them has checked."""
    checked: set = set()
    found = []
    for task in plan.tasks:
        if task.can_fail and not (task.checks and task.checks <= checked):
            found.append(task)
        checked |= task.checks
    return found


def _assert_old_values_read_first(plan, turn, writer):
    for k, old in enumerate(plan.fused.graph.inputs):
        new = [v for v, place in plan.places.items() if place == Place(Where.INPUT, k) and v is not old]
        assert len(new) <= 1
        for var in new:
            late = [t for t in plan.tasks if old in t.reads and turn[t] > turn[writer[var]]]
            assert not late, f"{old} is read after it was overwritten"


def _parts(plan) -> dict:
    """The variables that are made in parts, which fill them from end to end, and those parts."""
    found: dict = {}
    for var, part in plan.parts.items():
        assert part.whole not in plan.parts and plan.places[var].kind is Where.ARENA
        assert part.begin == sum(p.type.nbytes for p in found.get(part.whole, []))
        assert plan.places[var].at == plan.places[part.whole].at + part.begin
        found.setdefault(part.whole, []).append(var)
    for whole, parts in found.items():
        assert sum(p.type.nbytes for p in parts) == whole.type.nbytes
    return found


def _assert_nothing_shared(plan, turn, writer):
    spans = []
    parts = _parts(plan)
    for var, place in plan.places.items():
        if place.kind is Where.ARENA and var not in plan.parts:
            together = [var, *parts.get(var, [])]
            readers = [turn[t] for t in plan.tasks if not t.reads.isdisjoint(together)]
            born = [turn[writer[v]] for v in parts.get(var, [var])]
            assert place.at % 64 == 0
            assert place.at + var.type.nbytes <= plan.arena_bytes
            end = place.at + max(var.type.nbytes, 1)
            spans.append((place.at, end, min(born), max([*born, *readers]), var))
    for a, b in itertools.combinations(sorted(spans, key=lambda s: (s[2], s[3])), 2):
        in_memory = a[0] < b[1] and b[0] < a[1]
        in_time = b[2] <= a[3]
        if in_memory and in_time:  # then the loop that needs one for the last time writes the other over it
            assert a[:2] == b[:2] and a[3] == b[2], f"{a} and {b} share bytes while both live"
            pairs = list(candidates(plan.tasks[b[2]]))
            assert (b[4], a[4]) in pairs or (a[4], b[4]) in pairs, f"{b} overwrites what its loop needs"


@pytest.mark.slow
@given(programs(max_size=20, in_place=True))
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_plans_of_random_programs_are_sound(program: Program):
    with jtorch.no_grad():
        assert_sound(plan_of(program, *program.leaves()))


@pytest.mark.slow
@given(programs(max_size=12, grad=True))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_plans_of_random_gradients_are_sound(program: Program):
    assert_sound(plan_of(program.gradients, *program.leaves(requires_grad=True)))


def test_memory_is_used_again():
    def chain(x):
        for _ in range(20):
            x = (x @ x) * 0.1
        return x

    plan = plan_of(chain, floats(16, 16))
    assert_sound(plan)
    assert plan.arena_bytes <= 3 * 16 * 16 * 4


# -- in place ----------------------------------------------------------------------------------------------

IN_PLACE = {}


def in_place(*shapes):
    def register(function):
        IN_PLACE[function.__name__] = (function, shapes)
        return function

    return register


@in_place((4, 3), (4, 3))
def swap(p, q):
    old = p.clone()
    p.copy_(q)
    q.copy_(old)


@in_place((), ())
def swap_of_numbers(p, q):
    old = p * 1.5
    p.copy_(q)
    q.copy_(old)


@in_place((3,), (3,), (3,))
def rotation(p, q, r):
    old = p.clone()
    p.copy_(q)
    q.copy_(r)
    r.copy_(old)


@in_place((4, 3))
def read_after_update(p):
    before = (p * 2.0).sum()
    p.sub_(0.1 * p)
    return before, p.sum(), p @ p.t()


@in_place((4, 4))
def transposed_onto_itself(p):
    p.copy_(p.t() + 1.0)


@in_place((4, 4))
def reversed_onto_itself(p):
    p.copy_(p.flip(0))


@in_place((5,))
def shifted_onto_itself(p):
    p[1:] = p[:-1].clone()


@in_place((4, 6))
def rows_normed_onto_themselves(p):
    """The row is read in three passes; only the last may overwrite it."""
    p.copy_(F.softmax(p, -1))


@in_place((4, 6))
def columns_centred_onto_themselves(p):
    p.sub_(p.mean(0))


@in_place((4, 6), (6,))
def sums_onto_what_was_summed_with(p, q):
    q.copy_((p * q).sum(0))


@in_place((4, 6), (4,))
def row_sums_onto_a_factor_of_the_row(p, q):
    q.copy_((p * q.unsqueeze(1)).sum(1))


@in_place((4, 4))
def product_onto_a_factor(p):
    p.copy_(p @ p)


@in_place((4, 3), (3,))
def broadcast_of_what_is_overwritten(p, q):
    p.mul_(q)
    q.copy_(p[0])


@in_place((3, 4))
def through_views(p):
    row, column = p[1], p[:, 2]
    row.add_(1.0)
    column.mul_(2.0)
    return row.sum(), column.clone()


@in_place((4, 3), (4,))
def a_gather_onto_its_source(p, q):
    p.copy_(p[q.long().clamp(0, 3)])


@in_place((6, 3))
def a_gradient_step_and_a_second_forward(p):
    p.requires_grad_(True)
    loss = (jtorch.tanh(p) ** 2).sum()
    (g,) = jtorch.autograd.grad(loss, p)
    with jtorch.no_grad():
        p.sub_(g * 0.1)
    return jtorch.tanh(p).detach().clone(), g.detach().clone()


@pytest.mark.parametrize("name", IN_PLACE)
def test_programs_that_overwrite_what_they_read(name):
    function, shapes = IN_PLACE[name]

    def program(*tensors):
        outs = function(*tensors)
        return [o.clone() for o in (outs if isinstance(outs, tuple) else (outs,)) if o is not None]

    leaves = [floats(*s, seed=k) for k, s in enumerate(shapes)]
    assert_chain(program, leaves, exact=False)
    assert_sound(plan_of(program, *leaves))


def test_an_update_is_written_in_place():
    def program(p, g):
        p.sub_(g * 0.1)

    plan = plan_of(program, floats(4), floats(4, seed=1))
    assert len(plan.tasks) == 1
    assert plan.arena_bytes == 0


def test_an_update_of_what_is_still_read_is_copied_at_the_end():
    def program(p):
        p.copy_(p.flip(0))

    plan = plan_of(program, floats(4))
    assert [t.visible for t in plan.tasks] == [False, True]


def test_visible_writes_wait_for_checks():
    def program(p, table, ids):
        p.add_(1.0)
        return table[ids]

    plan = plan_of(program, floats(3), floats(5, seed=1), jtorch.tensor([1, 2]))
    assert_sound(plan)
    assert [(t.can_fail, t.visible) for t in plan.tasks][-2:] == [(True, False), (False, True)]


def test_an_update_that_a_check_depends_on_is_made_aside():
    """The new value decides the index: it cannot be in place before the check."""

    def program(p, table):
        p.add_(1.0)
        return table[p.long()]

    made = trace(program, [floats(3).abs(), floats(9, seed=1)])
    plan = planned(finalise(optimised(made.graph)), destinations_of(made))
    assert_sound(plan)
    found, written = execute(plan, PYTHON, arguments_of(made))
    assert found.shape == written.shape == (3,)
