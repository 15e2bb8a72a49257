"""How many elements a mask names, asked while a function is compiled: one plan for any number of them."""

from __future__ import annotations

import gc
import threading
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.errors import CompileError


def randn(*shape):
    return jtorch.randn(*shape)


def assigned(x):
    y = x.clone()
    y[x > 0] = x[x > 0].sort().values
    return y


def asked(x):
    kept = x[x > 0]
    return x.sum() if kept.numel() == 0 else kept.mean() / kept.shape[0]


def two_levels(x):
    above = x[x > 0]
    high = above[above > above.mean()]
    low = high[high < 1.5]
    return high.sum(), above * 2, low.cumsum(0)


def mask_of(n, count):
    mask = jtorch.zeros(n, dtype=jtorch.bool)
    mask[jtorch.randperm(n)[:count]] = True
    return mask


def pairs_of_masks(k):
    """Two that name as many, and two others, which may name as many by chance."""
    i, j = 2 + k % 7, 2 + (3 * k) % 8
    return randn(10), mask_of(10, i), mask_of(10, i), mask_of(10, j), mask_of(10, j)


def of_a_part(x):
    kept = x[x[:, 0] > 0]
    return kept[kept[:, 1] > 0].sum()


def in_a_loop(x):
    total = x.sum() * 0
    for row in x:
        total = total + row[row > 0].sum()
    return total


