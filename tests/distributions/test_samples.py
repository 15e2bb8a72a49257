"""Samples of what has no mean to compare with, what PyTorch computes less exactly, and compiled functions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import jtorch
from jtorch import distributions as D
from tests.distributions.cases import CASES, assert_same, made

ERROR = 5 / math.sqrt(20000)


def test_angles():
    jtorch.manual_seed(0)
    d, _, _ = made(jtorch, "von_mises")
    angle = d.sample((20000,))
    assert float(angle.abs().max()) <= math.pi
    turned = (angle - d.loc).detach()
    for have, want in ((turned.cos(), 1 - d.variance.detach()), (turned.sin(), 0 * d.loc.detach())):
        assert (np.abs(have.mean(0).numpy() - want.numpy()) < ERROR).all()


def test_densities_of_angles():
    torch = pytest.importorskip("torch")
    (d, leaves, value), (t, t_leaves, t_value) = (made(L, "von_mises") for L in (jtorch, torch))
    k = t.concentration
    exact = k * (t_value - t.loc).cos() - math.log(2 * math.pi) - torch.special.i0e(k).log() - k
    have = d.log_prob(value)
    assert_same(have, exact)
    assert_same(have, t.log_prob(t_value), 1e-6)
    have.sum().backward()
    exact.sum().backward()
    for key, leaf in leaves.items():
        assert_same(leaf.grad, t_leaves[key].grad)
    assert_same(d.variance, 1 - torch.special.i1e(k) / torch.special.i0e(k))
    assert_same(d.variance, t.variance, 1e-6)
    assert_same(d.expand((4, 2, 3)).log_prob(value), exact.expand(4, 2, 3))


def test_relaxed_samples_lie_where_the_sharp_ones_do():
    jtorch.manual_seed(1)
    d, _, _ = made(jtorch, "relaxed_bernoulli")
    share = (d.sample((20000,)) > 0.5).double().mean(0)
    assert (np.abs(share.numpy() - d.probs.detach().numpy()) < ERROR).all()
    d, _, _ = made(jtorch, "relaxed_one_hot")
    rows = d.sample((20000,))
    assert_same(rows.sum(-1), jtorch.ones(20000, 2, dtype=jtorch.float64))
    share = (rows == rows.max(-1, keepdim=True).values).double().mean(0)
    assert (np.abs(share.numpy() - d.probs.detach().numpy()) < ERROR).all()


@pytest.mark.parametrize("name", ["relaxed_bernoulli_logits", "relaxed_one_hot_logits", "logistic_normal"])
def test_gradients_through_relaxed_samples(name):
    """By the parameters at fixed noise, as differences of two samples of one seed say."""
    d, leaves, _ = made(jtorch, name)

    def drawn(values):
        jtorch.manual_seed(5)
        made = type(d)(**values).rsample((2,))
        return (made * jtorch.arange(1.0, 1.0 + made.numel(), dtype=made.dtype).view(made.shape)).sum()

    drawn(leaves).backward()
    for key, leaf in leaves.items():
        move = np.cos(np.arange(leaf.numel(), dtype=float)).reshape(leaf.shape)
        h = 1e-6
        sides = [drawn({**leaves, key: leaf.detach() + s * jtorch.from_numpy(move)}).item() for s in (h, -h)]
        want = (sides[0] - sides[1]) / (2 * h)
        assert (leaf.grad.numpy() * move).sum() == pytest.approx(want, rel=1e-6)


def test_logistic_normal_variables_come_from_normal_ones():
    jtorch.manual_seed(2)
    d, _, _ = made(jtorch, "logistic_normal")
    normal = d.base_dist.base_dist
    u = normal.cdf(d.transforms[0].inv(d.sample((4000,)))).detach().numpy().reshape(4000, -1)
    steps = np.arange(1, 4001) / 4000
    for column in u.T:  # Kolmogorov-Smirnov at the 0.1% level
        assert np.abs(np.sort(column) - steps).max() < 1.95 / math.sqrt(4000)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_correlations(n):
    """Each follows 2 Beta(a, a) - 1, with a = concentration + n / 2 - 1; PyTorch's do for n = 2 alone."""
    jtorch.manual_seed(3)
    concentration = jtorch.tensor([0.7, 2.5], dtype=jtorch.float64)
    d = D.LKJCholesky(n, concentration)
    factor = d.sample((20000,))
    assert bool(d.support.check(factor).all())
    r = (factor @ factor.mT).numpy()
    variance = 1 / (2 * concentration.numpy() + n - 1)
    for i, j in itertools.combinations(range(n), 2):
        deviation = np.sqrt(variance)
        assert (np.abs(r[..., i, j].mean(0)) < ERROR * deviation).all()
        np.testing.assert_allclose(r[..., i, j].var(0), variance, rtol=0.06)


def test_covariances_of_vectors():
    jtorch.manual_seed(4)
    for name in ("lowrank_batch", "mixture_of_vectors"):
        d, _, _ = made(jtorch, name)
        drawn = d.sample((20000,)).numpy().reshape(20000, -1, 3)
        for k in range(drawn.shape[1]):
            have = np.cov(drawn[:, k].T)
            if name == "lowrank_batch":
                want = d.covariance_matrix[k].detach().numpy()
                np.testing.assert_allclose(have, want, atol=0.1)
            variance = d.variance.detach().numpy().reshape(-1, 3)[k]
            np.testing.assert_allclose(np.diag(have), variance, rtol=0.06)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("lowrank", "wishart"))])
