"""Every distribution against PyTorch's: values, gradients, shapes, errors; samples against their own cdf."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from scipy import special

import jtorch
import jtorch.distributions as distributions
from tests.distributions.cases import CASES, COVARIANCE, assert_same, both, made

CONTINUOUS = [
    "normal", "log_normal", "laplace", "gumbel", "uniform", "exponential", "cauchy", "half_normal",
    "half_cauchy", "pareto", "generalized_pareto", "weibull", "kumaraswamy", "continuous_bernoulli",
]  # fmt: skip
OTHERWISE = ["von_mises"]  # PyTorch's Bessel functions are polynomials of 2e-7: compared in test_samples.py
# PyTorch's trigamma, in gradients of digamma, differs from mpmath's by up to 5e-10 of its size (near 1.15),
# SciPy's by 6e-16; differences of trigammas, as in these gradients, lose a digit more.
TRIGAMMA = 1e-8
OF_GAMMAS = [
    "gamma", "chi2", "beta", "dirichlet", "student_t", "inverse_gamma", "fisher_snedecor", "wishart",
    "wishart_covariance", "wishart_precision",
]  # fmt: skip
OF_DIGAMMAS = [*OF_GAMMAS, "kumaraswamy"]


@pytest.fixture(autouse=True)
def _default_dtype_of_torch(request):
    """PyTorch's GeneralizedPareto compares its parameters with a tensor of the default dtype."""
    if "generalized_pareto" not in request.node.name:
        yield
        return
    torch = pytest.importorskip("torch")
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", [n for n in CASES if n not in OTHERWISE])
def test_log_prob_and_its_gradients(name):
    (d, leaves, value), (t, t_leaves, t_value) = both(name)
    have, want = d.log_prob(value), t.log_prob(t_value)
    assert_same(have, want)
    have.sum().backward()
    want.sum().backward()
    for key, leaf in leaves.items():
        assert_same(leaf.grad, t_leaves[key].grad)


@pytest.mark.parametrize("name", [n for n in CASES if n not in OTHERWISE])
@pytest.mark.parametrize("fact", ["mean", "mode", "variance", "stddev", "entropy"])
def test_facts(name, fact):
    (d, leaves, _), (t, t_leaves, _) = both(name)
    get = (lambda made: made.entropy()) if fact == "entropy" else operator.attrgetter(fact)
    try:
        want = get(t)
    except NotImplementedError as error:
        with pytest.raises(NotImplementedError) as raised:
            get(d)
        assert str(raised.value)[-25:] == str(error)[-25:]
        return
    have = get(d)
    if fact == "entropy" and "multinomial" in name:  # PyTorch's has a term in float32: see test_samples.py
        assert have.dtype is jtorch.float64
        return
    assert_same(have, want)
    if want.requires_grad and fact != "mode":
        have.sum().backward()
        want.sum().backward()
        for key, leaf in leaves.items():
            if t_leaves[key].grad is not None:
                rtol = TRIGAMMA if name in OF_DIGAMMAS and fact == "entropy" else 1e-10
                assert_same(leaf.grad, t_leaves[key].grad, rtol)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf_and_its_inverse(name):
    (d, _, value), (t, _, t_value) = both(name)
    assert_same(d.cdf(value), t.cdf(t_value))
    u = jtorch.tensor([[0.1, 0.5, 0.9], [0.25, 0.75, 0.6]], dtype=jtorch.float64)
    torch = pytest.importorskip("torch")
    assert_same(d.icdf(u), t.icdf(torch.tensor(u.tolist(), dtype=torch.float64)))
    np.testing.assert_allclose(d.cdf(d.icdf(u)).detach().numpy(), u.numpy(), atol=1e-9)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Singular sample detected")  # by PyTorch, of any sample
def test_shapes_repr_and_flags(name):
    (d, _, _), (t, _, _) = both(name)
    assert repr(d) == repr(t)
    for sample_shape in ((), (4,), (2, 3)):
        assert tuple(d.sample(sample_shape).shape) == tuple(t.sample(sample_shape).shape)
    assert tuple(d.batch_shape) == tuple(t.batch_shape)
    assert tuple(d.event_shape) == tuple(t.event_shape)
    assert d.has_rsample == t.has_rsample
    assert d.has_enumerate_support == t.has_enumerate_support
    assert not d.sample().requires_grad


