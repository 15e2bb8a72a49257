"""Transforms, their registries and what they make of distributions, against PyTorch's."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import jtorch
from jtorch import distributions

torch = pytest.importorskip("torch", reason="PyTorch says what is right")

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.standard_normal((2, 3))
MATRICES = GENERATOR.standard_normal((2, 3, 3))
POSITIVE = np.abs(ROWS) + 0.1


def tensor(library, values, **more):
    return library.tensor(values, dtype=library.float64, **more)


def affine_by_tensors(L, D, **more):
    scale = tensor(L, [[0.5], [-2.0]])
    return D.AffineTransform(tensor(L, [1.0, 2.0, 3.0]), scale, **more)


MADE = {  # name -> (what makes it, its input)
    "exp": (lambda L, D: D.ExpTransform(), ROWS),
    "sigmoid": (lambda L, D: D.SigmoidTransform(), ROWS),
    "tanh": (lambda L, D: D.TanhTransform(), ROWS),
    "softplus": (lambda L, D: D.SoftplusTransform(), ROWS),
    "abs": (lambda L, D: D.AbsTransform(), ROWS),
    "power": (lambda L, D: D.PowerTransform(tensor(L, [2.0, -1.0, 0.5])), POSITIVE),
    "affine": (lambda L, D: D.AffineTransform(1.5, -2.0), ROWS),
    "affine of tensors": (affine_by_tensors, ROWS),
    "affine of vectors": (lambda L, D: affine_by_tensors(L, D, event_dim=1), ROWS),
    "softmax": (lambda L, D: D.SoftmaxTransform(), ROWS),
    "sticks": (lambda L, D: D.StickBreakingTransform(), ROWS),
    "lower": (lambda L, D: D.LowerCholeskyTransform(), MATRICES),
    "definite": (lambda L, D: D.PositiveDefiniteTransform(), MATRICES),
    "correlations": (lambda L, D: D.CorrCholeskyTransform(), ROWS),
    "composed": (lambda L, D: D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.ExpTransform()]), ROWS),
    "composed to vectors": (
        lambda L, D: D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.StickBreakingTransform()]), ROWS,
    ),
    "composed of vectors": (
        lambda L, D: D.ComposeTransform([D.StickBreakingTransform(), D.AffineTransform(1.0, 2.0)]), ROWS,
    ),
    "identity": (lambda L, D: D.identity_transform, ROWS),
    "inverse": (lambda L, D: D.ExpTransform().inv, POSITIVE),
    "inverse of composed": (
        lambda L, D: D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.ExpTransform()]).inv, POSITIVE,
    ),
    "independent": (lambda L, D: D.IndependentTransform(D.ExpTransform(), 1), ROWS),
    "reshape": (lambda L, D: D.ReshapeTransform((3, 3), (9,)), MATRICES),
    "cat": (
        lambda L, D: D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [2, 1]), ROWS,
    ),
    "cat of rows": (
        lambda L, D: D.CatTransform(
            [D.IndependentTransform(D.ExpTransform(), 1), D.AffineTransform(1.0, 2.0)], 0
        ), ROWS,
    ),
    "cat by default": (lambda L, D: D.CatTransform([D.ExpTransform(), D.TanhTransform()]), ROWS),
    "stack": (lambda L, D: D.StackTransform([D.ExpTransform(), D.AffineTransform(0.0, 3.0)], 0), ROWS),
    "cumulative": (lambda L, D: D.CumulativeDistributionTransform(D.Normal(tensor(L, 0.5), 2.0)), ROWS),
}  # fmt: skip
CHAINS = ["identity", "composed", "composed to vectors", "composed of vectors", "inverse of composed"]
NO_BIJECTION = ["abs", "softmax", "lower", "definite"]


def both(name):
    make, value = MADE[name]
    return [
        (make(library, library.distributions), tensor(library, value, requires_grad=True))
        for library in (jtorch, torch)
    ]


def assert_same(have, want, rtol=1e-10):
    np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", MADE)
def test_values_stretches_and_gradients(name):
    (t, x), (want_t, want_x) = both(name)
    y, want_y = t(x), want_t(want_x)
    assert_same(y, want_y)
    assert tuple(t.forward_shape(x.shape)) == tuple(want_t.forward_shape(want_x.shape)) == tuple(y.shape)
    loss, want_loss = (y * y).sum(), (want_y * want_y).sum()
    if name not in NO_BIJECTION:
        stretch, want = t.log_abs_det_jacobian(x, y), want_t.log_abs_det_jacobian(want_x, want_y)
        assert_same(stretch, want)
        assert tuple(stretch.shape) == tuple(want.shape)
        loss, want_loss = loss + stretch.sum(), want_loss + want.sum()
    loss.backward()
    want_loss.backward()
    assert_same(x.grad, want_x.grad, 1e-9)


@pytest.mark.parametrize("name", MADE)
def test_ways_back(name):
    (t, x), (want_t, want_x) = both(name)
    y = t(x).detach()
    back = t.inv(y)
    assert_same(back, want_t.inv(want_t(want_x).detach()), 1e-9)
    assert_same(t(back), y, 1e-9)
    assert t.inv.inv == t and t.inv.inv.inv == t.inv
    assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)
    if name != "cat of rows":  # regions of different dims have no check in PyTorch, either
        assert bool(t.codomain.check(y).all())
    if t.bijective:
        assert_same(back, x, 1e-8)
        assert_same(t.inv.log_abs_det_jacobian(y, x), -t.log_abs_det_jacobian(x, y))


@pytest.mark.parametrize("name", MADE)
def test_facts(name):
    (t, x), (want_t, _) = both(name)
    assert t.bijective == want_t.bijective
    assert repr(t) == repr(want_t)
    for region, want in ((t.domain, want_t.domain), (t.codomain, want_t.codomain)):
        assert region.event_dim == want.event_dim
        if "object at" not in repr(want) and name not in ("cat", "cat of rows", "cat by default", "stack"):
            assert repr(region) == repr(want)
        assert region.is_discrete == want.is_discrete
    assert t == t and t.inv == t.inv and t != distributions.AffineTransform(77.0, 1.0)
    assert_same(pickle.loads(pickle.dumps(t))(x), t(x))
    try:
        sign = want_t.sign
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            t.sign  # noqa: B018
        return
    np.testing.assert_array_equal(np.asarray(t.sign), np.asarray(sign))


@pytest.mark.parametrize("name", [n for n in MADE if n not in CHAINS])  # their parts keep the caches
def test_caches(name):
    (t, x), _ = both(name)
    kept = t.with_cache()
    assert kept.with_cache(1) is kept
    y = kept(x)
    assert kept.inv(y) is x and kept(x) is y
    assert_same(y, t(x))
    fresh = y.detach()
    assert kept.inv(fresh) is kept.inv(fresh)
    assert kept.with_cache(0)(x) is not kept.with_cache(0)(x) or name == "reshape"


def test_caches_of_parts():
    chain = distributions.ComposeTransform(
        [distributions.TanhTransform(), distributions.AffineTransform(0.0, 2.0)]
    )
    kept = chain.with_cache(1)
    x = jtorch.tensor([40.0])
    assert kept.inv(kept(x)).item() == 40.0
    assert chain.inv(chain(x)).item() == float("inf")
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        distributions.ExpTransform(cache_size=2)


def errors(L):
    D, t = L.distributions, L.tensor
    return [
        lambda: D.ReshapeTransform((2,), (3,)),
        lambda: D.ReshapeTransform((2, 2), (4,)).forward_shape((2,)),
        lambda: D.ReshapeTransform((2, 2), (4,)).forward_shape(L.Size((3, 3))),
        lambda: D.IndependentTransform(D.ExpTransform(), 2)(t([1.0])),
        lambda: D.StickBreakingTransform().event_dim + D.CorrCholeskyTransform().event_dim,
        lambda: D.CorrCholeskyTransform().forward_shape(L.Size((4,))),
        lambda: D.CorrCholeskyTransform().inverse_shape(L.Size((2, 3))),
        lambda: D.CorrCholeskyTransform()(t([1.0, 2.0])),
        lambda: D.StickBreakingTransform().forward_shape(L.Size(())),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]),
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()).log_prob(t(-1.0)),
        lambda: D.CatTransform([D.ExpTransform()], 0, [2])(t([1.0])),
        lambda: D.StackTransform([D.ExpTransform()], 1)(t([1.0])),
        lambda: D.AbsTransform().sign,
        lambda: D.AbsTransform().log_abs_det_jacobian(t(1.0), t(1.0)),
        lambda: D.biject_to(D.constraints.lower_cholesky),
        lambda: D.transform_to(D.constraints.boolean),
        lambda: D.transform_to.register(int, int),
        lambda: D.utils.vec_to_tril_matrix(t([1.0, 2.0])),
        lambda: D.utils.tril_matrix_to_vec(L.eye(2), 2),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(22))
def test_error_sentences(number):
    kinds = (ValueError, NotImplementedError, AssertionError, TypeError)
    with pytest.raises(kinds) as want:
        errors(torch)[number]()
    with pytest.raises(kinds) as have:
        errors(jtorch)[number]()
    assert type(have.value) is type(want.value)
    assert str(have.value) == str(want.value).replace("torch.distributions", "jtorch.distributions")


REGIONS = {
    "real": lambda C: C.real,
    "real_vector": lambda C: C.real_vector,
    "positive": lambda C: C.positive,
    "nonnegative": lambda C: C.nonnegative,
    "unit_interval": lambda C: C.unit_interval,
    "greater_than": lambda C: C.greater_than(2.0),
    "less_than": lambda C: C.less_than(2.0),
    "interval": lambda C: C.interval(-1.0, 3.0),
    "half_open_interval": lambda C: C.half_open_interval(-1.0, 3.0),
    "simplex": lambda C: C.simplex,
    "corr_cholesky": lambda C: C.corr_cholesky,
    "independent": lambda C: C.independent(C.positive, 1),
    "cat": lambda C: C.cat([C.positive, C.unit_interval], -1, [2, 1]),
    "stack": lambda C: C.stack([C.positive, C.real], 0),
}
MATRIX_REGIONS = {
    "lower_cholesky": lambda C: C.lower_cholesky,
    "positive_definite": lambda C: C.positive_definite,
    "positive_semidefinite": lambda C: C.positive_semidefinite,
}


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("name", REGIONS | MATRIX_REGIONS)
def test_registries(name, registry):
    if name in MATRIX_REGIONS and registry == "biject_to":
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            distributions.biject_to(MATRIX_REGIONS[name](distributions.constraints))
        return
    found = []
    for L in (jtorch, torch):
        region = (REGIONS | MATRIX_REGIONS)[name](L.distributions.constraints)
        t = getattr(L.distributions, registry)(region)
        y = t(tensor(L, MATRICES if name in MATRIX_REGIONS else ROWS))
        assert bool(region.check(y).all())
        assert t.bijective or registry == "transform_to"
        found.append((y, region.check(y), region.event_dim, repr(t)))
    assert_same(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1].numpy(), found[1][1].numpy())
    assert found[0][2:] == found[1][2:]


def test_own_registry():
    class Even(distributions.constraints.Constraint):
        pass

    @distributions.biject_to.register(Even)
    def _(region):
        return distributions.AffineTransform(0.0, 2.0)

    assert distributions.biject_to(Even())(jtorch.tensor(3.0)).item() == 6.0


INSIDE = {
    "lower_triangular": [[[1.0, 0.0], [2.0, -3.0]], [[1.0, 2.0], [0.0, 1.0]]],
    "lower_cholesky": [[[1.0, 0.0], [2.0, -3.0]], [[1.0, 0.0], [2.0, 3.0]]],
    "corr_cholesky": [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]],
    "square": [[[1.0, 0.0]]],
    "symmetric": [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [3.0, 1.0]]],
    "positive_semidefinite": [[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]],
    "positive_definite": [[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 1.0]]],
}


@pytest.mark.parametrize("name", INSIDE)
def test_regions_of_matrices(name):
    have, want = (
        getattr(L.distributions.constraints, name).check(tensor(L, INSIDE[name])) for L in (jtorch, torch)
    )
    assert have.tolist() == want.tolist()


def test_regions_of_counts_and_mixtures():
    for L in (jtorch, torch):
        C = L.distributions.constraints
        counts = C.multinomial(3)
        assert counts.check(tensor(L, [[1.0, 2.0], [3.0, 1.0], [-1.0, 2.0]])).tolist() == [True, False, False]
        mixture = C.MixtureSameFamilyConstraint(C.positive)
        assert mixture.check(tensor(L, [1.0, -1.0])).tolist() == [True, False]
        assert repr(mixture) == "MixtureSameFamilyConstraint(GreaterThan(lower_bound=0.0))"

        class Mine:
            @C.dependent_property(is_discrete=True, event_dim=1)
            def support(self, C=C):
                return C.simplex

        assert C.is_dependent(Mine.support) and Mine.support.event_dim == 1 and Mine.support.is_discrete
        assert repr(Mine().support) == "Simplex()"
        told = C.dependent(is_discrete=True, event_dim=2)
        assert C.is_dependent(told) and told.is_discrete and told.event_dim == 2


def squashed(L, base, **more):
    D = L.distributions
    chain = [D.AffineTransform(tensor(L, [1.0, 2.0, 3.0]), 0.5), D.TanhTransform(**more)]
    return D.TransformedDistribution(base, chain)


TRANSFORMED = {
    "squashed": lambda L, loc: squashed(L, L.distributions.Normal(loc, 1.0)),
    "falling": lambda L, loc: L.distributions.TransformedDistribution(
        L.distributions.Normal(loc, 1.0), L.distributions.AffineTransform(1.0, -2.0)
    ),
    "none": lambda L, loc: L.distributions.TransformedDistribution(L.distributions.Normal(loc, 1.0), []),
    "broadcast": lambda L, loc: squashed(L, L.distributions.Normal(loc[:, :1], 1.0)),
    "sticks": lambda L, loc: L.distributions.TransformedDistribution(
        L.distributions.Normal(loc, 1.0), L.distributions.StickBreakingTransform()
    ),
    "joint": lambda L, loc: L.distributions.TransformedDistribution(
        L.distributions.MultivariateNormal(loc, L.eye(3, dtype=L.float64)), L.distributions.ExpTransform()
    ),
    "independent": lambda L, loc: squashed(
        L, L.distributions.Independent(L.distributions.Normal(loc, 1.0), 1)
    ),
    "reshaped": lambda L, loc: L.distributions.TransformedDistribution(
        L.distributions.Normal(loc, 1.0), L.distributions.ReshapeTransform((2, 3), (3, 2))
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_distributions(name):
    jtorch.manual_seed(0)
    found, value = [], None
    for L in (jtorch, torch):
        loc = tensor(L, ROWS, requires_grad=True)
        d = TRANSFORMED[name](L, loc)
        value = d.sample((4,)).numpy() if value is None else value
        log_prob = d.log_prob(tensor(L, value))
        log_prob.sum().backward()
        assert tuple(d.rsample((4,)).shape) == value.shape and d.has_rsample and not d.sample().requires_grad
        wide = d.expand((5, *d.batch_shape))
        assert tuple(wide.sample().shape) == (5, *d.batch_shape, *d.event_shape)
        facts = [tuple(d.batch_shape), tuple(d.event_shape), repr(d), repr(d.support)]
        facts.append(repr(type(d.base_dist)).rpartition(".")[2])
        values = [log_prob, loc.grad, wide.log_prob(tensor(L, value[:1]))]
        if name in ("squashed", "falling", "none", "broadcast"):
            values += [d.cdf(tensor(L, value)), d.icdf(tensor(L, np.full((2, 3), 0.3)))]
        found.append((facts, values))
    assert found[0][0] == found[1][0]
    for have, want in zip(found[0][1], found[1][1], strict=True):
        assert_same(have, want, 1e-8)


def test_gradients_through_transformed_samples():
    loc = tensor(jtorch, ROWS, requires_grad=True)
    d = squashed(jtorch, distributions.Normal(loc, 1.0))
    y = d.rsample()
    y.sum().backward()
    assert_same(loc.grad, 0.5 * (1 - y * y))


def test_divergences_of_transformed():
    found = []
    for L in (jtorch, torch):
        D = L.distributions
        p, q = (squashed(L, D.Normal(tensor(L, ROWS), s)) for s in (1.0, 2.0))
        found.append(D.kl_divergence(p, q))
        with pytest.raises(NotImplementedError):
            D.kl_divergence(p, D.LogNormal(tensor(L, ROWS), 1.0))
    assert_same(*found)


@pytest.mark.slow
def test_a_transformed_distribution_inside_a_compiled_function():
    """The update of a policy that is squashed to (-1, 1)."""

    def loss(loc, scale):
        base = distributions.Normal(loc, scale)
        d = distributions.TransformedDistribution(base, [distributions.TanhTransform(cache_size=1)])
        action = d.rsample()
        return d.log_prob(action).sum() - action.square().sum()

    found = []
    for f in (loss, jtorch.compile(loss)):
        jtorch.manual_seed(0)
        for _ in range(2):
            loc = tensor(jtorch, ROWS, requires_grad=True)
            scale = tensor(jtorch, POSITIVE, requires_grad=True)
            value = f(loc, scale)
            value.backward()
        found.append((value, loc.grad, scale.grad))
    for have, want in zip(found[1], found[0], strict=True):
        assert_same(have, want, 1e-9)


RECORDED = [  # a compilation each, so one of every kind
    "exp", "softplus", "power", "affine of vectors", "softmax", "sticks", "definite", "correlations",
    "composed of vectors", "independent", "reshape", "cat", "stack", "cumulative",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_inside_compiled_functions(name):
    (t, x), _ = both(name)

    def f(x):
        y = t(x)
        return (y, t.inv(y)) if name in NO_BIJECTION else (y, t.inv(y), t.log_abs_det_jacobian(x, y))

    for have, want in zip(jtorch.compile(f)(x), f(x), strict=True):
        assert_same(have, want, 1e-9)
