"""Random tensors: distributions, seeds, the same draws compiled, and errors in PyTorch's words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import jtorch
from tests.ops.support import needs_torch

N = 20_000
ONE_TO_THREE = stats.rv_discrete(values=([0, 2], [0.25, 0.75]))
DRAWS = {  # name -> (draws, distribution)
    "rand": (lambda: jtorch.rand(N, dtype=jtorch.float64), stats.uniform()),
    "randn": (lambda: jtorch.randn(N), stats.norm()),
    "rand_like": (lambda: jtorch.rand_like(jtorch.zeros(N)), stats.uniform()),
    "randn_like": (lambda: jtorch.randn_like(jtorch.zeros(N, dtype=jtorch.float64)), stats.norm()),
    "normal": (lambda: jtorch.normal(2.0, 3.0, (N,)), stats.norm(2, 3)),
    "normal of tensors": (
        lambda: jtorch.normal(jtorch.full((N,), 2.0), jtorch.tensor(3.0)), stats.norm(2, 3),
    ),
    "uniform_": (lambda: jtorch.zeros(N).uniform_(-2, 3), stats.uniform(-2, 5)),
    "normal_": (lambda: jtorch.zeros(N).normal_(1, 2), stats.norm(1, 2)),
    "exponential_": (lambda: jtorch.zeros(N).exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy_": (lambda: jtorch.zeros(N).cauchy_(1, 2), stats.cauchy(1, 2)),
    "log_normal_": (lambda: jtorch.zeros(N).log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=np.exp(0.5))),
}  # fmt: skip
COUNTS = {
    "bernoulli_": (lambda: jtorch.zeros(N).bernoulli_(0.3), stats.bernoulli(0.3)),
    "bernoulli": (lambda: jtorch.bernoulli(jtorch.full((N,), 0.7)), stats.bernoulli(0.7)),
    "bernoulli with p": (lambda: jtorch.ones(N).bernoulli(0.2), stats.bernoulli(0.2)),
    "geometric_": (lambda: jtorch.zeros(N).geometric_(0.4), stats.geom(0.4)),
    "geometric_ of ints": (lambda: jtorch.zeros(N, dtype=jtorch.int64).geometric_(0.4), stats.geom(0.4)),
    "poisson": (lambda: jtorch.poisson(jtorch.full((N,), 4.5)), stats.poisson(4.5)),
    "binomial": (lambda: jtorch.binomial(jtorch.full((N,), 9.0), jtorch.tensor(0.3)), stats.binom(9, 0.3)),
    "randint": (lambda: jtorch.randint(2, 6, (N,)), stats.randint(2, 6)),
    "randint_like": (lambda: jtorch.randint_like(jtorch.zeros(N), 5), stats.randint(0, 5)),
    "random_": (lambda: jtorch.zeros(N).random_(3, 7), stats.randint(3, 7)),
    "multinomial with replacement": (
        lambda: jtorch.multinomial(jtorch.tensor([1.0, 0.0, 3.0]), N, replacement=True), ONE_TO_THREE,
    ),
    "multinomial, one of each row": (
        lambda: jtorch.multinomial(jtorch.tensor([[1.0, 0.0, 3.0]]).expand(N, 3), 1)[:, 0], ONE_TO_THREE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_continuous_draws_are_distributed_as_they_say(name):
    draws, distribution = DRAWS[name]
    jtorch.manual_seed(3)
    assert stats.kstest(draws().numpy().astype(np.float64), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_counts_are_distributed_as_they_say(name):
    draws, distribution = COUNTS[name]
    jtorch.manual_seed(4)
    values, found = np.unique(draws().numpy(), return_counts=True)
    expected = distribution.pmf(values) * N
    assert abs(expected.sum() - N) < 0.01 * N
    likely = expected > 5
    chi_squared = ((found - expected)[likely] ** 2 / expected[likely]).sum()
    assert stats.chi2(max(1, likely.sum() - 1)).sf(chi_squared) > 1e-3


ALL = {name: draws for table in (DRAWS, COUNTS) for name, (draws, _) in table.items()}


@pytest.mark.parametrize("name", ALL)
def test_draws_repeat_with_the_seed_and_not_without(name):
    jtorch.manual_seed(5)
    first, second = ALL[name](), ALL[name]()
    jtorch.manual_seed(5)
    assert ALL[name]().tolist() == first.tolist() != second.tolist()


COMPILED = ("rand", "randn", "normal", "uniform_", "exponential_", "bernoulli_", "bernoulli", "geometric_",
            "poisson", "randint", "random_", "cauchy_", "multinomial, one of each row")  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_code_draws_the_same(name):
    step = jtorch.compile(lambda: ALL[name]() + 0)
    jtorch.manual_seed(6)
    eager = [ALL[name]().tolist() for _ in range(3)]
    jtorch.manual_seed(6)
    assert [step().tolist() for _ in range(3)] == eager


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "complex128"])
def test_other_types(dtype):
    jtorch.manual_seed(0)
    uniform, normal = (f(N, dtype=getattr(jtorch, dtype)) for f in (jtorch.rand, jtorch.randn))
    assert str(uniform.dtype) == str(normal.dtype) == f"jtorch.{dtype}"
    u, n = (t.to(jtorch.complex128).numpy() for t in (uniform, normal))
    assert 0 <= u.real.min() <= u.real.max() < 1
    assert abs(np.mean(np.abs(n) ** 2) - 1) < 0.05
    assert abs(u.real.mean() - 0.5) < 0.02


def test_multinomial_without_replacement_takes_each_once():
    weights = jtorch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 1.0, 1.0]])
    for _ in range(20):
        found = jtorch.multinomial(weights, 3).numpy()
        assert all(len(set(row)) == 3 for row in found)
        assert 0 not in found[1]
    assert jtorch.multinomial(jtorch.ones(0, 2), 1).shape == (0, 1)


def test_a_generator_of_its_own():
    generator = jtorch.Generator().manual_seed(1)
    state = generator.get_state()
    before = jtorch.get_rng_state()
    first = jtorch.rand(3, generator=generator).tolist()
    assert jtorch.get_rng_state().tolist() == before.tolist()
    generator.set_state(state)
    assert jtorch.zeros(3).uniform_(generator=generator).tolist() == first
    assert generator.initial_seed() == 1
    assert generator.seed() == generator.initial_seed() != 1
    assert generator.device == jtorch.device("cpu")


def test_state_of_the_default_generator():
    jtorch.manual_seed(2)
    state = jtorch.get_rng_state()
    assert state.dtype is jtorch.uint8
    first = jtorch.rand(2).tolist()
    jtorch.set_rng_state(state)
    with jtorch.random.fork_rng():
        assert jtorch.rand(2).tolist() == first
        jtorch.manual_seed(9)
    assert jtorch.rand(2).tolist() == first
    assert jtorch.initial_seed() == 2
    assert jtorch.manual_seed(-1) is jtorch.random.default_generator
    assert jtorch.initial_seed() == 2**64 - 1


ERRORS = {
    "uniform_ bounds": lambda L: L.zeros(2).uniform_(2, 1),
    "uniform_ of ints": lambda L: L.zeros(2, dtype=L.int64).uniform_(),
    "normal_ std": lambda L: L.zeros(2).normal_(0, -1),
    "exponential_ rate": lambda L: L.zeros(2).exponential_(0),
    "exponential_ of ints": lambda L: L.zeros(2, dtype=L.int64).exponential_(),
    "random_ bounds": lambda L: L.zeros(2).random_(5, 5),
    "random_ too large": lambda L: L.zeros(2, dtype=L.uint8).random_(0, 300),
    "geometric_ p": lambda L: L.zeros(2).geometric_(1.5),
    "cauchy_ sigma": lambda L: L.zeros(2).cauchy_(0, -1),
    "log_normal_ std": lambda L: L.zeros(2).log_normal_(0, 0),
    "bernoulli_ p": lambda L: L.zeros(2).bernoulli_(1.5),
    "bernoulli of what is none": lambda L: L.bernoulli(L.tensor([1.5])),
    "bernoulli of ints": lambda L: L.bernoulli(L.ones(2, dtype=L.int64)),
    "multinomial of nothing": lambda L: L.multinomial(L.zeros(3), 1),
    "multinomial negative": lambda L: L.multinomial(L.tensor([-1.0, 2.0]), 1),
    "multinomial nan": lambda L: L.multinomial(L.tensor([float("nan"), 2.0]), 1),
    "multinomial too many": lambda L: L.multinomial(L.ones(2), 3),
    "multinomial none": lambda L: L.multinomial(L.ones(2), 0),
    "multinomial dims": lambda L: L.multinomial(L.ones(2, 2, 2), 1),
    "multinomial of ints": lambda L: L.multinomial(L.ones(2, dtype=L.int64), 1),
    "randint bounds": lambda L: L.randint(5, 5, (2,)),
    "randint too large": lambda L: L.randint(0, 300, (2,), dtype=L.uint8),
    "randperm": lambda L: L.randperm(-1),
    "rand of ints": lambda L: L.rand(2, dtype=L.int64),
    "randn of ints": lambda L: L.randn(2, dtype=L.int64),
    "normal std": lambda L: L.normal(0.0, -1.0, (2,)),
    "normal std tensor": lambda L: L.normal(L.zeros(2), -L.ones(2)),
    "normal shapes": lambda L: L.normal(L.zeros(2), L.ones(3)),
    "poisson": lambda L: L.poisson(L.tensor([-1.0])),
    "manual_seed": lambda L: L.manual_seed(2**64),
    "set_rng_state": lambda L: L.set_rng_state(3),
}


@needs_torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    import torch

    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch)
    with pytest.raises(theirs.type) as ours:
        ERRORS[name](jtorch)
    assert str(ours.value) == str(theirs.value).split("\n")[0]


def test_in_place_draws_obey_the_tape():
    x = jtorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.normal_()
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    with jtorch.no_grad():
        assert x.normal_() is x


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n", [2.5, 2.0, True, "a", None], ids=str)
def test_a_permutation_of_what_is_no_int_is_a_type_error(n, compiled):
    def f(n):
        return jtorch.randperm(n)

    with pytest.raises(TypeError, match=r"randperm\(\): argument 'n' must be int, not "):
        (jtorch.compile(f) if compiled else f)(n)


@pytest.mark.parametrize(
    "low, high, dtype",
    [
        (1000.0, 1001.0, jtorch.float32),
        (2.0, 3.0, jtorch.float16),
        (2.0, 3.0, jtorch.bfloat16),
        (-1e-3, 1e-3, jtorch.float64),
    ],
)
def test_no_uniform_number_is_the_upper_bound(low, high, dtype):
    """It was, of some that round to it."""
    step = jtorch.compile(lambda x, low, high: x.uniform_(low, high))
    jtorch.manual_seed(0)
    x = jtorch.empty(500_000, dtype=dtype).uniform_(low, high)
    assert low <= x.min() and x.max() < high
    jtorch.manual_seed(0)
    assert jtorch.equal(step(jtorch.empty(500_000, dtype=dtype), low, high), x)


def test_uniform_numbers_of_complex_tensors_have_two_parts():
    """Only bounds other than 0 and 1 were refused."""
    jtorch.manual_seed(0)
    x = jtorch.zeros(1000, 2, dtype=jtorch.complex64).t()
    assert x.uniform_(-3, -1) is x
    parts = jtorch.view_as_real(x)
    assert -3 <= parts.min() < -2.9 and -1.1 < parts.max() < -1
    assert np.abs(np.corrcoef(x.real.flatten().numpy(), x.imag.flatten().numpy())[0, 1]) < 0.1


DRAWN = {
    "normal": lambda L, x: L.normal(x, 1.0), "normal of deviations": lambda L, x: L.normal(0.0, x),
    "normal of both": lambda L, x: L.normal(x.reshape(2, 1), x), "bernoulli": lambda L, x: L.bernoulli(x / 4),
    "poisson": lambda L, x: L.poisson(x), "bernoulli_": lambda L, x: L.zeros(2).bernoulli_(x / 4),
}  # fmt: skip


def gradient_of_what_was_drawn(L, draw, compiled=False):
    x = L.tensor([1.0, 2.0], requires_grad=True)
    drawn = (jtorch.compile(lambda x: draw(L, x), fullgraph=True) if compiled else lambda x: draw(L, x))(x)
    (drawn.sum() + (x * 3).sum()).backward()
    with L.no_grad():
        quiet = draw(L, x)
    return drawn.requires_grad, quiet.requires_grad, x.grad.tolist()


@pytest.mark.parametrize("name", DRAWN)
def test_what_was_drawn_of_tensors_has_a_gradient_of_zero(name):
    expected = (True, False, [3.0, 3.0])
    assert gradient_of_what_was_drawn(jtorch, DRAWN[name]) == expected
    assert gradient_of_what_was_drawn(jtorch, DRAWN[name], compiled=True) == expected
    assert gradient_of_what_was_drawn(pytest.importorskip("torch"), DRAWN[name]) == expected


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_binomial_has_no_gradient(library):
    L = pytest.importorskip(library)
    x = L.tensor([1.0, 2.0], requires_grad=True)
    drawn = L.binomial(x, x / 4)
    assert drawn.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::binomial is not implemented"):
        drawn.sum().backward()