@pytest.mark.parametrize("name", [n for n in CASES if n not in OTHERWISE])
@pytest.mark.filterwarnings("ignore:Singular sample detected")  # by PyTorch, of any sample
def test_expand(name):
    (d, _, value), (t, _, t_value) = both(name)
    wide, t_wide = d.expand((4, 2, *d.batch_shape[1:])), t.expand((4, 2, *t.batch_shape[1:]))
    assert tuple(wide.batch_shape) == tuple(t_wide.batch_shape)
    assert_same(wide.log_prob(value), t_wide.log_prob(t_value))
    assert tuple(wide.sample((3,)).shape) == tuple(t_wide.sample((3,)).shape)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_follow_the_cdf(name):
    jtorch.manual_seed(3)
    d, _, _ = made(jtorch, name)
    u = d.cdf(d.sample((4000,))).detach().numpy().reshape(4000, -1)
    steps = np.arange(1, 4001) / 4000
    for column in u.T:  # Kolmogorov-Smirnov at the 0.1% level
        assert np.abs(np.sort(column) - steps).max() < 1.95 / math.sqrt(4000)


MEANS = {  # of a function of samples that has a variance where they have none
    "student_t": lambda x: (1 + x.square()).log(), "inverse_gamma": lambda x: 1 / (1 + x),
    "fisher_snedecor": lambda x: x / (1 + x),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_GAMMAS)
def test_gradients_of_gamma_variables_add_up_to_those_of_means(name):
    """The mean over samples of their gradient, against the gradient of the mean."""
    jtorch.manual_seed(5)
    d, leaves, _ = made(jtorch, name)
    of, given = MEANS.get(name), list(leaves.values())
    sample = d.rsample((40000,))
    assert sample.requires_grad and not d.sample().requires_grad
    have = jtorch.autograd.grad((of(sample) if of else sample).mean(0).sum(), given, retain_graph=True)
    if of:
        drawn = d.sample((400000,))
        score = d.log_prob(drawn) * (of(drawn) - of(drawn).mean(0))
        want = jtorch.autograd.grad(score.mean(0).sum(), given)
    else:
        want = jtorch.autograd.grad(d.mean.sum(), given, allow_unused=True)
    for g, w in zip(have, want, strict=True):
        expected = np.zeros(g.shape) if w is None else w.numpy()
        np.testing.assert_allclose(g.numpy(), expected, rtol=0.03, atol=0.02)


def test_gradient_of_a_gamma_variable_is_that_of_its_share():
    """x moves with the shape so that the share of draws below it stays."""
    for a in (1e-3, 0.2, 1.0, 7.5, 400.0, 1e5):
        shape = jtorch.full((200,), a, dtype=jtorch.float64, requires_grad=True)
        x = distributions.Gamma(shape, 1.0).rsample()
        (g,) = jtorch.autograd.grad(x.sum(), shape)
        x, step = x.detach().numpy(), 1e-4 * min(a, a**0.5)
        kept = x > 1e-200
        moved = special.gammainc(a + step, x) - special.gammainc(a - step, x)
        want = -moved / (2 * step) / np.exp((a - 1) * np.log(x) - x - special.gammaln(a))
        inside = kept & (np.abs(special.gammainc(a, x) - 0.5) < 0.49)
        np.testing.assert_allclose(g.numpy()[inside], want[inside], rtol=1e-4)


def test_gradients_of_gamma_variables_are_not_differentiated_again():
    shape = jtorch.tensor(2.0, requires_grad=True)
    (g,) = jtorch.autograd.grad(distributions.Gamma(shape, 1.0).rsample(), shape, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.backward()


def test_shares_of_small_concentrations_have_gradients():
    concentration = jtorch.full((3,), 1e-3, requires_grad=True)
    shares = distributions.Dirichlet(concentration).rsample((50,))
    shares[:, 0].sum().backward()
    assert concentration.grad.isfinite().all() and (shares.sum(-1) - 1).abs().max() < 1e-5


WITHOUT_MEAN = ["logistic_normal", "relaxed", "lkj", "von_mises", "categorical"]


@pytest.mark.parametrize(
    "name",
    [n for n in CASES if n not in (*CONTINUOUS, "student_t") and not any(w in n for w in WITHOUT_MEAN)],
)
def test_moments_of_samples(name):
    jtorch.manual_seed(4)
    d, _, _ = made(jtorch, name)
    drawn = d.sample((20000,)).numpy()
    error = 5 * d.stddev.detach().numpy() / math.sqrt(20000)
    assert (np.abs(drawn.mean(0) - d.mean.detach().numpy()) <= error).all()


def test_categorical_frequencies():
    jtorch.manual_seed(5)
    d = distributions.Categorical(jtorch.tensor([0.0, 1.0, 3.0, 6.0]))
    drawn = d.sample((20000,))
    assert drawn.dtype is jtorch.int64
    shares = np.bincount(drawn.numpy(), minlength=4) / 20000
    assert shares[0] == 0
    np.testing.assert_allclose(shares, [0, 0.1, 0.3, 0.6], atol=0.02)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n != "cauchy"])
