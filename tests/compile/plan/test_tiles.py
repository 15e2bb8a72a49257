"""Runs of steps that threads go through tile by tile: which they are, and that tiles stay apart."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compile.graph.finalise import finalise
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan import footprints, memory, tiles
from jtorch.compile.plan.plan import Where
from jtorch.compile.run.targets import CPU, PYTHON
from jtorch.core import pieces, threads
from jtorch.native import contraction
from jtorch.nn import rnn
from tests.compile.chain import (
    Machine,
    arguments_of,
    assert_link,
    destinations_of,
    execute,
    links,
    optimised,
    planned,
    trace,
)
from tests.compile.plan.test_memory import assert_sound


def floats(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[-1])
    return jtorch.from_numpy(values.astype(np.float32))


def cells(x, w, u):
    """The states of a recurrence, batch first."""
    h, states = jtorch.zeros(x.shape[0], w.shape[0]), []
    for t in range(x.shape[1]):
        h = jtorch.tanh(x[:, t] @ u.t() + h @ w.t())
        states.append(h)
    return states


def gradients(function):
    """A loss of ``function`` with the gradients of all its arguments."""

    def run(*leaves):
        out = function(*leaves)
        outs = out if isinstance(out, (list, tuple)) else [out]
        values = jtorch.cat([o.reshape(-1) for o in outs])
        loss = (values * values).sum()
        return [loss, *jtorch.autograd.grad(loss, leaves)]

    return run


def by_time(x, w, u):
    """Time first, as nn.RNN has it, and results of all steps."""
    return jtorch.stack(cells(x.transpose(0, 1), w, u))


def gated(x, w, u):
    """Gates side by side in one product, taken apart and put together."""
    h = c = jtorch.zeros(x.shape[0], w.shape[1])
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] @ u.t() + h @ w.t()).chunk(4, 1)
        c = jtorch.sigmoid(f) * c + jtorch.sigmoid(i) * jtorch.tanh(g)
        h = jtorch.sigmoid(o) * jtorch.tanh(c)
    return h, c


def normalized(x, w, u):
    """Each step looks at all rows: there is nothing to cut."""
    h = jtorch.zeros(x.shape[0], w.shape[0])
    for t in range(x.shape[1]):
        h = jtorch.tanh(x[:, t] @ u.t() + h @ w.t())
        h = h - h.mean(0)
    return h


def turned_round(x, w, u):
    """The rows of one step are those of another one from the end."""
    h = jtorch.zeros(x.shape[0], w.shape[0])
    for t in range(x.shape[1]):
        h = jtorch.tanh(x[:, t] @ u.t() + h.flip(0) @ w.t())
    return h


def watched(x, w, u):
    """Products over all rows on the way, which others need later."""
    states = cells(x, w, u)
    return states[-1] @ sum(s.t() @ s for s in states[::2]), states[3]


ROWS = {"states": cells, "by time": by_time, "gates": gated, "watched": watched}
MIXED = {"mean of rows": normalized, "flipped": turned_round}


def leaves_of(name, batch=32, steps=12, inner=48, width=5):
    shape = (steps, batch, width) if name == "by time" else (batch, steps, width)
    rows = 4 * inner if name == "gates" else inner
    arrays = [floats(*shape), floats(rows, inner, seed=1), floats(rows, width, seed=2)]
    return [a.requires_grad_() for a in arrays]


def plan_of(function, leaves):
    made = trace(function, leaves)
    return planned(finalise(optimised(made.graph)), destinations_of(made)), made


def assert_apart(plan):
    """No tile writes what another one touches, by places in memory."""
    for run in plan.runs:
        met = [[], []]
        for task, parts in run.pieces.items():
            assert len(parts) == run.tiles and not task.visible and not task.can_fail
            for tile, piece in enumerate(parts):
                if task.nest is not None:
                    found = footprints.of_nest(task.nest)
                else:
                    x, y, product = product_of(task.step.eqns[0], plan.fused.find)
                    found = footprints.of_product(product, piece.axis, x, y, task.step.eqns[0].outputs[0])
                for footprint in found:
                    first, end = footprint.of(piece.range)
                    written, place = footprint.written, plan.places[footprint.var]
                    arena = place.kind is Where.ARENA
                    key = place.kind if arena else (place.kind, place.at)
                    begin = place.at if arena else 0
                    met[written].append((key, tile, begin + first, begin + end))
        for key, tile, first, end in met[True]:
            for other_key, other, start, stop in itertools.chain(*met):
                assert (key, tile) == (other_key, other) or key != other_key or end <= start or stop <= first


def assert_orders(plan):
    """Runs are in one piece, in the order in which their tasks run."""
    turn = {task: k for k, task in enumerate(plan.tasks)}
    for run in plan.runs:
        turns = [turn[task] for task in run.tasks]
        assert turns == list(range(turns[0], turns[0] + len(turns)))


def _none(order, _):
    return [step.task for step in order], []


def without_runs(monkeypatch, function, leaves):
    with monkeypatch.context() as patch:
        patch.setattr(memory, "runs_of", _none)
        plan, made = plan_of(function, leaves)
    assert len(plan.runs) == 0
    return plan, execute(plan, CPU, arguments_of(made))


@pytest.fixture(autouse=True)
def _cut_however_short(monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_TOTAL", 0)
    before = threads.count()
    yield
    threads.set_count(before)


@pytest.fixture(params=["our own products", "BLAS"])
def exact(request, monkeypatch):
    """Whether products have the same bits however their rows are cut: our own kernel's do. BLAS promises
    nothing: OpenBLAS's for AVX2 (Haswell) adds up 16 rows in another order than 32 of the same."""
    if request.param == "BLAS":
        return False
    for name in ("FLOPS", "ROWS", "COLUMNS", "INNER"):
        monkeypatch.setattr(contraction, f"_OWN_{name}", 0)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("grad", [False, True])
