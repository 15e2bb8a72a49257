"""``biject_to`` and ``transform_to``: from a region to a transform of all reals onto it.

Source: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.constraint_registry
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core.number_ranges import is_number
from jtorch.distributions import constraints
from jtorch.distributions.transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)


class ConstraintRegistry:
    """A table from classes of constraints to functions that make a transform for one of them.

    >>> import jtorch
    >>> jtorch.distributions.biject_to(jtorch.distributions.constraints.positive)(jtorch.tensor(0.0))  # exp
    tensor(1.)
    >>> jtorch.distributions.transform_to(jtorch.distributions.constraints.simplex)(jtorch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable] = {}

    def register(self, constraint: Any, factory: Callable | None = None) -> Callable:
        """Decorate ``factory(constraint)``, or give it. Raises TypeError for what is no constraint."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform onto ``constraint``. Raises NotImplementedError for what nobody registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _onto_interval(c: Any) -> Transform:
    low, high = c.lower_bound, c.upper_bound
    if is_number(low) and is_number(high) and low == 0 and high == 1:
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _above(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])


def _below(c: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])


_BOTH: tuple[tuple[Any, Callable], ...] = (
    (constraints.real, lambda c: identity_transform),
    (constraints.greater_than, _above),
    (constraints.greater_than_eq, _above),
    (constraints.less_than, _below),
    (constraints.interval, _onto_interval),
    (constraints.half_open_interval, _onto_interval),
    (constraints.corr_cholesky, lambda c: CorrCholeskyTransform()),
)
# what is no bijection takes more numbers than the region has dimensions, and is smoother to optimize over
_ONTO_ONLY: tuple[tuple[Any, Callable], ...] = (
    (constraints.simplex, lambda c: SoftmaxTransform()),
    (constraints.lower_cholesky, lambda c: LowerCholeskyTransform()),
    (constraints.positive_definite, lambda c: PositiveDefiniteTransform()),
    (constraints.positive_semidefinite, lambda c: PositiveDefiniteTransform()),
)

for _registry in (biject_to, transform_to):

    def _of_base(c: Any, found: ConstraintRegistry = _registry) -> Transform:
        return IndependentTransform(found(c.base_constraint), c.reinterpreted_batch_ndims)

    def _of_parts(c: Any, found: ConstraintRegistry = _registry) -> Transform:
        return CatTransform([found(part) for part in c.cseq], c.dim, c.lengths)

    def _of_places(c: Any, found: ConstraintRegistry = _registry) -> Transform:
        return StackTransform([found(part) for part in c.cseq], c.dim)

    for _kind, _factory in (
        *_BOTH,
        (constraints.independent, _of_base),
        (constraints.cat, _of_parts),
        (constraints.stack, _of_places),
    ):
        _registry.register(_kind, _factory)

biject_to.register(constraints.simplex, lambda c: StickBreakingTransform())
for _kind, _factory in _ONTO_ONLY:
    transform_to.register(_kind, _factory)
