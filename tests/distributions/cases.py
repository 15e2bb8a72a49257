"""One of every distribution, in both libraries: its class, parameters and values that it may have."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import jtorch

A = [[0.4, 1.3, 2.2], [0.7, 3.1, 0.2]]
B = [[0.5], [1.7]]
P = [[0.2, 0.7, 0.45], [0.9, 0.01, 0.5]]
ROWS = [[0.2, 0.5, 0.3], [0.6, 0.15, 0.25]]
POINTS = [[0.3, -1.0, 4.0], [2.0, 0.0, 1.0]]
FACTOR = [[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.4, 0.2, 1.5]]
COVARIANCE = (np.array(FACTOR) @ np.array(FACTOR).T).tolist()
POSITIVES = [[0.3, 1.0, 4.0], [2.0, 0.5, 1.0]]
FOURS = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.3]]
SIXES = [[1.0, 2.0, 3.0], [0.0, 6.0, 0.0]]
DEGREES = [[5.5, 4.3, 9.2], [6.5, 4.7, 12.0]]
LOGITS = [[0.4, -1.3, 2.2], [0.001, 3.1, 0.0]]
COUNTS = [[0.0, 3.0, 7.0], [6.0, 1.0, 2.0]]
SHAPES = [[3.5, 4.3, 5.2], [2.5, 3.1, 4.2]]
WARM = [0.7]
CORRELATIONS = [
    [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, -0.6, 0.8]],
    [[1.0, 0.0, 0.0], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]],
]  # fmt: skip


def of_normals(library, probs, loc, scale):
    D = library.distributions
    return D.MixtureSameFamily(D.Categorical(probs), D.Normal(loc, scale))


def of_vectors(library, logits, loc):
    D = library.distributions
    vectors = D.MultivariateNormal(loc, scale_tril=library.tensor(FACTOR, dtype=loc.dtype))
    return D.MixtureSameFamily(D.Categorical(logits=logits), vectors)


CASES = {  # name -> (class, parameters, values)
    "normal": ("Normal", {"loc": A, "scale": B}, POINTS),
    "log_normal": ("LogNormal", {"loc": A, "scale": B}, [[0.3, 1.0, 4.0], [2.0, 0.1, 1.0]]),
    "laplace": ("Laplace", {"loc": A, "scale": B}, POINTS),
    "gumbel": ("Gumbel", {"loc": A, "scale": B}, POINTS),
    "uniform": ("Uniform", {"low": B, "high": [[3.0, 4.0, 5.0]]}, [[0.6, 2.0, 3.0], [2.0, 1.8, 4.0]]),
    "exponential": ("Exponential", {"rate": A}, [[0.3, 0.0, 4.0], [2.0, 0.5, 1.0]]),
    "poisson": ("Poisson", {"rate": A}, [[0.0, 3.0, 4.0], [2.0, 1.0, 7.0]]),
    "bernoulli": ("Bernoulli", {"probs": P}, [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
    "bernoulli_logits": ("Bernoulli", {"logits": A}, [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
    "geometric": ("Geometric", {"probs": P}, [[0.0, 1.0, 5.0], [1.0, 0.0, 3.0]]),
    "geometric_logits": ("Geometric", {"logits": A}, [[0.0, 1.0, 5.0], [1.0, 0.0, 3.0]]),
    "categorical": ("Categorical", {"probs": A}, [2.0, 0.0]),
    "categorical_logits": ("Categorical", {"logits": A}, [1.0, 2.0]),
    "one_hot": ("OneHotCategorical", {"probs": ROWS}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "one_hot_logits": ("OneHotCategorical", {"logits": A}, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "gamma": ("Gamma", {"concentration": A, "rate": B}, [[0.3, 1.0, 4.0], [2.0, 0.5, 1.0]]),
    "chi2": ("Chi2", {"df": A}, [[0.3, 1.0, 4.0], [2.0, 0.5, 1.0]]),
    "beta": ("Beta", {"concentration1": A, "concentration0": B}, P),
    "dirichlet": ("Dirichlet", {"concentration": A}, ROWS),
    "student_t": ("StudentT", {"df": [[3.5, 4.3, 5.2], [1.5, 3.1, 0.2]], "loc": A, "scale": B}, POINTS),
    "cauchy": ("Cauchy", {"loc": A, "scale": B}, POINTS),
    "binomial": ("Binomial", {"total_count": 7, "probs": P}, [[0.0, 3.0, 7.0], [6.0, 1.0, 2.0]]),
    "binomial_logits": ("Binomial", {"total_count": 7, "logits": A}, [[0.0, 3.0, 7.0], [6.0, 1.0, 2.0]]),
    "multivariate": ("MultivariateNormal", {"loc": A, "scale_tril": FACTOR}, POINTS),
    "multivariate_covariance": (
        "MultivariateNormal", {"loc": A, "covariance_matrix": COVARIANCE}, POINTS,
    ),
    "multivariate_precision": (
        "MultivariateNormal", {"loc": A, "precision_matrix": COVARIANCE}, POINTS,
    ),
    "half_normal": ("HalfNormal", {"scale": A}, POSITIVES),
    "half_cauchy": ("HalfCauchy", {"scale": A}, POSITIVES),
    "logistic_normal": ("LogisticNormal", {"loc": A, "scale": B}, FOURS),
    "inverse_gamma": ("InverseGamma", {"concentration": SHAPES, "rate": B}, POSITIVES),
    "fisher_snedecor": ("FisherSnedecor", {"df1": SHAPES, "df2": DEGREES}, POSITIVES),
    "pareto": ("Pareto", {"scale": B, "alpha": SHAPES}, [[0.6, 1.0, 4.0], [2.0, 1.8, 5.0]]),
    "generalized_pareto": (
        "GeneralizedPareto", {"loc": [[0.1], [0.3]], "scale": B, "concentration": [0.25, 0.0, -0.3]},
        [[0.6, 0.9, 1.1], [2.0, 1.8, 5.0]],
    ),
    "weibull": ("Weibull", {"scale": B, "concentration": SHAPES}, POSITIVES),
    "kumaraswamy": ("Kumaraswamy", {"concentration1": A, "concentration0": B}, P),
    "von_mises": ("VonMises", {"loc": A, "concentration": [[0.5], [7.0]]}, POINTS),
    "negative_binomial": ("NegativeBinomial", {"total_count": SHAPES, "probs": P}, COUNTS),
    "negative_binomial_logits": ("NegativeBinomial", {"total_count": 3, "logits": A}, COUNTS),
    "multinomial": ("Multinomial", {"total_count": 6, "probs": ROWS}, SIXES),
    "multinomial_logits": ("Multinomial", {"total_count": 6, "logits": A}, SIXES),
    "relaxed_bernoulli": ("RelaxedBernoulli", {"temperature": WARM, "probs": P}, P[::-1]),
    "relaxed_bernoulli_logits": ("RelaxedBernoulli", {"temperature": WARM, "logits": A}, P),
    "relaxed_one_hot": ("RelaxedOneHotCategorical", {"temperature": WARM, "probs": ROWS}, ROWS[::-1]),
    "relaxed_one_hot_logits": ("RelaxedOneHotCategorical", {"temperature": WARM, "logits": A}, ROWS),
    "continuous_bernoulli": ("ContinuousBernoulli", {"probs": P}, P[::-1]),
    "continuous_bernoulli_logits": ("ContinuousBernoulli", {"logits": LOGITS}, P),
    "lkj": ("LKJCholesky", {"dim": 3, "concentration": [0.7, 2.5]}, CORRELATIONS),
    "lkj_of_two": ("LKJCholesky", {"dim": 2, "concentration": 1.5}, [[1.0, 0.0], [0.6, 0.8]]),
    "mixture": (of_normals, {"probs": ROWS, "loc": A, "scale": B}, [0.3, -1.0]),
    "mixture_of_vectors": (of_vectors, {"logits": [0.3, 1.2], "loc": A}, [[0.3, -1.0, 0.7]]),
    "lowrank": (
        "LowRankMultivariateNormal",
        {"loc": A, "cov_factor": [[1.0, 0.2], [-0.5, 0.7], [0.3, 2.0]], "cov_diag": [0.5, 1.2, 0.8]}, POINTS,
    ),
    "lowrank_batch": (
        "LowRankMultivariateNormal",
        {"loc": [0.1, 0.7, 0.3], "cov_factor": [[[1.0], [0.5], [0.3]], [[0.2], [0.1], [2.0]]], "cov_diag": A},
        POINTS,
    ),
    "wishart": ("Wishart", {"df": [3.5, 6.0], "scale_tril": FACTOR}, [COVARIANCE, np.eye(3).tolist()]),
    "wishart_covariance": ("Wishart", {"df": 4.5, "covariance_matrix": COVARIANCE}, np.eye(3).tolist()),
    "wishart_precision": ("Wishart", {"df": [4.5, 7.0], "precision_matrix": COVARIANCE}, np.eye(3).tolist()),
}  # fmt: skip


def made(library, name):
    """(the distribution, its parameters as leaves, the value) in ``library``, in float64."""
    kind, parameters, value = CASES[name]
    leaves = {
        k: library.tensor(v, dtype=library.float64, requires_grad=True) if type(v) in (list, float) else v
        for k, v in parameters.items()
    }
    value = library.tensor(value, dtype=library.float64)
    make = getattr(library.distributions, kind) if isinstance(kind, str) else functools.partial(kind, library)
    made = make(**leaves)
    return made, {k: v for k, v in leaves.items() if not isinstance(v, int)}, value


def both(name):
    torch = pytest.importorskip("torch")
    return made(jtorch, name), made(torch, name)


def assert_same(have, want, rtol=1e-10):
    np.testing.assert_allclose(have.detach().numpy(), want.detach().numpy(), rtol=rtol, atol=1e-12)
    assert str(have.dtype).rpartition(".")[2] == str(want.dtype).rpartition(".")[2]
