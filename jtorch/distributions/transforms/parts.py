"""Transforms that rearrange, or treat parts of a tensor each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jtorch
from jtorch.distributions import constraints
from jtorch.distributions.transforms.transform import Transform
from jtorch.distributions.utils import sum_rightmost
from jtorch.eager.public import Size, Tensor


class ReshapeTransform(Transform):
    """The rightmost dims ``in_shape`` as ``out_shape``. Raises ValueError unless the counts agree.

    >>> import jtorch
    >>> jtorch.distributions.ReshapeTransform((4,), (2, 2))(jtorch.zeros(5, 4)).shape
    torch.Size([5, 2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.independent(constraints.real, len(self.out_shape))

    def _again(self, cache_size: int) -> Transform:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return jtorch.zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]), dtype=x.dtype)

    def forward_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced(shape, self.out_shape, self.in_shape)


def _replaced(shape: Any, old: Size, new: Size) -> Size:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    start = len(shape) - len(old)
    if tuple(shape[start:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {Size(shape[start:])} but got {old}")
    return Size((*shape[:start], *new))


class _OfParts(Transform):
    """What ``tseq`` do to the parts along ``dim``."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        assert all(isinstance(t, Transform) for t in tseq), "All elements of tseq must be Transform instances"
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _parts(self, x: Tensor) -> Any:
        """(transform, its part of x), of each."""
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(part) for t, part in self._parts(x)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t.inv(part) for t, part in self._parts(y)])

    def _stretches(self, x: Tensor, y: Tensor) -> list[tuple[Transform, Tensor]]:
        pairs = zip(self._parts(x), self._parts(y), strict=True)
        return [(t, t.log_abs_det_jacobian(a, b)) for (t, a), (_, b) in pairs]


class CatTransform(_OfParts):
    """Each of ``tseq`` for as many places along ``dim`` as ``lengths`` says (1 if absent).

    >>> import jtorch
    >>> from jtorch.distributions import AffineTransform, CatTransform, ExpTransform
    >>> t = CatTransform([ExpTransform(), AffineTransform(0.0, 10.0)], lengths=[1, 2])
    >>> t(jtorch.tensor([0.0, 1.0, 2.0]))
    tensor([ 1., 10., 20.])
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.transforms), (
            f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})"
        )

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    @property
    def domain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def _again(self, cache_size: int) -> Transform:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Any:
        _check_places(x, self.dim, self.length, "length")
        return list(zip(self.transforms, jtorch.split(x, self.lengths, self.dim), strict=True))

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return jtorch.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        event_dim = self.event_dim
        found = [sum_rightmost(s, event_dim - t.event_dim) for t, s in self._stretches(x, y)]
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + event_dim
        return jtorch.cat(found, dim) if dim < 0 else sum(found[1:], found[0])


class StackTransform(_OfParts):
    """The i-th of ``tseq`` for the i-th place along ``dim``.

    >>> import jtorch
    >>> from jtorch.distributions import AffineTransform, ExpTransform, StackTransform
    >>> StackTransform([ExpTransform(), AffineTransform(0.0, 10.0)])(jtorch.tensor([0.0, 2.0]))
    tensor([ 1., 20.])
    """

    @property
    def domain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> constraints.Constraint:  # type: ignore[override]
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def _again(self, cache_size: int) -> Transform:
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Tensor) -> Any:
        _check_places(x, self.dim, len(self.transforms), "len(transforms)")
        return list(zip(self.transforms, x.unbind(self.dim), strict=True))

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return jtorch.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return jtorch.stack([stretch for _, stretch in self._stretches(x, y)], self.dim)


def _check_places(x: Tensor, dim: int, count: int, name: str) -> None:
    """PyTorch's errors, of the class that PyTorch raises here."""
    if not -x.dim() <= dim < x.dim():
        raise AssertionError(f"dim {dim} out of range for tensor with {x.dim()} dimensions")
    if x.size(dim) != count:
        raise AssertionError(f"x.size({dim}) = {x.size(dim)} must equal {name} {count}")
