"""``ExponentialFamily``: entropies and divergences that follow from the log normalizer alone."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import distributions as D
from jtorch.distributions.exponential_family import bregman_divergence
from tests.each import each


def _t(values):
    return jtorch.tensor(values, dtype=jtorch.float64)


FAMILIES = {
    "Bernoulli": (lambda: D.Bernoulli(_t([0.2, 0.7])), lambda: D.Bernoulli(_t([0.4, 0.5]))),
    "Beta": (lambda: D.Beta(_t([1.3, 2.5]), _t([0.7, 1.1])), lambda: D.Beta(_t([0.6, 1.5]), _t([1.2, 2.0]))),
    "Chi2": (lambda: D.Chi2(_t([1.3, 2.5])), lambda: D.Chi2(_t([3.3, 0.5]))),
    "ContinuousBernoulli": (
        lambda: D.ContinuousBernoulli(_t([0.2, 0.7])), lambda: D.ContinuousBernoulli(_t([0.4, 0.9])),
    ),
    "Dirichlet": (lambda: D.Dirichlet(_t([[1.3, 2.5], [1.0, 2.0]])), lambda: D.Dirichlet(_t([0.6, 1.5]))),
    "Exponential": (lambda: D.Exponential(_t([0.5, 2.0])), lambda: D.Exponential(_t([1.5, 0.7]))),
    "Gamma": (
        lambda: D.Gamma(_t([1.3, 2.5]), _t([0.5, 2.0])), lambda: D.Gamma(_t([0.6, 1.5]), _t([1.5, 0.7])),
    ),
    "Normal": (
        lambda: D.Normal(_t([0.2, 1.0]), _t([0.5, 1.5])), lambda: D.Normal(_t([0.7, -1.0]), _t([1.5, 1.0])),
    ),
    "Poisson": (lambda: D.Poisson(_t([0.5, 2.0])), lambda: D.Poisson(_t([1.5, 0.7]))),
}  # fmt: skip
WITHOUT_CARRIER = ("Beta", "Dirichlet", "Poisson")


@each("name", list(FAMILIES))
def test_divergences_are_those_of_the_pairs(name):
    p, q = (make() for make in FAMILIES[name])
    found = bregman_divergence(p, q)
    np.testing.assert_allclose(found.detach().numpy(), D.kl_divergence(p, q).numpy(), rtol=1e-10)
    np.testing.assert_allclose(bregman_divergence(p, p).detach().numpy(), np.zeros(2), atol=1e-14)


@each("name", [name for name in FAMILIES if name not in WITHOUT_CARRIER])
def test_entropies_are_those_of_the_classes(name):
    d = FAMILIES[name][0]()
    found = D.ExponentialFamily.entropy(d).detach()
    np.testing.assert_allclose(found.numpy(), d.entropy().numpy(), rtol=1e-10)


def test_the_entropy_of_wishart_matrices():
    d = D.Wishart(_t([3.0, 4.5]), covariance_matrix=_t([[2.0, 0.3], [0.3, 1.0]]))
    found = D.ExponentialFamily.entropy(d).detach()
    np.testing.assert_allclose(found.numpy(), d.entropy().numpy(), rtol=1e-10)


@each("name", WITHOUT_CARRIER)
def test_what_has_no_mean_of_its_carrier(name):
    with pytest.raises(NotImplementedError):
        D.ExponentialFamily.entropy(FAMILIES[name][0]())


def test_the_same_classes_belong_to_it_as_in_pytorch():
    torch = pytest.importorskip("torch")

    def family(module):
        classes = ((name, getattr(module, name)) for name in D.__all__)
        return {n for n, c in classes if isinstance(c, type) and issubclass(c, module.ExponentialFamily)}

    assert family(D) == family(torch.distributions)


@each("name", list(FAMILIES))
def test_natural_parameters_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    d = FAMILIES[name][0]()
    facts = {
        k: torch.tensor(getattr(d, k).tolist(), dtype=torch.float64)
        for k in d.arg_constraints
        if k != "logits"
    }
    theirs = getattr(torch.distributions, name)(**facts)
    for have, want in zip(d._natural_params, theirs._natural_params, strict=True):
        np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-12)
    have, want = (p._log_normalizer(*p._natural_params) for p in (d, theirs))
    np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-10)


def _waiting(L):
    class Waiting(L.distributions.ExponentialFamily):
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -(-x).log()

    return Waiting


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_a_class_of_users(library):
    L = pytest.importorskip(library)
    kind, exponential = _waiting(L), L.distributions.Exponential
    p, q = L.tensor([0.5, 2.0], requires_grad=True), L.tensor([1.5, 0.7], requires_grad=True)
    assert L.allclose(kind(p).entropy(), exponential(p).entropy())
    found = L.distributions.kl_divergence(kind(p), kind(q))
    assert L.allclose(found, L.distributions.kl_divergence(exponential(p), exponential(q)))
    found.sum().backward()
    assert L.allclose(q.grad, (1 / p - 1 / q).detach())
    with pytest.raises(NotImplementedError, match="between different exponential families"):
        L.distributions.kl_divergence(kind(p), exponential(q))


def test_compiled():
    p, q = jtorch.tensor([0.5, 2.0]), jtorch.tensor([1.5, 0.7])
    kind = _waiting(jtorch)

    def both(p, q):
        return kind(p).entropy().detach(), D.kl_divergence(kind(p), kind(q)).detach()

    for have, want in zip(jtorch.compile(both, fullgraph=True)(p, q), both(p, q), strict=True):
        np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-6)
