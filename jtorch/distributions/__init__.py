"""``jtorch.distributions``: probability distributions to draw from and to differentiate.

Source: https://docs.pytorch.org/docs/stable/distributions.html
"""

from jtorch.distributions import constraints, kl_across, kl_lowrank, transforms, utils
from jtorch.distributions.bernoulli import Bernoulli
from jtorch.distributions.binomial import Binomial
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.cauchy import Cauchy
from jtorch.distributions.constraint_registry import biject_to, transform_to
from jtorch.distributions.continuous_bernoulli import ContinuousBernoulli
from jtorch.distributions.dirichlet import Beta, Dirichlet
from jtorch.distributions.distribution import Distribution
from jtorch.distributions.exponential import Exponential
from jtorch.distributions.exponential_family import ExponentialFamily
from jtorch.distributions.fisher_snedecor import FisherSnedecor
from jtorch.distributions.gamma import Chi2, Gamma
from jtorch.distributions.geometric import Geometric
from jtorch.distributions.gumbel import Gumbel
from jtorch.distributions.half import HalfCauchy, HalfNormal
from jtorch.distributions.independent import Independent
from jtorch.distributions.inverse_gamma import InverseGamma
from jtorch.distributions.kl import kl_divergence, register_kl
from jtorch.distributions.kumaraswamy import Kumaraswamy
from jtorch.distributions.laplace import Laplace
from jtorch.distributions.lkj_cholesky import LKJCholesky
from jtorch.distributions.log_normal import LogNormal
from jtorch.distributions.logistic_normal import LogisticNormal
from jtorch.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from jtorch.distributions.mixture_same_family import MixtureSameFamily
from jtorch.distributions.multinomial import Multinomial
from jtorch.distributions.multivariate_normal import MultivariateNormal
from jtorch.distributions.negative_binomial import NegativeBinomial
from jtorch.distributions.normal import Normal
from jtorch.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from jtorch.distributions.pareto import GeneralizedPareto, Pareto
from jtorch.distributions.poisson import Poisson
from jtorch.distributions.relaxed_bernoulli import RelaxedBernoulli
from jtorch.distributions.relaxed_categorical import RelaxedOneHotCategorical
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
from jtorch.distributions.von_mises import VonMises
from jtorch.distributions.weibull import Weibull
from jtorch.distributions.wishart import Wishart

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical",
    "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential",
    "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
    "HalfNormal",
    "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "PositiveDefiniteTransform", "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints", "identity_transform",
    "kl_divergence", "register_kl", "transform_to", "transforms", "utils",
]  # fmt: skip