# name -> (function, its arguments for call k, how many recordings 24 calls may take)
PROGRAMS = {
    "mean": (lambda x: x[x > 0].mean(), lambda k: (randn(20),), 1),
    "several dims": (lambda x: x[x > 0.3].sum(), lambda k: (randn(8, 9),), 1),
    "rows": (lambda x: x[x[:, 0] > 0], lambda k: (randn(30, 4),), 1),
    "rows of a part": (lambda x: x[1:, x[0] > 0] * 2, lambda k: (randn(5, 40),), 1),
    "beside an index": (lambda x: x[x[:, 0] > 0, 1], lambda k: (randn(30, 4),), 1),
    "losses that count": (
        lambda x, y: F.cross_entropy(x[y != -1], y[y != -1]),
        lambda k: (randn(40, 5), jtorch.randint(-1, 5, (40,))), 1,
    ),
    "nonzero": (lambda x: x.gt(0).nonzero() * 2, lambda k: (randn(7, 6),), 1),
    "nonzero of numbers": (lambda x: x.relu().nonzero(as_tuple=True)[0], lambda k: (randn(40),), 1),
    "argwhere": (lambda x: jtorch.argwhere(x > 0), lambda k: (randn(4, 5, 3),), 1),
    "where": (lambda x: x[jtorch.where(x > 0.5)].exp(), lambda k: (randn(9, 9),), 1),
    "masked_select": (lambda x: jtorch.masked_select(x, x[:1] > 0).cumsum(0), lambda k: (randn(3, 50),), 1),
    "masked_scatter": (
        lambda x, y: x.masked_scatter(x > 0, y) * 2, lambda k: (randn(6, 7), randn(60)), 1,
    ),
    "two masks": (lambda x: (x[x > 0].sum(), x[x < -0.5] * 2), lambda k: (randn(50),), 1),
    "masks that name as many": (
        lambda x, y: x[y > 0] * x[y.flip(0) > 0], lambda k: (randn(60), randn(60)), 1,
    ),
    "pairs that name as many": (
        lambda x, a, b, c, d: ((x[a] * x[b]).sum(), (x[c] * x[d]).sum()), pairs_of_masks, 1,
    ),
    "one that names as many as two": (
        lambda x, a, b, c: jtorch.cat([x[a], x[b]]) * x[c],
        lambda k: (randn(12), *(mask_of(12, n) for n in (2 + k % 3, 2 + k % 4, 4 + k % 3 + k % 4))), 2,
    ),
    "a gradient of masks of masks": (
        lambda x: jtorch.autograd.grad(of_a_part(z := x.detach().requires_grad_()), z)[0],
        lambda k: (randn(40, 3),), 1,
    ),
    "masks of masks": (two_levels, lambda k: (randn(80),), 2),
    "shape of it": (lambda x: x[x > 0] / x[x > 0].shape[0], lambda k: (randn(40),), 1),
    "reshaped": (lambda x: x[x > 0].reshape(-1, 1) @ x[:1].reshape(1, 1), lambda k: (randn(40),), 1),
    "made of it": (lambda x: jtorch.zeros(x[x > 0].shape[0], 2) + x[0], lambda k: (randn(40),), 1),
    "sorted": (lambda x: x[x > 0].sort(descending=True).values[:3], lambda k: (randn(60),), 1),
    "concatenated": (lambda x: jtorch.cat([x[x > 0], x[x <= 0]]), lambda k: (randn(40),), 1),
    "assigned": (assigned, lambda k: (randn(30),), 1),
    "put": (lambda x: x.index_put((x > 0,), x[x > 0] * 3), lambda k: (randn(30),), 1),
    "none, one and some": (lambda x: x[x > 1.2] * 2, lambda k: (randn(9),), 3),
    "asked for none": (asked, lambda k: (randn(3),), 3),
    "other sizes, too": (lambda x: x[x > 0].softmax(0), lambda k: (randn(20 + 3 * k),), 2),
    "a row at a time": (in_a_loop, lambda k: (randn(4, 30),), 1),
    "unique": (
        lambda x: jtorch.unique(x, return_inverse=True, return_counts=True),
        lambda k: (jtorch.randint(0, 40, (6, 5)),), 1,
    ),
    "unique floats": (lambda x: jtorch.unique((x * 3).round() / 0.0), lambda k: (randn(30),), 1),
    "unique consecutive": (
        lambda x: jtorch.unique_consecutive(x, return_inverse=True, return_counts=True),
        lambda k: (jtorch.randint(0, 3, (40,)),), 1,
    ),
    "unique in words": (lambda x: x.unique().shape[0] * x, lambda k: (jtorch.randint(0, 20, (30,)),), 1),
    "repeated": (
        lambda x, n: x.repeat_interleave(n, 0) * 2, lambda k: (randn(12, 3), jtorch.randint(0, 4, (12,))), 1,
    ),
    "repeated by one number": (
        lambda x, n: x.repeat_interleave(n, 0) * 2, lambda k: (randn(4, 3), jtorch.tensor([k + 2])), 1,
    ),
    "repeated by numbers alone": (
        lambda n: jtorch.repeat_interleave(n).flip(0), lambda k: (jtorch.randint(0, 5, (9,)),), 1,
    ),
    "drawn": (lambda x: F.dropout(x)[x > 0], lambda k: (randn(40),), 1),
    "of what is drawn": (lambda x: x[jtorch.rand(40) > 0.5], lambda k: (randn(40),), 1),
}  # fmt: skip


def flat(result):
    return result if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_elements_has_one_plan(name):
    function, arguments, recordings = PROGRAMS[name]
    compiled = jtorch.compile(function)
    for k in range(24):
        jtorch.manual_seed(k)
        given = arguments(k)
        found, expected = [], []
        for f, results in ((compiled, found), (function, expected)):
            jtorch.manual_seed(k + 100)
            results += flat(f(*given))
        for a, b in zip(found, expected, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), k
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6, err_msg=str(k))
    assert sum(map(len, compiled.plans.values())) <= recordings


def masked_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        keep = y >= 0
        loss = F.cross_entropy(model(x)[keep], y[keep])
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_training_on_what_a_mask_keeps():
    models = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    steps = [masked_step(m, jtorch.optim.Adam(m.parameters(), lr=0.01)) for m in models]
    compiled = jtorch.compile(steps[0])
    for k in range(20):
        x, y = randn(16, 4), jtorch.randint(-2, 3, (16,))
        y[:2] = 1
        np.testing.assert_allclose(compiled(x, y).item(), steps[1](x, y).item(), rtol=1e-4, err_msg=str(k))
    assert not compiled.retraces
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-3, atol=1e-5)