def test_a_recurrence_is_cut_into_tiles(name, grad, exact, monkeypatch):
    """Every number of threads gives the same bits: tiles follow from sizes alone. They are those of the same
    steps one after the other, too, where products are computed row by row."""
    function, leaves = (gradients(ROWS[name]) if grad else ROWS[name]), leaves_of(name)
    with jtorch.set_grad_enabled(grad):
        plan, made = plan_of(function, leaves)
        inside, steps = sum(len(run.pieces) for run in plan.runs), len(plan.tasks)
        assert inside > steps / 3
        assert_sound(plan)
        assert_apart(plan)
        assert_orders(plan)
        straight, expected = without_runs(monkeypatch, function, leaves)
        assert plan.arena_bytes <= 1.5 * straight.arena_bytes
        threads.set_count(1)
        alone = execute(plan, CPU, arguments_of(made))
        for a, b in zip(expected, alone, strict=True):
            if exact:
                np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * np.abs(a).max())
        for n in (2, 3, 7):
            threads.set_count(n)
            for a, b in zip(alone, execute(plan, CPU, arguments_of(made)), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", MIXED)
def test_steps_that_need_other_rows_are_not(name):
    with jtorch.no_grad():
        plan, _ = plan_of(MIXED[name], leaves_of(name))
    longest = max((len(run.pieces) for run in plan.runs), default=0)
    assert longest < 6
    assert_apart(plan)


@pytest.mark.parametrize("name", [*ROWS, *MIXED])
@pytest.mark.parametrize("batch", [20, pytest.param(33, marks=pytest.mark.slow)])
def test_every_link_gives_the_same(name, batch):
    function = gradients({**ROWS, **MIXED}[name])
    (_, expected), *others = links(function, leaves_of(name, batch=batch, steps=5))
    largest = [max(np.abs(a).max(), 1e-3) for a in expected]
    for link, found in others:
        scaled = [[a / n for a, n in zip(side, largest, strict=True)] for side in (expected, found)]
        assert_link(f"eager -> {link}", *scaled)


@pytest.mark.slow
def test_text_is_the_same_for_all_sizes():
    """Tiles are a matter of sizes: kernels must not be."""

    def texts(batch):
        with jtorch.enable_grad():
            plan, _ = plan_of(gradients(gated), leaves_of("gates", batch=batch))
        return set(CPU.emit(plan).texts()), len(plan.runs)

    (small, none), (large, some) = texts(3), texts(64)
    assert small == large and some and not none


def test_a_step_that_waits_comes_before_who_needs_it(monkeypatch):
    """The gradients of the weight are added up after all of the run, and given away."""
    with jtorch.enable_grad():
        plan, _ = plan_of(gradients(cells), leaves_of("states"))
    assert len(plan.runs) > 1
    turn = {task: k for k, task in enumerate(plan.tasks)}
    writer = {v: t for t in plan.tasks for v in t.writes}
    monkeypatch.setattr(memory, "runs_of", _none)
    straight = [t.step.eqns[0] for t in planned(plan.fused.graph).tasks]
    inside = {t.step.eqns[0] for t in plan.runs[1].tasks}
    begun = straight.index(plan.runs[1].tasks[0].step.eqns[0])
    between = [eqn for eqn in straight[begun : begun + len(inside)] if eqn not in inside]
    assert len(between) > 5
    for task in plan.tasks:
        assert all(turn[writer[v]] < turn[task] for v in task.reads if v in writer)


STEPS = (
    lambda a, b, w, u: a @ w,
    lambda a, b, w, u: a @ u.t(),
    lambda a, b, w, u: jtorch.tanh(a + b) * 0.5,
    lambda a, b, w, u: jtorch.cat([a[:, len(w) // 2 :], b[:, : len(w) // 2]], 1),
    lambda a, b, w, u: a * b - 0.5,
    lambda a, b, w, u: a - a.max(1, keepdim=True).values,
    lambda a, b, w, u: jtorch.softmax(a, 1),
    lambda a, b, w, u: (a.reshape(len(a), 2, len(w) // 2).transpose(1, 2) * 2).reshape(a.shape),
)
ACROSS = (  # of rows
    lambda a, b, w, u: a.flip(0) * 0.5,
    lambda a, b, w, u: a - b.mean(0),
    lambda a, b, w, u: a.roll(1, 0),
    lambda a, b, w, u: jtorch.cat([a[1:], b[:1]]),
    lambda a, b, w, u: (a @ b.t()) @ b * 0.1,
    lambda a, b, w, u: jtorch.cat([a, b])[::2],
)


class _Random:
    """A program of steps over rows, some of which look at others; in ``large`` ones more is worth cutting."""

    def __init__(self, seed, large=False):
        draw = np.random.default_rng(seed)
        batches, inner, across = (
            ([20, 48, 64, 96], [64], 0.06) if large else ([16, 20, 48, 64, 96], [32, 64], 0.12)
        )
        self.sizes = int(draw.choice(batches)), int(draw.choice(inner))
        self.steps = []
        for k in range(40):
            kinds = ACROSS if draw.random() < across else STEPS
            operands = [int(n) for n in draw.integers(0, min(k + 2, 4), 2)]
            self.steps.append((kinds[int(draw.integers(len(kinds)))], operands))

    def leaves(self):
        batch, inner = self.sizes
        arrays = [floats(batch, inner), floats(inner, inner, seed=1), floats(inner, inner, seed=2)]
        return [a.requires_grad_() for a in arrays]

    def __call__(self, x, w, u):
        values = [x, x * 2]
        for step, (a, b) in self.steps:
            values.append(step(values[-1 - a], values[-1 - b], w, u))
        return values[-1], values[-5].sum(0), values[len(values) // 2]


_SEEDS = (
    range(0, 5), pytest.param(range(5, 15), marks=pytest.mark.slow),
    pytest.param(range(15, 60), marks=pytest.mark.soak),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seeds", _SEEDS)
def test_random_rows(seeds, monkeypatch):
    cut = 0
    for seed in seeds:
        grad = bool(seed % 2)
        program = _Random(seed, large=len(seeds) > 10)
        leaves = program.leaves()
        function = gradients(program) if grad else program
        with jtorch.set_grad_enabled(grad):
            plan, made = plan_of(function, leaves)
            assert_sound(plan)
            assert_apart(plan)
            cut += sum(len(run.pieces) for run in plan.runs)
            _, expected = without_runs(monkeypatch, function, leaves)
            threads.set_count(1)
            alone = execute(plan, CPU, arguments_of(made))
            threads.set_count(2)
            for a, b, c in zip(expected, alone, execute(plan, CPU, arguments_of(made)), strict=True):
                np.testing.assert_array_equal(b, c, err_msg=f"seed {seed}")
                # BLAS adds up some products of fewer rows in another order
                largest = np.abs(a).max()
                np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4 * largest, err_msg=f"seed {seed}")
    assert cut > 5 * len(seeds)


def _tiles_meet(patch):
    patch.setattr(tiles._Growing, "_is_apart", lambda *a: True)


def _waiting_is_forgotten(patch):
    real = memory.runs_of
    patch.setattr(memory, "runs_of", lambda order, after: real(order, {t: set() for t in after}))


@pytest.mark.parametrize(
    ("slip", "program"), [(_tiles_meet, turned_round), (_waiting_is_forgotten, watched)],
    ids=["tiles meet", "waiting is forgotten"],
)  # fmt: skip
def test_a_slip_gives_other_numbers(slip, program, monkeypatch):
    """A test of the tests above: what is broken here, they find."""
    with jtorch.no_grad():
        leaves = leaves_of("states")
        _, expected = without_runs(monkeypatch, program, leaves)
        slip(monkeypatch)
        plan, made = plan_of(program, leaves)
        assert len(plan.runs) > 0
        found = execute(plan, CPU, arguments_of(made))
    assert any(not np.allclose(a, b, rtol=1e-3) for a, b in zip(expected, found, strict=True))


@pytest.fixture
def _step_by_step(monkeypatch):
    """A recording holds each step of a recurrent layer by itself, and not a loop."""
    monkeypatch.setattr(rnn, "EqualSteps", lambda rows, steps: (rows,) * steps)


@pytest.mark.slow
@pytest.mark.usefixtures("_step_by_step")
def test_layers_that_are_recurrent_have_runs():
    for layer in (nn.LSTM(16, 48), nn.GRU(16, 48), nn.RNN(16, 48, batch_first=True)):
        step = jtorch.compile(layer)
        x = jtorch.randn(32, 32, 16)
        found, expected = step(x)[0], layer(x)[0]
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert len(step._newest().program.plan.runs) > 0


@pytest.mark.usefixtures("_step_by_step")
def test_gradients_of_gates_go_by_tiles_too():
    """They are four parts side by side: a row of each is read within its own row alone."""
    layer, x = nn.LSTM(16, 48), jtorch.randn(20, 32, 16)

    @jtorch.compile
    def step(x):
        layer(x)[0].square().sum().backward()

    step(x)
    lengths = sorted(len(run.tasks) for run in step._newest().program.plan.runs)
    assert lengths[-2] >= 2 * 20, "forward, and backward"
    found = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    step.function(x)
    for grad, p in zip(found, layer.parameters(), strict=True):
        np.testing.assert_allclose(grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-4)


def rnn_cell(x, h):
    return (x + h).tanh()


def lstm_cell(x, h):
    i, f, o = (x + h).chunk(3, 1)
    return i.sigmoid() * o.tanh() + f.sigmoid()


def gru_cell(x, h):
    (ri, zi, ni), (rh, zh, nh) = x.chunk(3, 1), h.chunk(3, 1)
    return (ni + (ri + rh).sigmoid() * nh).tanh() * (zi + zh).sigmoid()


@pytest.mark.parametrize(("cell", "gates"), [(rnn_cell, 1), (lstm_cell, 3), (gru_cell, 3)])
def test_gradients_of_cells_with_biases_go_by_tiles_too(cell, gates):
    """Each step's share of a bias's gradient needs all rows, and its share of a weight's reads the state that
    the step's own kernel might write over: neither may stand between two steps."""
    inner, outer, x = nn.Linear(48, 48 * gates), nn.Linear(5, 48 * gates), jtorch.randn(32, 16, 5)

    def step(x):
        h = jtorch.zeros(x.shape[0], 48)
        for t in range(x.shape[1]):
            h = cell(outer(x[:, t]), inner(h))
        h.square().sum().backward()

    compiled = jtorch.compile(step, dynamic=False)
    compiled(x)
    plan = compiled._newest().program.plan
    assert sum(len(run.tasks) for run in plan.runs) >= 0.9 * len(plan.tasks) - 8
    parameters = [*inner.parameters(), *outer.parameters()]
    found = [p.grad.clone() for p in parameters]
    for p in parameters:
        p.grad = None
    step(x)
    for grad, p in zip(found, parameters, strict=True):
        np.testing.assert_allclose(grad.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_text_of_a_plan_runs_without_tiles():
    with jtorch.no_grad():
        plan, made = plan_of(cells, leaves_of("states"))
    assert len(plan.runs) > 0
    plain, tiled = (execute(plan, target, arguments_of(made)) for target in (PYTHON, CPU))
    for a, b in zip(plain, tiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def branches(x, padding, *weights):
    return jtorch.cat([jtorch.relu(nn.functional.conv2d(x, w, padding=padding)) for w in weights], 1)


@pytest.mark.parametrize(("size", "padding"), [(4, 1), (7, 0)])
def test_windows_that_overlap_are_in_no_run(size, padding):
    """A long sum over them may be computed with the factors exchanged, and with them what is cut."""
    leaves = floats(1, 256, size, size), padding, *(floats(32, 256, 3, 3, seed=k) for k in range(6))
    step = jtorch.compile(branches)
    with jtorch.no_grad():
        for n in (1, 2):
            threads.set_count(n)
            assert jtorch.allclose(step(*leaves), branches(*leaves), rtol=1e-4, atol=1e-4)


def test_products_that_set_their_library_s_threads_go_step_by_step():
    """SciPy's BLAS has one number of threads for the process: a kernel sets it, and afterwards back."""
    with jtorch.no_grad():
        plan, made = plan_of(cells, leaves_of("states"))
    runner = Machine(plan, CPU, arguments_of(made)).runner
    tasks = list(plan.tasks)
    assert len(list(runner.fit.groups(tasks))) < len(tasks)
    for task, (factors, call) in runner.fit._products.items():
        runner.fit._products[task] = factors, dataclasses.replace(call, threaded=(0,))
    assert list(runner.fit.groups(tasks)) == tasks


@pytest.mark.parametrize("batch", [8, 24])
def test_looking_for_runs_takes_time_in_proportion(batch, monkeypatch):
    """Steps that mix rows, and rows too few for two tiles: none is looked at more than some times."""
    looked, real = Counter(), tiles._Growing.takes

    def takes(run, step):
        looked[step.task] += 1
        return real(run, step)

    monkeypatch.setattr(tiles._Growing, "takes", takes)
    with jtorch.no_grad():
        plan, _ = plan_of(normalized, leaves_of("states", batch=batch, steps=100, inner=16))
    assert len(plan.tasks) > 200
    assert sum(looked.values()) < 40 * len(plan.tasks)
    assert batch >= 16 or not looked
