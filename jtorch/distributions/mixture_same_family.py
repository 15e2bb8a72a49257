"""MixtureSameFamily. Source: https://docs.pytorch.org/docs/stable/distributions.html#mixturesamefamily"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.categorical import Categorical
from jtorch.distributions.distribution import Distribution
from jtorch.eager.public import Size, Tensor


class MixtureSameFamily(Distribution):
    """Values of one of the components, the last batch dim of ``component_distribution``, drawn each time.

    >>> import jtorch
    >>> from jtorch import distributions as D
    >>> parts = D.Normal(jtorch.tensor([-1.0, 2.0]), jtorch.tensor([0.5, 1.0]))
    >>> d = D.MixtureSameFamily(D.Categorical(jtorch.tensor([0.25, 0.75])), parts)
    >>> d.mean
    tensor(1.2500)
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        _check(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        shape = component_distribution.batch_shape[:-1]
        super().__init__(shape, component_distribution.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    @property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mean(self) -> Tensor:
        return self._averaged(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the components' variances and the variance of their means."""
        part = self._component_distribution
        apart = (part.mean - self.mean.unsqueeze(self._axis)).pow(2)
        return self._averaged(part.variance) + self._averaged(apart)

    @property
    def _axis(self) -> int:
        """Where the components are."""
        return -1 - len(self._event_shape)

    def _averaged(self, values: Tensor) -> Tensor:
        probs = self._mixture_distribution.probs
        probs = probs.reshape((*probs.shape, *(1,) * len(self._event_shape)))
        return (probs * values).sum(self._axis)

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(value.unsqueeze(self._axis))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        found = self._component_distribution.log_prob(value.unsqueeze(self._axis))
        return (found + jtorch.log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """All components are drawn, and one of them is taken."""
        with jtorch.no_grad():
            values = self._component_distribution.sample(sample_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            axis = values.dim() + self._axis
            chosen = chosen.reshape((*chosen.shape, *(1,) * (1 + len(self._event_shape))))
            shape = (*values.shape[:axis], 1, *values.shape[axis + 1 :])
            return values.gather(axis, chosen.expand(shape)).squeeze(axis)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        shape, count = Size(batch_shape), self._component_distribution.batch_shape[-1]
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        new._mixture_distribution = self._mixture_distribution.expand(shape)
        new._component_distribution = self._component_distribution.expand((*shape, count))
        new._validate_args = self._validate_args
        new._batch_shape, new._event_shape = shape, self._event_shape
        return new

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"


def _check(mixture: Any, component: Any) -> None:
    """PyTorch's sentences, with its spaces."""
    if not isinstance(mixture, Categorical):
        raise ValueError(
            " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
        )
    if not isinstance(component, Distribution):
        raise ValueError(
            "The Component distribution needs to be an instance of torch.distributions.Distribution"
        )
    own, of_component = mixture.batch_shape, component.batch_shape[:-1]
    for a, b in zip(reversed(own), reversed(of_component), strict=False):
        if a != 1 and b != 1 and a != b:
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({own}) is not compatible with "
                f"`component_distribution.batch_shape`({of_component})"
            )
    count, of_component = mixture.logits.shape[-1], component.batch_shape[-1]
    if count != of_component:
        raise ValueError(
            f"`mixture_distribution component` ({count}) does not equal "
            f"`component_distribution.batch_shape[-1]` ({of_component})"
        )