def test_backward_outside():
    layer = nn.Linear(4, 3)

    @jtorch.compile
    def kept(x):
        h = layer(x)
        return h[h > 0]

    for _ in range(6):
        x = randn(20, 4)
        grads = []
        for f in (kept, kept.function):
            layer.zero_grad()
            f(x).square().sum().backward()
            grads.append(layer.weight.grad.clone())
        np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), rtol=1e-4, atol=1e-5)
    assert not kept.retraces


def test_state_is_written_once_and_draws_are_eager_s():
    state, buffer = {"calls": 0, "last": None}, jtorch.zeros(40)

    @jtorch.compile
    def step(x):
        state["calls"] += 1
        buffer.add_(jtorch.rand(40))
        kept = x[x > 0]
        state["last"] = kept
        buffer[x > 0] = kept
        return kept.sum() + state["calls"]

    expected = jtorch.zeros(40)
    for k in range(10):
        x = randn(40)
        jtorch.manual_seed(k)
        found = step(x)
        after = jtorch.rand(3)
        jtorch.manual_seed(k)
        expected.add_(jtorch.rand(40))
        expected[x > 0] = x[x > 0]
        assert jtorch.equal(after, jtorch.rand(3)), "a call that begins again draws once"
        assert state["calls"] == k + 1 and jtorch.equal(state["last"], x[x > 0])
        assert jtorch.equal(buffer, expected)
        np.testing.assert_allclose(found.item(), x[x > 0].sum().item() + k + 1, rtol=1e-5)


def test_an_error_of_the_program_is_the_program_s():
    @jtorch.compile
    def first(x):
        kept = x[x > 0]
        if kept.shape[0] == 0:
            raise ValueError("nothing is left")
        return kept[0] * 2

    for values in ([1.0, -1.0], [-1.0, -2.0], [3.0, 4.0], [-1.0, -3.0]):
        x = jtorch.tensor(values)
        if max(values) < 0:
            with pytest.raises(ValueError, match="nothing is left"):
                first(x)
        else:
            assert first(x).item() == 2 * next(v for v in values if v > 0)


