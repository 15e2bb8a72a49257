"""OneHotCategorical. Source: https://docs.pytorch.org/docs/stable/distributions.html#onehotcategorical"""

from __future__ import annotations

from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.over_categorical import OverCategorical
from jtorch.eager.public import Tensor


class OneHotCategorical(OverCategorical):
    """``Categorical`` whose values are rows of zeros with a 1 in the place of the index.

    >>> import jtorch
    >>> d = jtorch.distributions.OneHotCategorical(probs=jtorch.tensor([0.25, 0.75]))
    >>> d.sample().sum(), d.log_prob(jtorch.tensor([0.0, 1.0])).exp()
    (tensor(1.), tensor(0.7500))
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, indices: Tensor) -> Tensor:
        places = jtorch.arange(self._event_shape[0])
        return (indices.unsqueeze(-1) == places).to(self._categorical._parameter.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = jtorch.eye(n, dtype=self._categorical._parameter.dtype)
        values = values.view((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(type(self).__new__(type(self)), batch_shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with samples whose gradient is that of ``probs``.

    >>> import jtorch
    >>> probs = jtorch.tensor([0.25, 0.75], requires_grad=True)
    >>> sample = jtorch.distributions.OneHotCategoricalStraightThrough(probs=probs).rsample()
    >>> sample.sum().item(), sample.requires_grad
    (1.0, True)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())