def test_gradients_through_rsample(name):
    """The derivative of a sample by a parameter at fixed noise: as the inverse cdf at fixed u says."""
    d, leaves, _ = made(jtorch, name)
    sample = d.rsample()
    have = jtorch.autograd.grad(sample.sum(), list(leaves.values()), retain_graph=True)
    again = d.icdf(d.cdf(sample).detach())
    want = jtorch.autograd.grad(again.sum(), list(leaves.values()))
    for g, w in zip(have, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-6)


def test_multivariate_rsample_gradients():
    d, leaves, _ = made(jtorch, "multivariate")
    sample = d.rsample()
    (g,) = jtorch.autograd.grad(sample.sum(), [leaves["loc"]])
    assert (g.numpy() == 1).all()


PAIRS = [
    ("normal", {"loc": 0.3, "scale": 2.0}), ("log_normal", {"loc": 0.3, "scale": 2.0}),
    ("laplace", {"loc": 0.3, "scale": 2.0}), ("exponential", {"rate": 1.3}), ("poisson", {"rate": 1.3}),
    ("uniform", {"low": 0.0, "high": 4.5}), ("bernoulli", {"probs": 0.3}), ("geometric", {"probs": 0.3}),
    ("gamma", {"concentration": 1.3, "rate": 0.7}), ("dirichlet", {"concentration": [0.5, 2.0, 1.0]}),
    ("beta", {"concentration1": 1.3, "concentration0": 0.7}),
    ("binomial", {"total_count": 7.0, "probs": 0.3}), ("cauchy", {"loc": 0.3, "scale": 2.0}),
    ("categorical", {"probs": [0.2, 0.0, 0.8]}), ("one_hot", {"logits": [0.2, 0.1, 0.8]}),
    ("multivariate", {"loc": [0.0, 1.0, 2.0], "covariance_matrix": COVARIANCE}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "other"), PAIRS, ids=[p[0] for p in PAIRS])
def test_divergences(name, other):
    torch = pytest.importorskip("torch")
    found = []
    for library in (jtorch, torch):
        p, leaves, _ = made(library, name)
        given = {k: library.tensor(v, dtype=library.float64) for k, v in other.items()}
        q = getattr(library.distributions, CASES[name][0])(**given)
        kl = library.distributions.kl_divergence(p, q)
        grads = library.autograd.grad(kl[kl < math.inf].sum(), list(leaves.values()), allow_unused=True)
        found.append((kl, grads))
    (have, have_grads), (want, want_grads) = found
    assert_same(have, want)
    for g, w in zip(have_grads, want_grads, strict=True):
        if w is not None:
            assert_same(g, w, TRIGAMMA if name in OF_GAMMAS else 1e-10)


def test_unknown_divergence():
    p, q = distributions.Normal(0.0, 1.0), distributions.StudentT(1.0)
    with pytest.raises(NotImplementedError, match="is implemented for p type Normal and q type StudentT"):
        distributions.kl_divergence(p, q)


def test_registered_divergence():
    class Mine(distributions.Normal):
        pass

    @distributions.register_kl(Mine, distributions.Normal)
    def _(p, q):
        return jtorch.tensor(7.0)

    assert distributions.kl_divergence(Mine(0.0, 1.0), distributions.Normal(0.0, 1.0)).item() == 7
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        distributions.register_kl(int, distributions.Normal)


def test_independent():
    torch = pytest.importorskip("torch")
    found = []
    for library in (jtorch, torch):
        base, _, value = made(library, "normal")
        d = library.distributions.Independent(base, 1)
        assert tuple(d.batch_shape) == (2,)
        assert tuple(d.event_shape) == (3,)
        found.append((d.log_prob(value), d.entropy(), d.expand((4, 2)).log_prob(value), repr(d)))
    for have, want in zip(found[0][:3], found[1][:3], strict=True):
        assert_same(have, want)
    assert found[0][3] == found[1][3]
    with pytest.raises(ValueError, match="Expected reinterpreted_batch_ndims <= len"):
        distributions.Independent(made(jtorch, "normal")[0], 3)


