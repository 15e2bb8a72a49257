"""``Transform``: a function between two regions, with its inverse and how much it stretches.

Source: https://docs.pytorch.org/docs/stable/distributions.html#module-torch.distributions.transforms
"""

from __future__ import annotations

from typing import Any

from jtorch.distributions.constraints import Constraint
from jtorch.eager.public import Tensor


class Transform:
    """A function from ``domain`` to ``codomain``, both constraints.

    A subclass defines ``_call``, ``_inverse`` or both, and ``log_abs_det_jacobian`` where it is
    ``bijective``. ``sign`` is 1 where it rises, -1 where it falls; a number or a tensor. With
    ``cache_size=1`` the last pair is kept, so that ``t.inv(t(x))`` is ``x`` itself: exact, and without
    a gradient by ``t(x)``. A compiled function makes such a transform itself: one from outside changes with
    each call, so it runs eagerly. Raises ValueError for other sizes than 0 and 1.

    >>> import jtorch
    >>> t = jtorch.distributions.AffineTransform(1.0, 2.0)
    >>> x, y = jtorch.tensor(3.0), jtorch.tensor(7.0)
    >>> t(x), t.inv(y), t.log_abs_det_jacobian(x, y).exp()
    (tensor(7.), tensor(3.), tensor(2.))
    """

    bijective: Any = False
    domain: Any = None
    codomain: Any = None
    _cached_x_y: tuple[Any, Any]

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        if cache_size:
            self._cached_x_y = None, None

    @property
    def event_dim(self) -> int:
        """Rightmost dims that are transformed together. Raises ValueError where the function changes it."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The way back; ``t.inv.inv is t``. Made anew each time: a recording would not keep it."""
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same function with a cache of that size."""
        return self if self._cache_size == cache_size else self._again(cache_size)

    def _again(self, cache_size: int) -> Transform:
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        if not self._cache_size:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log \\|dy/dx\\| where ``y`` is the transform of ``x``, one per event."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """The shape of what an input of that shape becomes."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Plain(Transform):
    """One without parameters: equal to every other of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))

    __hash__ = None  # type: ignore[assignment]


class _InverseTransform(Transform):
    """The way back of ``transform``, which keeps the cache of both."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self._inv.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def _again(self, cache_size: int) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"
