"""The memory plan: what runs when, what is written over what, and that no two live values share bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.codegen.source import emit
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.plan.fuse import Style
from jtorch.compile.plan.loops import Gather, Load
from jtorch.compile.plan.plan import Place, Plan, Task, Where
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
            _assert_overwritten_late(plan.tasks[b[2]].nest, a[4], b[4])
            assert plan.tasks[b[2]].reads.isdisjoint(parts.get(a[4], [])), f"{b} overwrites a part"


def _assert_overwritten_late(nest, *pair):
    """One of two variables of a loop is written over the other: for each position after all that is read
    there, in the one pass that reads nothing else of it afterwards."""
    first, second = pair
    stores = {s.var: s for s in nest.stores}
    if second not in stores or (first in stores and stores[first].value.stage > stores[second].value.stage):
        first, second = second, first
    store, kept = stores[second], stores.get(first)
    assert nest.style in (Style.MAP, Style.ROW) and store.level == 2
    assert (first.dtype, first.type.size) == (second.dtype, second.type.size)
    assert nest.style is Style.MAP or store.value.stage == nest.last_stage
    if kept is not None:
        assert kept.at == store.at and kept.value.stage < store.value.stage
    for value in nest.values():
        assert not (isinstance(value, Gather) and value.var is first)
        assert not (isinstance(value, Load) and value.var is first) or value.at == store.at


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


def _of_other_dtypes(x, w):
    h, ids = x @ w, jtorch.argsort(x, 1)
    half = (h.reshape(-1)[:12].double() * 2).reshape(3, 4) @ jtorch.ones(4, 4, dtype=jtorch.float64)
    ranks = F.layer_norm((ids + 1).double(), (8,)) @ jtorch.ones(8, 2, dtype=jtorch.float64)
    scores = jtorch.cumsum((F.softmax(h, 1) * 255).to(jtorch.int32), 1)
    rounded = jtorch.sort((h * 10).to(jtorch.int32), 1)[0]
    counts = (jtorch.cumsum((h > 0).long(), 1).double() / 8) @ jtorch.ones(8, 2, dtype=jtorch.float64)
    shares = jtorch.cumsum((F.softmax(x.double(), 1) * 100).long(), 1)
    return half, ranks, scores, rounded, counts, shares


@pytest.mark.parametrize("k", range(6))
def test_nothing_is_written_over_another_dtype(k):
    leaves = [floats(3, 8), floats(8, 8, seed=1)]
    assert_sound(plan_of(lambda *a: _of_other_dtypes(*a)[k], *leaves))
    with jtorch.no_grad():
        assert_chain(lambda *a: _of_other_dtypes(*a)[k], leaves)


def _stacked_states(x, w):
    states = [x.tanh()]
    for _ in range(3):
        states.append((states[-1] @ w).tanh())
    both = jtorch.stack(states)
    return (both * (both.reshape(-1, 4) @ w).sum() + states[3] - states[1].flip(1)) @ w


STACKED = {
    "and a part": lambda x, w: (
        ((s := jtorch.stack([a := x.exp(), x.sin()])) * (s.reshape(-1, 4) @ w).sum() + a) @ w
    ),
    "and a product": lambda x, w: (
        ((s := jtorch.cat([x @ w, b := w @ w])) * (s @ w).sum() + b.flip(0).sum(0)) @ w
    ),
    "states": _stacked_states,
}


@pytest.mark.parametrize("name", STACKED)
def test_a_whole_is_not_written_over_where_a_part_is_read(name):
    leaves = [floats(4, 4), floats(4, 4, seed=1)]
    assert_sound(plan_of(STACKED[name], *leaves))
    with jtorch.no_grad():
        assert_chain(STACKED[name], leaves)


ONE_ROW = {
    "the first row": lambda x, w: (x @ w)[0] * 2 @ w,
    "a slice of all": lambda x, w: (jtorch.cumsum(x, 0)[:1] * 2) @ w,
    "all": lambda x, w: (jtorch.cumsum(x, 0) * 2) @ w,
}


@pytest.mark.parametrize("name", ONE_ROW)
def test_a_size_of_one_does_not_decide_what_is_written_over(name):
    found = {"\n".join(emit(plan_of(ONE_ROW[name], floats(n, 8), floats(8, 8))).texts()) for n in (1, 2, 5)}
    assert len(found) == 1


def _places_of(plan, name):
    """The places that the loop of this name reads and writes in the arena."""
    (task,) = [t for t in plan.tasks if t.name == name]
    places = [{plan.places[v] for v in variables} for variables in (task.reads, task.writes)]
    return [{p.at for p in found if p.kind is Where.ARENA} for found in places]


def test_a_loop_writes_over_what_it_reads_last():
    plan = plan_of(lambda x: (x @ x).exp() @ x, floats(8, 8))
    read, written = _places_of(plan, "map_exp")
    assert read == written


def test_a_row_writes_over_what_it_kept_for_itself():
    plan = plan_of(lambda x: F.softmax(x, 1) @ x, floats(8, 8))
    (task,) = [t for t in plan.tasks if t.name.startswith("row")]
    assert len(task.writes) == 2  # exp is kept for the second pass
    assert len({plan.places[v] for v in task.writes}) == 1


def test_gradients_do_not_wait_for_indices_that_are_checked_already():
    """The embedding's gradient is added up last of all, by indices that the forward pass has read."""
    table, w, ids = floats(5, 4, requires_grad=True), floats(4, 4, requires_grad=True), jtorch.tensor([1, 4])

    def program(table, w, ids):
        (table[ids] @ w).exp().sum().backward()

    plan = plan_of(program, table, w, ids)
    assert_sound(plan)
    (scatter,) = [k for k, t in enumerate(plan.tasks) if t.name.startswith("scatter")]
    assert [t.visible for t in plan.tasks[:scatter]].count(True) == 1  # the gradient of w
    assert plan.tasks[scatter].visible


def test_what_runs_in_the_background_has_the_time_of_all_that_is_hidden(monkeypatch):
    """The first visible write waits for it: see ``run/replay.py``."""

    def program(x, w, statistic):
        s = jtorch.sort(x @ w, 0)[0]
        statistic.mul_(0.9)
        return ((x @ w).exp() @ w).sum() + s.sum()

    leaves = floats(4, 4), floats(4, 4, seed=1), floats(4)
    first = [t.visible for t in plan_of(program, *leaves).tasks].index(True)
    monkeypatch.setattr(Task, "in_background", property(lambda task: task.name == "sort_order"))
    plan = plan_of(program, *leaves)
    assert [t.visible for t in plan.tasks] == [False] * (len(plan.tasks) - 1) + [True]
    assert first < len(plan.tasks) - 1


@pytest.mark.parametrize("other", [lambda i: i[:1], lambda i: i + 0, lambda i: i.flip(0)])
def test_gradients_wait_for_indices_that_are_not(other):
    table, small, w = floats(5, 4, requires_grad=True), floats(3, 4), floats(4, 4, requires_grad=True)

    def program(table, small, w, ids):
        (table[ids] @ w).exp().sum().backward()
        return small[other(ids)]

    plan = plan_of(program, table, small, w, jtorch.tensor([1, 2]))
    assert_sound(plan)
    first = min(k for k, t in enumerate(plan.tasks) if t.visible)
    assert first > max(k for k, t in enumerate(plan.tasks) if t.name.endswith("index") and t.can_fail)


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