def errors(library):
    D = library.distributions
    tensor = library.tensor
    return [
        lambda: D.Normal(0.0, tensor([1.0, -1.0])),
        lambda: D.Normal(float("nan"), 1.0),
        lambda: D.Normal("a", 1.0),
        lambda: D.Uniform(1.0, 1.0),
        lambda: D.Bernoulli(),
        lambda: D.Bernoulli(probs=1.5),
        lambda: D.Categorical(probs=tensor([-0.5, 1.0])),
        lambda: D.Categorical(probs=tensor(0.5)),
        lambda: D.Categorical(probs=tensor([0.5, 0.5])).log_prob(tensor(2)),
        lambda: D.Exponential(1.0).log_prob(tensor(-1.0)),
        lambda: D.Normal(tensor([0.0, 1.0]), 1.0).log_prob(tensor([1.0, 2.0, 3.0])),
        lambda: D.Normal(0.0, 1.0).log_prob(2.0),
        lambda: D.Uniform(0.0, 1.0).log_prob(tensor(2.0)),
        lambda: D.MultivariateNormal(tensor([0.0, 1.0])),
        lambda: D.MultivariateNormal(tensor(1.0), library.eye(1)),
        lambda: D.MultivariateNormal(tensor([0.0, 1.0]), tensor([[1.0, 2.0], [2.0, 1.0]])),
        lambda: D.OneHotCategorical(tensor([0.5, 0.5])).log_prob(tensor([1.0, 1.0])),
        lambda: D.Geometric(0.0),
        lambda: D.HalfNormal(-1.0),
        lambda: D.HalfCauchy(tensor([1.0, -1.0])),
        lambda: D.HalfNormal(1.0).log_prob(tensor(-1.0)),
        lambda: D.LogisticNormal(tensor([1.0, 2.0]), 1.0).log_prob(tensor([1.0, 2.0])),
        lambda: D.InverseGamma(-1.0, 1.0),
        lambda: D.Pareto(1.0, -1.0),
        lambda: D.Pareto(1.0, 1.0).log_prob(tensor(0.5)),
        lambda: D.GeneralizedPareto(0.0, 1.0, -0.5).log_prob(tensor(3.0)),
        lambda: D.Weibull(-1.0, 1.0),
        lambda: D.Kumaraswamy(1.0, 1.0).log_prob(tensor(3.0)),
        lambda: D.VonMises(0.0, -1.0),
        lambda: D.NegativeBinomial(-1.0, 0.5),
        lambda: D.NegativeBinomial(1.0),
        lambda: D.NegativeBinomial(1.0, 0.5).log_prob(tensor(0.5)),
        lambda: D.Multinomial(2, tensor([0.5, 0.5])).log_prob(tensor([2.0, 1.0])),
        lambda: D.RelaxedBernoulli(tensor(1.0)),
        lambda: D.RelaxedBernoulli(tensor(1.0), 0.5).log_prob(tensor(2.0)),
        lambda: D.RelaxedOneHotCategorical(tensor(1.0), tensor([0.5, 0.5])).log_prob(tensor([1.0, 1.0])),
        lambda: D.ContinuousBernoulli(1.5, validate_args=True),
        lambda: D.ContinuousBernoulli(0.5).log_prob(tensor(1.5)),
        lambda: D.LKJCholesky(1),
        lambda: D.LKJCholesky(2).log_prob(tensor([[1.0, 0.0], [1.0, 1.0]])),
        lambda: D.MixtureSameFamily(3, 4),
        lambda: D.MixtureSameFamily(D.Categorical(tensor([0.5, 0.5])), 4),
        lambda: D.MixtureSameFamily(D.Categorical(tensor([0.5, 0.5])), D.Normal(library.zeros(3), 1.0)),
        lambda: D.MixtureSameFamily(D.Categorical(library.ones(3, 2)), D.Normal(library.zeros(4, 2), 1.0)),
        lambda: D.MixtureSameFamily(
            D.Categorical(tensor([0.5, 0.5])), D.Exponential(tensor([1.0, 2.0]))
        ).log_prob(tensor(-1.0)),
        lambda: D.LowRankMultivariateNormal(tensor(1.0), library.ones(1, 1), library.ones(1)),
        lambda: D.LowRankMultivariateNormal(library.ones(2), library.ones(2), library.ones(2)),
        lambda: D.LowRankMultivariateNormal(library.ones(2), library.ones(3, 1), library.ones(2)),
        lambda: D.LowRankMultivariateNormal(library.ones(2), library.ones(2, 1), library.ones(3)),
        lambda: D.LowRankMultivariateNormal(library.ones(2), library.ones(2, 2, 1), library.ones(3, 2)),
        lambda: D.Wishart(1.0, library.eye(3)),
        lambda: D.Wishart(4.0, tensor([1.0])),
        lambda: D.Wishart(4.0, tensor([[1.0, 2.0], [2.0, 1.0]])),
        lambda: D.Wishart(4.0, library.eye(2)).log_prob(-library.eye(2)),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(54))
