"""Where parameters and samples may lie: ``constraint.check(value)`` says it per event.

Source: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.constraints
"""

from __future__ import annotations

from typing import Any

import jtorch

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "greater_than_eq", "half_open_interval",
    "independent", "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer",
    "real", "real_vector", "simplex", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region. ``event_dim`` rightmost dims together make one value, ``is_discrete`` says if it has gaps."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        """A bool tensor of the batch's shape."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """The support depends on parameters: the distribution has it as a property."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """A region whose rightmost dims make one event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        found = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if found.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return found.reshape((*found.shape[: found.dim() - n], -1)).all(-1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        bits = (value == 0) | (value == 1)
        return (value.sum(-1) == 1) & bits.all(-1)


class _Bounded(Constraint):
    """Between two bounds, or beyond one; prints its bounds."""

    def __init__(self, **bounds: Any) -> None:
        self.bounds = bounds
        vars(self).update(bounds)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.bounds.items())
        return f"{self.__class__.__name__[1:]}({shown})"


class _IntegerInterval(_Bounded):
    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Any) -> Any:
        low, high = self.bounds["lower_bound"], self.bounds["upper_bound"]
        return (value % 1 == 0) & (low <= value) & (value <= high)


class _IntegerGreaterThan(_Bounded):
    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.bounds["lower_bound"])


class _GreaterThan(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Any) -> Any:
        return self.bounds["lower_bound"] < value


class _GreaterThanEq(_GreaterThan):
    def check(self, value: Any) -> Any:
        return self.bounds["lower_bound"] <= value


class _LessThan(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(upper_bound=upper_bound)

    def check(self, value: Any) -> Any:
        return value < self.bounds["upper_bound"]


class _Interval(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Any) -> Any:
        return (self.bounds["lower_bound"] <= value) & (value <= self.bounds["upper_bound"])


class _HalfOpenInterval(_Interval):
    def check(self, value: Any) -> Any:
        return (self.bounds["lower_bound"] <= value) & (value < self.bounds["upper_bound"])


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        lower = (value.tril() == value).reshape((*value.shape[:-2], -1)).all(-1)
        return lower & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        close = jtorch.isclose(value, value.transpose(-2, -1), atol=1e-6).all(-2).all(-1)
        if not bool(close.all()):
            return close
        return (jtorch.linalg.eigvalsh(value.detach()) > 0).all(-1)


dependent = _Dependent()
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
integer_interval = _IntegerInterval
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
unit_interval = _Interval(0.0, 1.0)
simplex = _Simplex()
lower_cholesky = _LowerCholesky()
positive_definite = _PositiveDefinite()