def test_threads_with_other_numbers():
    compiled = jtorch.compile(lambda x: x[x > 0].exp().sum())
    compiled(randn(50))
    wrong = []

    def many(seed):
        generator = np.random.default_rng(seed)
        for _ in range(40):
            x = jtorch.from_numpy(generator.normal(size=50).astype(np.float32))
            expected = float(np.exp(x.numpy()[x.numpy() > 0]).sum())
            if abs(compiled(x).item() - expected) > 1e-3 * abs(expected):
                wrong.append((seed, x))

    threads = [threading.Thread(target=many, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_what_it_cannot_follow_is_said_with_its_line():
    @jtorch.compiler.disable
    def outside(x):
        return x * 2

    def before(x):
        y = outside(x)
        return y[y > 0].sum()

    with pytest.raises(CompileError, match=r"test_counted_masks\.py:\d+"):
        jtorch.compile(before)(randn(5))


VERIFIED = {
    "a sum": lambda x: x[x > 0].sum(),
    "a bound": lambda x: x[x > 0][:4],
    "masks of masks": lambda x: (lambda a: (a * 2, a[a > 0.5]))(x[x > 0]),
}


@pytest.mark.parametrize("name", VERIFIED)
def test_calls_that_are_verified(name):
    compiled = jtorch.compile(VERIFIED[name], verify="every:1")
    for count in (5, 3, 0, 1, 7, 5, 4, 12):
        x = with_positives(count)
        for a, b in zip(flat(compiled(x)), flat(VERIFIED[name](x)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


@pytest.mark.slow
def test_answers_about_such_a_plan():
    compiled = jtorch.compile(lambda x: x[x > 0].exp().sum())
    for _ in range(3):
        compiled(randn(50))
    x = randn(50)
    assert "N0" in str(compiled.graph())
    assert "exp" in compiled.source()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ask in (compiled.explain, compiled.profile):
            assert str(ask(x))
    assert compiled.stats(with_positives(3, 50)).call_us > 0


def with_positives(count, n=12):
    x = -jtorch.rand(n) - 0.1
    x[jtorch.randperm(n)[:count]] = jtorch.rand(count) + 0.1
    return x


COINCIDENCES = {
    "a bound": lambda x: x[x > 0][:3],
    "all of them": lambda x: x + x[x > 0].sum(),
    "a mean of all": lambda x: jtorch.where(x > 0, x, x[x > 0].mean()),
    "all, and sorted": assigned,
    "twice": lambda x: (x[x > 0])[x[x > 0] > 0].sum(),
    "every other": lambda x: x[x > 0][::2].sum(),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x[x > 0] * 2),
    "put": lambda x: x.index_put((x > 0,), x[x > 0] * 2),
    "topk": lambda x: x[x > 0].topk(2).values,
}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", COINCIDENCES)
def test_numbers_that_are_those_of_another_size(name, backward):
    function = COINCIDENCES[name]

    def step(x):
        y = function(x)
        if backward:
            (y * y).sum().backward()
        return y

    compiled = jtorch.compile(step)
    for count in (5, 3, 12, 7, 6, 2, 12, 5, 4, 11, 3):
        x = with_positives(count)
        a, b = (x.clone().requires_grad_(backward) for _ in range(2))
        found, expected = compiled(a), step(b)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        if backward:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert sum(map(len, compiled.plans.values())) <= 5


def test_nothing_is_done_twice_where_instances_come_and_go():
    """Those that were dropped end in the middle of a call that begins again, and its runs are counted."""
    log, calls = [], 0
    before = gc.get_threshold()
    gc.set_threshold(200, 1, 1)
    try:
        for _ in range(8):
            total = jtorch.zeros(())

            @jtorch.compile
            def step(x, total=total):
                total.add_(1)
                log.append("in")
                third = x[x > 0][2]
                total.add_(third)
                log.append("out")
                return third

            for count in (5, 19, 3, 21, 3, 24, 3, 23, 7, 20):
                log.clear()
                step(with_positives(count, 24))
                calls += log == ["in", "out"]
            assert total._version == 20
    finally:
        gc.set_threshold(*before)
    assert calls == 80


def test_what_a_mask_names_has_a_name_of_its_own_in_the_call():
    """It had that of the node that stands for a broken graph: ``grad_fn`` was a number."""

    def step(b, x):
        y = b * x
        b.add_(x.detach())
        return y[y > 0.5].sum()

    for run in (step, jtorch.compile(step)):
        b, x = jtorch.ones(4, 3), jtorch.ones(4, 3, requires_grad=True)
        out = run(b, x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_as_many_elements_as_another_size_when_a_plan_is_looked_at_again():
    """A module's mode has moved, so the function is recorded again: the plan is not one for this count."""
    model = jtorch.nn.Linear(3, 3)

    def program(x):
        model(x[:3])
        doubled = jtorch.cat([x, x[:3]])
        return doubled * 2, doubled[doubled > 0].sum()

    compiled = jtorch.compile(program)
    for n in (4, 5, 3, 5, 1, 5):
        x = jtorch.where(jtorch.arange(5) >= 5 - n, 1.0, -1.0)
        for found, expected in zip(compiled(x), program(x), strict=True):
            assert found.tolist() == expected.tolist()
        model.train(not model.training)


@pytest.mark.parametrize("everywhere", [False, True])
def test_one_number_that_is_another_size_as_well_leaves_others_free(everywhere):
    """Of two masks one names as many elements as a size of the program, or all: the other has any number."""

    def step(x, y, first, second):
        total = x[first].sum()
        return (x if everywhere else y) + total, x[second].exp().cumsum(0)

    compiled = jtorch.compile(step, fullgraph=True)
    n, y = 20, randn(8)
    for k in range(12):
        x, alike = randn(n), (n if everywhere else len(y)) if k % 2 else 5 + k % 3
        found = mask_of(n, alike), mask_of(n, 9 + k % 10)
        for a, b in zip(compiled(x, y, *found), step(x, y, *found), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert sum(map(len, compiled.plans.values())) == 2
