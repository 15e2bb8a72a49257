"""Random numbers are those of eager mode, bit for bit: after retraces, in branches, fused or not."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch.core.errors import CompileError

EXACT = {
    "rand": lambda x: jtorch.rand(x.shape),
    "rand float64": lambda x: jtorch.rand(x.shape, dtype=jtorch.float64),
    "rand_like": lambda x: jtorch.rand_like(x),
    "randn": lambda x: jtorch.randn(x.shape),
    "randn float64": lambda x: jtorch.randn(x.shape, dtype=jtorch.float64),
    "randint": lambda x: jtorch.randint(-5, 1000, x.shape),
    "randperm": lambda x: jtorch.randperm(x.numel()),
    "normal": lambda x: jtorch.normal(0.0, 1.0, tuple(x.shape)),
    "normal of tensors": lambda x: jtorch.normal(x, 2.0),
    "bernoulli": lambda x: jtorch.bernoulli(x.abs().clamp(max=1.0)),
    "bernoulli_": lambda x: jtorch.zeros(x.shape).bernoulli_(0.3),
    "uniform_": lambda x: jtorch.empty(x.shape).uniform_(-1.0, 3.0),
    "normal_": lambda x: jtorch.empty(x.shape).normal_(0.0, 2.0),
    "exponential_": lambda x: jtorch.empty(x.shape).exponential_(2.0),
    "geometric_": lambda x: jtorch.empty(x.shape).geometric_(0.25),
    "random_": lambda x: jtorch.empty(x.shape).random_(10),
    "cauchy_": lambda x: jtorch.empty(x.shape).cauchy_(),
    "multinomial": lambda x: jtorch.multinomial(x.abs().flatten() + 0.1, 4),
    "multinomial with replacement": lambda x: jtorch.multinomial(x.abs().flatten() + 0.1, 9, True),
    "poisson": lambda x: jtorch.poisson(x.abs() * 3),
    "dropout": lambda x: F.dropout(x, 0.4),
    "dropout2d": lambda x: F.dropout2d(x[None, :, :, None], 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
}


def inputs(rows=5, seed=0):
    return jtorch.from_numpy(np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32))


def draws(function, calls, seed=7):
    jtorch.manual_seed(seed)
    found = [function(x) for x in calls]
    arrays = [np.array(r.detach().numpy()) for r in found]
    return [*arrays, jtorch.get_rng_state().numpy().copy()]


def assert_bits(found, expected, message=""):
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b, err_msg=f"{message} call {k}")


CALLS = [inputs(), inputs(), inputs(2), inputs(), inputs(0), inputs(2), inputs(1)]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("mode", [None, "interpret"], ids=["compiled", "interpreted"])
def test_each_function_draws_as_eager_does_also_in_new_shapes(name, mode):
    function = EXACT[name]
    calls = [x for x in CALLS if x.numel() >= 4] if "multinomial" in name else CALLS
    assert_bits(draws(jtorch.compile(function, mode=mode), calls), draws(function, calls))


def _many(x):
    """Several draws in one kernel, some of them unused, one of them twice, in another order than drawn."""
    a, _, b = jtorch.rand(x.shape), jtorch.randn(x.shape), jtorch.randint(0, 9, x.shape)
    order = jtorch.randperm(x.shape[0])
    c = jtorch.rand(x.shape[1])
    return (a * 4.0 + b)[order] + a + c.floor()


@pytest.mark.slow
def test_fusion_order_and_unused_draws_change_nothing():
    assert_bits(draws(jtorch.compile(_many), CALLS), draws(_many, CALLS))


@pytest.mark.parametrize("fuel", ["0", "3"])
def test_nor_does_the_amount_of_optimisation(fuel, monkeypatch):
    monkeypatch.setenv("JTORCH_FUEL", fuel)
    assert_bits(draws(jtorch.compile(_many), CALLS), draws(_many, CALLS))


def test_plain_python_kernels_draw_the_same(monkeypatch):
    monkeypatch.setenv("JTORCH_JIT", "0")
    assert_bits(draws(jtorch.compile(_many), CALLS), draws(_many, CALLS))


def test_eager_and_compiled_take_turns():
    f = jtorch.compile(_many)
    turns = iter([f, _many, _many, f, f, _many, f])
    assert_bits(draws(lambda x: next(turns)(x), CALLS), draws(_many, CALLS))


@pytest.mark.slow
def test_branches_draw_what_eager_draws():
    def walk(x):
        noise = jtorch.rand(3)
        if noise[0] > 0.7:
            return noise + jtorch.randn(3)
        elif (noise + jtorch.rand(3)).sum() > 3.0:
            return jtorch.rand(3) * 2
        return noise

    calls = [inputs()] * 40
    assert_bits(draws(jtorch.compile(walk), calls), draws(walk, calls))
    few = jtorch.compile(walk, max_branches=2)
    with pytest.warns(UserWarning, match="ways through its branches"):
        found = draws(few, calls)
    assert_bits(found, draws(walk, calls))


def test_after_a_call_that_failed():
    table = jtorch.arange(4.0)

    def f(i):
        return table[i] + jtorch.rand(3)

    good, bad = jtorch.tensor([0, 1, 2]), jtorch.tensor([0, 9, 2])
    compiled = jtorch.compile(f)

    def tries(i):
        for _ in range(2):
            with pytest.raises(IndexError):
                compiled(bad)
        return compiled(i)

    assert_bits(draws(tries, [good] * 4), draws(f, [good] * 4))


@pytest.mark.slow
def test_generators_as_arguments_and_captured():
    mine = jtorch.Generator().manual_seed(5)

    def f(x, g):
        return x + jtorch.rand(3, generator=g) + jtorch.rand(3, generator=mine) + jtorch.rand(3)

    def run(function):
        jtorch.manual_seed(1)
        mine.manual_seed(5)
        first, second = jtorch.Generator().manual_seed(2), jtorch.Generator().manual_seed(3)
        found = [function(jtorch.zeros(3), g).numpy() for g in (first, second, first, mine, second)]
        return found + [g.get_state().numpy() for g in (first, second, mine)]

    assert_bits(run(jtorch.compile(f)), run(f))


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, -1])
def test_seeds_between_calls(seed):
    f = jtorch.compile(lambda x: jtorch.rand(3) + jtorch.randn(3))
    f(inputs())
    assert_bits(draws(f, CALLS[:3], seed), draws(f.function, CALLS[:3], seed))


def test_many_draws_so_that_the_count_passes_32_bits():
    f = jtorch.compile(lambda x: jtorch.rand(4))
    f(inputs())

    def from_there(function):
        state = jtorch.get_rng_state()
        jtorch.manual_seed(3)
        words = jtorch.get_rng_state().numpy().copy().view("<u8")
        words[1] = 2**32 - 2
        jtorch.set_rng_state(jtorch.from_numpy(words.view(np.uint8)))
        found = [function(inputs()).numpy() for _ in range(4)]
        jtorch.set_rng_state(state)
        return found

    found = from_there(f)
    assert_bits(found, from_there(f.function))
    assert len({a.tobytes() for a in found}) == 4


def _training():
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        hidden = model[2](model[1](model[0](x)))
        kept = model[3](hidden)
        loss = model[4](kept).pow(2).mean() + jtorch.randn(2).sum() * 0.0
        loss.backward()
        optimizer.step()
        return loss, kept == 0

    return model, optimizer, step


@pytest.mark.slow
def test_dropout_masks_of_a_training_are_those_of_eager_and_survive_a_resume():
    """Compiled, stopped in the middle, loaded into a new program, and gone on."""

    def run(steps, wrap, resume=None):
        model, optimizer, step = _training()
        if resume is not None:
            model.load_state_dict(resume[0])
            optimizer.load_state_dict(resume[1])
            jtorch.set_rng_state(resume[2])
        step = wrap(step)
        found = [step(inputs()) for _ in range(steps)]
        state = (model.state_dict(), optimizer.state_dict(), jtorch.get_rng_state())
        return [loss.item() for loss, _ in found], [mask.numpy().copy() for _, mask in found], state

    losses, masks, _ = run(10, lambda f: f)
    first = run(4, jtorch.compile)
    second = run(6, jtorch.compile, first[2])
    np.testing.assert_allclose([*first[0], *second[0]], losses, rtol=2e-5)
    assert_bits([*first[1], *second[1]], masks)


def test_train_and_eval_take_turns():
    layer = nn.Dropout(0.5)

    def f(x):
        return layer(x) + 0.0

    def run(function):
        jtorch.manual_seed(2)
        found = []
        for k in range(8):
            layer.train(k % 3 != 0)
            found.append(function(jtorch.ones(20)).numpy())
        return found

    assert_bits(run(jtorch.compile(f)), run(f))


def test_backward_outside_uses_the_mask_of_its_forward():
    w = jtorch.ones(50, requires_grad=True)
    f = jtorch.compile(lambda x: F.dropout(x * w, 0.5))
    results = [f(jtorch.ones(50)) for _ in range(5)]
    for out in reversed(results):
        w.grad = None
        out.sum().backward()
        np.testing.assert_array_equal(w.grad.numpy(), out.detach().numpy())


def test_a_reset_recording_goes_on_where_the_stream_is():
    f = jtorch.compile(_many)

    def resetting(x):
        f.reset()
        return f(x)

    assert_bits(draws(resetting, CALLS[:3]), draws(_many, CALLS[:3]))


def test_functions_share_one_stream():
    f, g = jtorch.compile(lambda x: jtorch.rand(3)), jtorch.compile(lambda x: f(x) + jtorch.rand(3))
    jtorch.manual_seed(9)
    expected = jtorch.rand(5, 3)  # one call draws other numbers than five
    jtorch.manual_seed(9)
    single = [jtorch.rand(3).numpy() for _ in range(5)]
    jtorch.manual_seed(9)
    found = [f(0).numpy(), g(0).numpy(), jtorch.rand(3).numpy(), f(0).numpy()]
    assert_bits(found, [single[0], single[1] + single[2], single[3], single[4]])
    assert not np.array_equal(expected.numpy()[1], single[1])


# -- seeding inside ------------------------------------------------------------------------------------------

MINE = jtorch.Generator().manual_seed(5)


def seeded_first(x):
    jtorch.manual_seed(0)
    return x + jtorch.rand(3), jtorch.randperm(5)


def seeded_in_the_middle(x):
    before = jtorch.rand(3)
    jtorch.manual_seed(3)
    return before, jtorch.rand(3), jtorch.randn(3)


def forked(x):
    with jtorch.random.fork_rng():
        inside = jtorch.rand(3)
    return inside, jtorch.rand(3)


def forked_and_seeded(x):
    before = jtorch.rand(2)
    with jtorch.random.fork_rng():
        jtorch.manual_seed(42)
        inside = jtorch.rand(3)
        with jtorch.random.fork_rng():
            deeper = jtorch.rand(3)
        again = jtorch.rand(3)
    return before, inside, deeper, again, jtorch.rand(3)


def forked_and_left_by_an_exception(x):
    try:
        with jtorch.random.fork_rng():
            raise ValueError(jtorch.rand(2).shape)
    except ValueError:
        return jtorch.rand(2), x


def not_forked(x):
    with jtorch.random.fork_rng(enabled=False):
        inside = jtorch.rand(3)
    return inside, jtorch.rand(3)


@jtorch.random.fork_rng()
def decorated(x):
    return jtorch.rand(2), x


def another_generator_seeded(x):
    MINE.manual_seed(2**64 - 1)
    first = jtorch.rand(3, generator=MINE)
    MINE.manual_seed(-1)
    return first, jtorch.rand(3, generator=MINE), jtorch.rand(3)


def a_seeded_generator_of_its_own(x):
    generator = jtorch.Generator().manual_seed(4)
    return jtorch.rand(3, generator=generator), jtorch.rand(3, generator=generator)


def dropout_with_the_same_mask(x):
    jtorch.manual_seed(1)
    return jtorch.nn.functional.dropout(x, 0.5), x


def a_step_with_the_same_noise(x):
    w = jtorch.ones(3, requires_grad=True)
    with jtorch.random.fork_rng():
        jtorch.manual_seed(2)
        (jtorch.nn.functional.dropout(w * x, 0.5) * jtorch.randn(3)).sum().backward()
    return w.grad * 1, jtorch.rand(2)


SEEDING = (
    seeded_first, seeded_in_the_middle, forked, forked_and_seeded, forked_and_left_by_an_exception,
    not_forked, decorated, another_generator_seeded, a_seeded_generator_of_its_own,
    dropout_with_the_same_mask, a_step_with_the_same_noise,
)  # fmt: skip


def _seeded_calls(function):
    """What four calls give, and where the generators are after each."""
    jtorch.manual_seed(11)
    MINE.manual_seed(6)
    found = []
    for _ in range(4):
        found.append([t.tolist() for t in function(jtorch.ones(3))])
        found.append((jtorch.default_generator.position(), MINE.position()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["interpret", "native"])
def test_generators_are_seeded_and_forked_at_each_call(mode):
    for function in SEEDING:
        compiled = jtorch.compile(function, mode=mode) if mode == "interpret" else jtorch.compile(function)
        assert _seeded_calls(compiled) == _seeded_calls(function), function.__name__
        assert not compiled.retraces, function.__name__


def test_the_seed_asked_for_after_seeding_is_the_new_one():
    def f(x):
        jtorch.manual_seed(7)
        return x + jtorch.initial_seed()

    assert jtorch.compile(f)(jtorch.zeros(1)).tolist() == [7.0]


def test_a_number_of_the_call_as_a_seed():
    def f(k):
        jtorch.manual_seed(k)
        return jtorch.rand(2)

    compiled = jtorch.compile(f)
    for k in (3, 4, 3):
        assert compiled(k).tolist() == f(k).tolist()


def _seed_of_the_system():
    jtorch.seed()


def _state_put_back():
    state = jtorch.get_rng_state()
    jtorch.set_rng_state(state)


def _generator_without_a_seed():
    jtorch.rand(2, generator=jtorch.Generator())


def _generator_seeded_too_late():
    generator = jtorch.Generator()
    jtorch.rand(2, generator=generator)
    generator.manual_seed(3)


def test_what_differs_at_each_call_is_refused_and_undone():
    for change, told in {
        _seed_of_the_system: r"test_randomness.py:\d+.*takes a seed from the system",
        _state_put_back: r"test_randomness.py:\d+.*set_rng_state",
        _generator_without_a_seed: "makes a random generator",
        _generator_seeded_too_late: "makes a random generator",
    }.items():

        def f(x, change=change):
            x = x + jtorch.rand(3)
            change()
            return x + jtorch.rand(3)

        jtorch.manual_seed(8)
        with pytest.raises(CompileError, match=told):
            jtorch.compile(f)(jtorch.zeros(3))
        assert jtorch.default_generator.position() == (8, 0)


def test_a_seed_beside_a_function_that_is_not_compiled():
    @jtorch.compiler.disable
    def draw(x):
        return x + jtorch.rand(3)

    def seeded_before(x):
        jtorch.manual_seed(1)
        return draw(x)

    def seeded_after(x):
        x = draw(x)
        jtorch.manual_seed(1)
        return x + jtorch.rand(3)

    for function in (seeded_before, seeded_after):
        with pytest.raises(CompileError, match=r"test_randomness.py:\d+.*disabled for compiling"):
            jtorch.compile(function)(jtorch.zeros(3))


def test_a_call_that_fails_puts_a_seeded_generator_back():
    def f(x, place):
        jtorch.manual_seed(3)
        return x[place] + jtorch.rand(1)

    compiled = jtorch.compile(f)
    compiled(jtorch.ones(3), jtorch.tensor([1]))
    jtorch.manual_seed(8)
    for function in (f, compiled):
        jtorch.manual_seed(8)
        with pytest.raises(IndexError):
            function(jtorch.ones(3), jtorch.tensor([5]))
        assert jtorch.default_generator.position() == (3, 0)


def test_so_it_does_where_it_has_drawn_before():
    def f(x, place):
        noise = jtorch.rand(1)
        found = x[place]
        jtorch.manual_seed(3)
        return found + noise

    compiled = jtorch.compile(f)
    compiled(jtorch.ones(3), jtorch.tensor([1]))
    for function in (f, compiled):
        jtorch.manual_seed(8)
        with pytest.raises(IndexError):
            function(jtorch.ones(3), jtorch.tensor([5]))
        assert jtorch.default_generator.position() == (8, 1)


@pytest.mark.slow
def test_seeds_on_one_way_through_a_branch():
    def f(x):
        noise = jtorch.rand(2)
        if noise.sum() > 1:
            jtorch.manual_seed(3)
        return noise + jtorch.rand(2)

    compiled = jtorch.compile(f)
    for seed in range(8):
        found = []
        for function in (f, compiled):
            jtorch.manual_seed(seed)
            found.append((function(jtorch.zeros(2)).tolist(), jtorch.default_generator.position()))
        assert found[0] == found[1], seed