def test_the_three_matrices(name):
    torch = pytest.importorskip("torch")
    (d, _, _), (t, _, _) = (made(L, name) for L in (jtorch, torch))
    for fact in ("covariance_matrix", "precision_matrix", "scale_tril"):
        assert_same(getattr(d, fact), getattr(t, fact), 1e-8)


def test_entropy_of_counts():
    """Against the sum over all counts: PyTorch has a logarithm of a factorial in float32 here."""
    probs = jtorch.tensor([[0.2, 0.5, 0.3], [0.6, 0.15, 0.25]], dtype=jtorch.float64)
    d = D.Multinomial(4, probs)
    counts = [c for c in itertools.product(range(5), repeat=3) if sum(c) == 4]
    log_prob = d.log_prob(jtorch.tensor(counts, dtype=jtorch.float64).unsqueeze(1))
    assert_same(log_prob.exp().sum(0), jtorch.ones(2, dtype=jtorch.float64))
    alone = [D.Multinomial(4, p).entropy().item() for p in probs]
    np.testing.assert_allclose(alone, -(log_prob.exp() * log_prob).sum(0).numpy(), rtol=1e-10)


def test_mixture_of_one_set_of_weights():
    parts = D.Normal(jtorch.zeros(4, 3), jtorch.ones(4, 3))
    d = D.MixtureSameFamily(D.Categorical(jtorch.tensor([0.2, 0.5, 0.3])), parts)
    assert tuple(d.sample((5,)).shape) == (5, 4)
    assert_same(d.log_prob(jtorch.zeros(4)), D.Normal(0.0, 1.0).log_prob(jtorch.zeros(4)), 1e-6)


def test_half_a_share_is_no_place_for_nan():
    """probs = 1/2 is where a continuous Bernoulli's formulas are 0 / 0."""
    probs = jtorch.tensor([0.5, 0.4999, 0.499, 0.52], dtype=jtorch.float64, requires_grad=True)
    d = D.ContinuousBernoulli(probs)
    facts = d.mean + d.variance + d.entropy() + d.log_prob(probs.detach()) + d.rsample()
    facts.sum().backward()
    assert bool(facts.isfinite().all() and probs.grad.isfinite().all())


def test_errors_name_the_parameter_that_was_given():
    """PyTorch names those of a Gamma and a Dirichlet inside."""
    with pytest.raises(ValueError, match=r"parameter df1 .* of distribution FisherSnedecor\(df1: -1.0"):
        D.FisherSnedecor(-1.0, 1.0)
    with pytest.raises(ValueError, match=r"parameter concentration .* of distribution LKJCholesky"):
        D.LKJCholesky(2, -1.0)


def test_a_wishart_of_few_degrees_warns():
    with pytest.warns(UserWarning, match="Low df values detected"):
        D.Wishart(2.5, jtorch.eye(3))
    with pytest.raises(AssertionError, match="Exactly one of covariance_matrix"):
        D.Wishart(3.0)


COMPILED = [
    "half_normal", "weibull", "kumaraswamy", "relaxed_bernoulli_logits",
    "relaxed_one_hot_logits", "logistic_normal", "lowrank", "continuous_bernoulli",
]  # fmt: skip
DENSITIES = [
    "mixture", "negative_binomial_logits", "multinomial_logits", "von_mises", "lkj",
    "wishart",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED + DENSITIES)
def test_inside_compiled_functions(name):
    kind, parameters, value = CASES[name]
    make = getattr(D, kind) if isinstance(kind, str) else (lambda **leaves: kind(jtorch, **leaves))
    numbers = {k: v for k, v in parameters.items() if not isinstance(v, list)}
    names = [k for k in parameters if k not in numbers]
    value = jtorch.tensor(value, dtype=jtorch.float64)

    def loss(*leaves):
        d = make(**dict(zip(names, leaves, strict=True)), **numbers)
        density = d.log_prob(value).sum()
        return density + d.rsample((2,)).square().sum() if name in COMPILED else density

    found = []
    for f in (loss, jtorch.compile(loss, fullgraph=True)):
        jtorch.manual_seed(0)
        leaves = [jtorch.tensor(parameters[k], dtype=jtorch.float64, requires_grad=True) for k in names]
        result = f(*leaves)
        result.backward()
        found.append([result, *(leaf.grad for leaf in leaves)])
    for want, have in zip(*found, strict=True):
        assert_same(have, want, 1e-9)


def test_statistics_inside_a_compiled_function():
    """A recording draws anew at each call."""
    f = jtorch.compile(lambda loc: D.HalfNormal(loc.exp()).rsample((4000,)), fullgraph=True)
    jtorch.manual_seed(0)
    a, b = f(jtorch.zeros(2)), f(jtorch.zeros(2))
    assert not bool((a == b).any())
    assert a.mean().item() == pytest.approx(math.sqrt(2 / math.pi), abs=0.04)
