"""Divergences of all pairs that PyTorch has, from PyTorch's; two of its sentences about borders are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch import distributions as D
from jtorch.distributions.kl import _TABLE
from tests.distributions.cases import assert_same

torch = pytest.importorskip("torch", reason="PyTorch says what is right")

DIAGONALS = [[1.5, 0.2, 0.8], [1.0, 2.0, 3.0]]
FACTOR = [[1.0, 0.2], [-0.5, 0.7], [0.3, 2.0]]
PLACES = ({"loc": [0.2, 1.0], "scale": [0.5, 1.5]}, {"loc": [0.7, -1.0], "scale": [1.5, 1.0]})
CHANCES = ({"probs": [0.2, 0.7]}, {"probs": [0.4, 0.5]})
SHARES = ({"probs": [0.2, 0.8]}, {"probs": [0.4, 0.6]})
GIVEN = {  # two of each: the first as p, the second as q
    "Bernoulli": CHANCES,
    "Beta": (
        {"concentration1": [1.3, 2.5], "concentration0": [0.7, 1.1]},
        {"concentration1": [0.6, 1.5], "concentration0": [1.2, 2.0]},
    ),
    "Binomial": tuple({"total_count": [3.0, 5.0], **given} for given in CHANCES),
    "Categorical": SHARES,
    "Cauchy": PLACES,
    "ContinuousBernoulli": CHANCES,
    "Dirichlet": ({"concentration": [1.3, 2.5]}, {"concentration": [0.6, 1.5]}),
    "Exponential": ({"rate": [0.5, 2.0]}, {"rate": [1.5, 0.7]}),
    "Gamma": (
        {"concentration": [1.3, 2.5], "rate": [0.5, 2.0]}, {"concentration": [0.6, 1.5], "rate": [1.5, 0.7]},
    ),
    "Geometric": CHANCES,
    "Gumbel": PLACES,
    "HalfNormal": ({"scale": [0.5, 1.5]}, {"scale": [1.5, 1.0]}),
    "Laplace": PLACES,
    "LogNormal": PLACES,
    "LowRankMultivariateNormal": (
        {"loc": [[0.1, 0.7, 0.3], [1.0, 2.0, 0.0]], "cov_factor": FACTOR, "cov_diag": [0.5, 1.2, 0.8]},
        {"loc": [0.4, 0.1, -0.3], "cov_factor": [[0.4], [0.1], [1.3]], "cov_diag": DIAGONALS},
    ),
    "MultivariateNormal": (
        {"loc": [0.1, 0.7, 0.3], "scale_tril": [[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.4, 0.2, 1.5]]},
        {"loc": [0.4, 0.1, -0.3], "scale_tril": [[0.7, 0.0, 0.0], [0.9, 1.8, 0.0], [0.4, -0.2, 0.5]]},
    ),
    "Normal": PLACES,
    "OneHotCategorical": SHARES,
    "Pareto": ({"scale": [0.5, 1.5], "alpha": [2.5, 3.0]}, {"scale": [0.2, 1.7], "alpha": [1.5, 3.5]}),
    "Poisson": ({"rate": [0.5, 2.0]}, {"rate": [1.5, 0.7]}),
    "Uniform": ({"low": [0.3, 0.1], "high": [0.6, 0.9]}, {"low": [-1.0, 0.2], "high": [1.5, 2.0]}),
}  # fmt: skip
INSIDE = {"Pareto": {"low": [0.3, 1.8], "high": [0.6, 1.9]}}  # a uniform p that q has, for some q
BASES = ("TransformedDistribution", "Independent", "ExponentialFamily")
PAIRS = sorted((p.__name__, q.__name__) for p, q in _TABLE if p.__module__.startswith("jtorch."))
PAIRS = [pair for pair in PAIRS if pair[0] not in BASES]


def divergence(L, p, q, of_p=None):
    found = []
    for name, given in ((p, of_p or GIVEN[p][0]), (q, GIVEN[q][1])):
        leaves = {k: L.tensor(v, dtype=L.float64, requires_grad=k != "total_count") for k, v in given.items()}
        found.append((getattr(L.distributions, name)(**leaves), leaves))
    (p, p_leaves), (q, q_leaves) = found
    kl = L.distributions.kl_divergence(p, q)
    leaves = [v for v in (*p_leaves.values(), *q_leaves.values()) if v.requires_grad]
    finite = kl[kl < math.inf]
    grads = L.autograd.grad(finite.sum(), leaves, allow_unused=True) if finite.requires_grad else []
    return kl, [(g, leaf) for g, leaf in zip(grads, leaves, strict=False)]


def assert_same_divergence(p, q, of_p=None):
    (have, grads), (want, want_grads) = (divergence(L, p, q, of_p) for L in (jtorch, torch))
    assert_same(have, want)
    for (g, leaf), (w, _) in zip(grads, want_grads, strict=False):
        if w is not None or g is not None:
            finite = np.isfinite(have.detach().numpy())  # where it is not, PyTorch gives NaN or 0
            g, w = (leaf.detach().numpy() * 0 if x is None else x.numpy() for x in (g, w))
            if finite.all() or g.shape == finite.shape:
                keep = finite if g.shape == finite.shape else slice(None)
                np.testing.assert_allclose(g[keep], w[keep], rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_divergences(p, q):
    assert_same_divergence(p, q)
    if p == "Uniform" and q in INSIDE:
        assert_same_divergence(p, q, INSIDE[q])


def test_all_pairs_of_pytorch():
    theirs = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    missing = theirs - {(p.__name__, q.__name__) for p, q in _TABLE}
    assert missing == set()


def test_borders_that_both_share():
    """PyTorch has inf for these: it asks for q to end beyond p, not where p ends."""
    share = D.ContinuousBernoulli(0.3)
    assert D.kl_divergence(share, D.Uniform(0.0, 1.0)).item() == pytest.approx(-share.entropy().item())
    assert D.kl_divergence(share, D.Uniform(0.1, 2.0)).item() == math.inf
    uniform = D.Uniform(0.0, 1.0)
    points = (jtorch.arange(100000, dtype=jtorch.float64) + 0.5) / 100000
    assert D.kl_divergence(uniform, share).item() == pytest.approx(
        -share.log_prob(points).mean().item(), rel=1e-5
    )
    assert D.kl_divergence(D.Uniform(-0.1, 1.0), share).item() == math.inf


def test_heavy_tails_are_infinitely_far():
    heavy = D.Pareto(1.0, jtorch.tensor([0.5, 1.0, 1.5, 2.0, 2.5]))
    for q, finite in ((D.Exponential(1.0), 1.0), (D.Gamma(2.0, 1.0), 1.0), (D.Normal(0.0, 1.0), 2.0)):
        far = D.kl_divergence(heavy, q) == math.inf
        assert far.tolist() == [a <= finite for a in (0.5, 1.0, 1.5, 2.0, 2.5)]


def test_events_of_different_shapes():
    p = D.LowRankMultivariateNormal(jtorch.zeros(2), jtorch.ones(2, 1), jtorch.ones(2))
    q = D.LowRankMultivariateNormal(jtorch.zeros(3), jtorch.ones(3, 1), jtorch.ones(3))
    with pytest.raises(ValueError, match="different event shapes cannot be computed"):
        D.kl_divergence(p, q)


def test_inside_a_compiled_function():
    def f(loc, scale, a):
        p = D.Normal(loc, scale)
        near = D.kl_divergence(p, D.Laplace(0.0, a)) + D.kl_divergence(p, D.Gumbel(0.0, a))
        return near + D.kl_divergence(D.Exponential(scale), D.Gamma(a, 1.0))

    given = [jtorch.tensor(v, dtype=jtorch.float64) for v in ([0.2, 1.0], [0.5, 1.5], [1.3, 2.5])]
    assert_same(jtorch.compile(f, fullgraph=True)(*given), f(*given))
