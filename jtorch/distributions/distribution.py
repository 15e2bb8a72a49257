"""``Distribution``: what all of them offer, and the checks of parameters and values.

Source: https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.distribution.Distribution
"""

from __future__ import annotations

from typing import Any, ClassVar

import jtorch
from jtorch.core import watch
from jtorch.distributions import constraints
from jtorch.eager.public import Size, Tensor


class Distribution:
    """A batch of distributions: samples have the shape (*sample_shape, *batch_shape, *event_shape).

    ``arg_constraints`` says where parameters must lie, ``support`` where values do; both are checked while
    ``validate_args`` is on, at the cost of a look at every element. Raises ValueError.

    >>> import jtorch
    >>> d = jtorch.distributions.Normal(jtorch.zeros(3), jtorch.ones(3))
    >>> d.batch_shape, d.event_shape, d.sample((2,)).shape
    (torch.Size([3]), torch.Size([]), torch.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: ClassVar[dict[str, Any]] = {}
    support: Any = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check their arguments, unless told otherwise."""
        if value not in (True, False):
            raise ValueError
        before, Distribution._validate_args = Distribution._validate_args, value
        watch.tell_all(  # recordings hold the checks, or not
            "validate_args of all distributions", lambda: Distribution._validate_args == before
        )

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or not self._is_given(name):
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                    f"values:\n{value}"
                )

    def _is_given(self, name: str) -> bool:
        """Whether the parameter is to be checked here: not what is computed of others when asked."""
        return name in vars(self)

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Random values off the tape."""
        with jtorch.no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        return self.sample((n,))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Random values as a differentiable function of the parameters."""
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of ``value``, one per event."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """In nats, of the batch's shape."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        return self.entropy().exp()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, repeated to ``batch_shape`` without copies.

        A subclass with an ``__init__`` of its own may fill in an instance that it made, ``_instance``.
        """
        shape = Size(batch_shape)
        new = type(self).__new__(type(self)) if _instance is None else _instance
        for name in self.arg_constraints:
            if name in vars(self):
                value, dims = getattr(self, name), self._parameter_dims(name)
                kept = tuple(value.shape[value.dim() - dims :]) if dims else ()
                setattr(new, name, value.expand((*shape, *kept)))
        self._expand_rest(new)
        new._validate_args = self._validate_args
        new._batch_shape, new._event_shape = shape, self._event_shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance for ``expand`` of ``cls`` to fill in: the one that a subclass made, or a new one.

        Raises NotImplementedError for a subclass whose ``__init__`` may do what ``expand`` knows nothing of.
        """
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def _parameter_dims(self, name: str) -> int:
        """Rightmost dims of a parameter that belong to one event."""
        return self.arg_constraints[name].event_dim

    def _expand_rest(self, new: Any) -> None:
        """Give ``new`` what is no parameter."""

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError where ``value`` does not fit the shapes or lies outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_start = len(value.shape) - len(self._event_shape)
        if tuple(value.shape[event_start:]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._extended_shape()
        for have, want in zip(reversed(value.shape), reversed(expected), strict=False):
            if have not in (1, want) and want != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        support = self.support
        if support is not None and not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
                "within "
                f"the support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        held = [(k, getattr(self, k)) for k in self.arg_constraints if k in vars(self)]
        shown = ", ".join(f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in held)
        return f"{self.__class__.__name__}({shown})"