def test_error_sentences(number):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError) as want:
        errors(torch)[number]()
    with pytest.raises(ValueError) as have:
        errors(jtorch)[number]()
    assert str(have.value) == str(want.value)


def test_unvalidated_values_pass():
    d = distributions.Uniform(0.0, 1.0, validate_args=False)
    assert d.log_prob(jtorch.tensor(2.0)).item() == -math.inf
    assert distributions.Normal(0.0, -1.0, validate_args=False).scale.item() == -1


def test_default_of_validation():
    distributions.Distribution.set_default_validate_args(False)
    try:
        distributions.Normal(0.0, -1.0)
    finally:
        distributions.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="satisfy the constraint"):
        distributions.Normal(0.0, -1.0)


def test_straight_through_gradient():
    probs = jtorch.tensor([0.2, 0.8], requires_grad=True)
    sample = distributions.OneHotCategoricalStraightThrough(probs).rsample((5,))
    assert sorted(set(np.round(sample.detach().numpy().ravel(), 6))) == [0, 1]
    (sample * jtorch.tensor([1.0, 3.0])).sum().backward()
    np.testing.assert_allclose(probs.grad.numpy(), [5 * (1 - 2.6), 5 * (3 - 2.6)], rtol=1e-5)


def test_enumerated_support():
    d = distributions.Categorical(jtorch.ones(2, 3))
    assert d.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert d.enumerate_support(expand=False).tolist() == [[0], [1], [2]]
    assert distributions.Bernoulli(jtorch.tensor([0.5])).enumerate_support().tolist() == [[0.0], [1.0]]
    one_hot = distributions.OneHotCategorical(jtorch.ones(2, 3)).enumerate_support()
    assert tuple(one_hot.shape) == (3, 2, 3)


@pytest.mark.parametrize("concentration", [0.001, 0.01, 0.3, 2.0])
def test_shares_of_small_concentrations_have_no_ties(concentration: float) -> None:
    jtorch.manual_seed(0)
    drawn = distributions.Beta(concentration, concentration).sample((4000,)).numpy()
    assert (drawn == 0.5).mean() < 0.001 and drawn.min() > 0 and drawn.max() < 1
    deviation = 0.5 / math.sqrt(2 * concentration + 1)
    assert abs(drawn.mean() - 0.5) < 5 * deviation / math.sqrt(4000)
    assert drawn.std() == pytest.approx(deviation, rel=0.06)


def subclasses(library):
    """As programs write them: with attributes of their own, which ``expand`` of the base knows nothing of."""
    D = library.distributions

    class Named(D.HalfNormal):
        def __init__(self, scale, name):
            self.name = name
            super().__init__(scale)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Named, _instance)
            new.name = self.name
            return super().expand(batch_shape, _instance=new)

    class Careless(D.Weibull):
        def __init__(self, name):
            self.name = name
            super().__init__(1.0, 2.0)

    return Named(library.tensor([1.0, 2.0]), "a"), Careless("b")


def test_expand_of_subclasses():
    torch = pytest.importorskip("torch")
    sentences = []
    for library in (jtorch, torch):
        named, careless = subclasses(library)
        wide = named.expand((3, 2))
        assert type(wide) is type(named) and wide.name == "a" and tuple(wide.sample().shape) == (3, 2)
        with pytest.raises(NotImplementedError) as raised:
            careless.expand((3,))
        sentences.append(str(raised.value))
    assert sentences[0] == sentences[1]
