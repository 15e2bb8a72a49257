"""``jtorch.distributions``: probability distributions to draw from and to differentiate.

Source: https://docs.pytorch.org/docs/stable/distributions.html
"""

from jtorch.distributions import constraints, transforms, utils
from jtorch.distributions.bernoulli import Bernoulli
from jtorch.distributions.binomial import Binomial
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.cauchy import Cauchy
from jtorch.distributions.constraint_registry import biject_to, transform_to
from jtorch.distributions.dirichlet import Beta, Dirichlet
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.gamma import Chi2, Gamma
from jtorch.distributions.geometric import Geometric
from jtorch.distributions.gumbel import Gumbel
from jtorch.distributions.independent import Independent
from jtorch.distributions.kl import kl_divergence, register_kl
from jtorch.distributions.laplace import Laplace
from jtorch.distributions.log_normal import LogNormal
from jtorch.distributions.multivariate_normal import MultivariateNormal
from jtorch.distributions.normal import Normal
from jtorch.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from jtorch.distributions.poisson import Poisson
from jtorch.distributions.student_t import StudentT
from jtorch.distributions.transformed_distribution import TransformedDistribution
from jtorch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from jtorch.distributions.uniform import Uniform

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical",
    "Cauchy", "Chi2", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel",
    "Independent", "IndependentTransform", "Laplace", "LogNormal", "LowerCholeskyTransform",
    "MultivariateNormal", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "biject_to", "constraints",
    "identity_transform", "kl_divergence", "register_kl", "transform_to", "transforms", "utils",
]  # fmt: skip
