"""Reductions and normalisations of what a mask lets through, under PyTorch's names: ``torch.masked``.

A ``mask`` is True where an element counts. It is broadcast to the shape of ``input``, of which it may have no
more axes; without one all elements count. Where none does, a result is what the operation begins with (0 of a
sum, 1 of a product, ``-inf`` of a maximum), and nan where it begins with nothing, as a mean. What is left out
gets a gradient of 0. ``dtype`` is that of the result; of integers a sum and a product are int64.

Each is a mask put over the input and the operation of the same name, in both modes. PyTorch's
``MaskedTensor`` is not there, and no sparse input is taken.
Source: https://docs.pytorch.org/docs/stable/masked.html
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any

import jtorch as _jtorch
from jtorch.core import dtypes as _dt
from jtorch.eager.tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
    "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

_Dims = int | _Sequence[int] | None
_SHORT = (_dt.uint8, _dt.bool_, _dt.int8, _dt.int16, _dt.int32)  # sums of which are int64


def _zero(input: Tensor) -> Any:
    return 0


def _one(input: Tensor) -> Any:
    return 1


def _lowest(input: Tensor) -> Any:
    return -_math.inf if input.is_floating_point() else _extreme(input, "min")


def _highest(input: Tensor) -> Any:
    return _math.inf if input.is_floating_point() else _extreme(input, "max")


def _extreme(input: Tensor, which: str) -> Any:
    if input.is_complex() or input.dtype is _dt.bool_:
        raise NotImplementedError(f"identity of a{which} on {input.dtype} input")
    return getattr(_jtorch.iinfo(input.dtype), which)


def _log_of_nothing(input: Tensor) -> Any:
    return -_math.inf if input.is_complex() else _lowest(input)


def _nan(input: Tensor) -> Any:
    return _math.nan


def _expect_strided(input: Tensor, what: str) -> None:
    if input.layout is not _jtorch.strided:
        raise ValueError(f"masked {what} expects strided tensor (got {input.layout} tensor)")


def _mask_of(input: Tensor, mask: Tensor) -> Tensor:
    """``mask`` in the shape of ``input``, as bool."""
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        )
    return _jtorch.broadcast_to(mask, input.shape).to(_dt.bool_)


def _let_through(input: Tensor, mask: Tensor | None, otherwise: _Callable[[Tensor], Any]) -> Tensor:
    """``input`` with what ``otherwise`` says where the mask is not True."""
    if mask is None:
        return input
    put = _jtorch.tensor(otherwise(input), dtype=input.dtype, device=input.device)
    return _jtorch.where(_mask_of(input, mask), input, put)


def _dims(dim: _Dims, ndim: int) -> tuple[int, ...]:
    """The axes that ``dim`` names, in order; all of them where it names none."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    found: list[int] = []
    ndim = max(ndim, 1)
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -ndim <= d < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})"
            )
        found.append(d % ndim)
    return tuple(sorted(found))


def _of_sums(input: Tensor, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    return _dt.int64 if input.dtype in _SHORT else input.dtype


# -- reductions --------------------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum along ``dim``, over all axes without it; 0 where nothing counts.

    >>> import jtorch
    >>> x = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> jtorch.masked.sum(x, 1, mask=jtorch.tensor([[True, False], [False, False]]))
    tensor([1., 0.])
    """
    _expect_strided(input, "sum")
    dtype = _of_sums(input, dtype)
    return _let_through(input, mask, _zero).sum(_dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product along ``dim``, over all axes without it; 1 where nothing counts.

    >>> import jtorch
    >>> jtorch.masked.prod(jtorch.tensor([2.0, 3.0, 0.0]), mask=jtorch.tensor([True, True, False]))
    tensor(6.)
    """
    _expect_strided(input, "prod")
    result = _let_through(input, mask, _one).to(_of_sums(input, dtype))
    for d in reversed(_dims(dim, input.ndim)):
        result = result.prod(d, keepdim=bool(keepdim))
    return result


def amax(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest element along ``dim``; ``-inf``, or the least integer, where nothing counts.

    >>> import jtorch
    >>> x = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> jtorch.masked.amax(x, 1, mask=jtorch.tensor([[True, False], [False, False]]))
    tensor([1., -inf])
    """
    _expect_strided(input, "amax")
    found = _let_through(input, mask, _lowest).amax(_dims(dim, input.ndim), bool(keepdim))
    return found.to(dtype or input.dtype)


def amin(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The least element along ``dim``; ``inf``, or the largest integer, where nothing counts.

    >>> import jtorch
    >>> x = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> jtorch.masked.amin(x, 1, mask=jtorch.tensor([[False, True], [False, False]]))
    tensor([2., inf])
    """
    _expect_strided(input, "amin")
    found = _let_through(input, mask, _highest).amin(_dims(dim, input.ndim), bool(keepdim))
    return found.to(dtype or input.dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The place of the largest element along ``dim``, of all elements without it, in the dtype of ``input``;
    0 where nothing counts.

    >>> import jtorch
    >>> jtorch.masked.argmax(jtorch.tensor([1.0, 5.0, 3.0]), mask=jtorch.tensor([True, False, True]))
    tensor(2.)
    """
    _expect_strided(input, "argmax")
    return _let_through(input, mask, _lowest).argmax(dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The place of the least element along ``dim``, of all elements without it, in the dtype of ``input``;
    0 where nothing counts.

    >>> import jtorch
    >>> jtorch.masked.argmin(jtorch.tensor([1.0, 5.0, 3.0]), mask=jtorch.tensor([False, True, True]))
    tensor(2.)
    """
    _expect_strided(input, "argmin")
    return _let_through(input, mask, _highest).argmin(dim, bool(keepdim)).to(dtype or input.dtype)


def mean(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean along ``dim``; nan where nothing counts.

    >>> import jtorch
    >>> x = jtorch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> jtorch.masked.mean(x, 1, mask=jtorch.tensor([[True, False], [True, True]]))
    tensor([1.0000, 3.5000])
    """
    of = "Optional" if dtype is not None else "Input"
    wanted = dtype or input.dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {of} dtype must be either a floating point or complex "
            f"dtype. Got: {wanted}"
        )
    _expect_strided(input, "mean")
    return sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask) / _count(input, dim, keepdim, mask)


def _count(input: Tensor, dim: _Dims, keepdim: bool | None, mask: Tensor | None) -> Tensor:
    """How many elements count."""
    if mask is None:
        counting = _jtorch.ones(input.shape, dtype=_dt.bool_, device=input.device)
    else:
        counting = _mask_of(input, mask)
    return counting.sum(_dims(dim, input.ndim), bool(keepdim))


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The median along ``dim``, the lower one of two; nan where nothing counts. Raises ValueError there for
    integers.

    >>> import jtorch
    >>> jtorch.masked.median(jtorch.tensor([1.0, 9.0, 3.0]), mask=jtorch.tensor([True, False, True]))
    tensor(1.)
    """
    _expect_strided(input, "median")
    wanted, is_float = dtype or input.dtype, input.is_floating_point()
    (d,) = _dims(dim, input.ndim)
    floats = input if is_float else input.to(_dt.float32)
    found = _let_through(floats, mask, _nan).nanmedian(d, keepdim).values
    if is_float:
        return found
    if found.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return found.to(wanted)


def logsumexp(
    input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials along ``dim``; ``-inf`` where nothing counts.

    >>> import jtorch
    >>> jtorch.masked.logsumexp(jtorch.tensor([1.0, 5.0]), 0, mask=jtorch.tensor([True, False]))
    tensor(1.)
    """
    _expect_strided(input, "logsumexp")
    let = _let_through(input, mask, _log_of_nothing)
    return let.logsumexp(_dims(dim, input.ndim), keepdim=keepdim).to(dtype or input.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: _Dims = None, *, keepdim: bool | None = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of order ``ord`` along ``dim``; 0 where nothing counts, ``inf`` for an order of ``-inf``.

    >>> import jtorch
    >>> jtorch.masked.norm(jtorch.tensor([3.0, 9.0, 4.0]), mask=jtorch.tensor([True, False, True]))
    tensor(5.)
    """
    _expect_strided(input, "norm")
    let = _let_through(input, mask, _highest if ord == -_math.inf else _zero)
    return _jtorch.linalg.vector_norm(
        let, ord, _dims(dim, input.ndim), bool(keepdim), dtype=dtype or input.dtype
    )


def var(
    input: Tensor, dim: _Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance along ``dim``, of n elements divided by n - ``correction`` (1; 0 where ``unbiased`` is
    False); nan where nothing counts.

    >>> import jtorch
    >>> jtorch.masked.var(jtorch.tensor([1.0, 9.0, 3.0]), mask=jtorch.tensor([True, False, True]))
    tensor(2.)
    """
    _expect_strided(input, "std/var")
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    wanted = dtype or input.dtype
    if dtype is None and not (wanted.is_floating_point or wanted.is_complex):
        wanted = _dt.float32
    compute = wanted if wanted.is_floating_point or wanted.is_complex else _dt.float32
    count = _count(input, dim, True, mask)
    x = input - sum(input, dim, keepdim=True, dtype=wanted, mask=mask) / count
    total = sum(x * x.conj(), dim, keepdim=keepdim, dtype=compute, mask=mask)
    count = count.reshape(total.shape)
    if correction:
        real = _dt.float64 if compute in (_dt.complex128, _dt.float64) else _dt.float32
        count = (count.to(compute if compute.is_floating_point else real) - correction).clamp(min=0)
    return (total / count).to(wanted)


def std(
    input: Tensor, dim: _Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The root of ``var``.

    >>> import jtorch
    >>> jtorch.masked.std(jtorch.tensor([1.0, 9.0, 3.0]), 0, False, mask=jtorch.tensor([True, False, True]))
    tensor(1.)
    """
    of = var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return _jtorch.sqrt(of)


# -- of the shape of the input -----------------------------------------------------------------------------


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The sums of all elements so far along ``dim``.

    >>> import jtorch
    >>> jtorch.masked.cumsum(jtorch.tensor([1.0, 9.0, 3.0]), 0, mask=jtorch.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    _expect_strided(input, "cumsum")
    wanted = dtype or input.dtype
    (d,) = _dims(dim, input.ndim)
    return _let_through(input, mask, _zero).cumsum(d, dtype=wanted)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The products of all elements so far along ``dim``.

    >>> import jtorch
    >>> jtorch.masked.cumprod(jtorch.tensor([2.0, 9.0, 3.0]), 0, mask=jtorch.tensor([True, False, True]))
    tensor([2., 2., 6.])
    """
    _expect_strided(input, "cumprod")
    wanted = dtype or input.dtype
    (d,) = _dims(dim, input.ndim)
    return _let_through(input, mask, _one).cumprod(d, dtype=wanted)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The softmax along ``dim`` of what counts, 0 elsewhere; nan where nothing does.

    >>> import jtorch
    >>> jtorch.masked.softmax(jtorch.tensor([1.0, 9.0, 1.0]), 0, mask=jtorch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _normalised(_jtorch.nn.functional.softmax, input, dim, dtype, mask, _lowest)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of ``softmax``, ``-inf`` of what does not count.

    >>> import jtorch
    >>> jtorch.masked.log_softmax(jtorch.tensor([1.0, 9.0]), 0, mask=jtorch.tensor([True, False]))
    tensor([0., -inf])
    """
    return _normalised(_jtorch.nn.functional.log_softmax, input, dim, dtype, mask, _lowest)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The ``softmax`` of the negated input.

    >>> import jtorch
    >>> jtorch.masked.softmin(jtorch.tensor([1.0, 9.0, 1.0]), 0, mask=jtorch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _normalised(_jtorch.nn.functional.softmin, input, dim, dtype, mask, _highest)


def _normalised(
    f: _Callable, input: Tensor, dim: int, dtype: Any, mask: Tensor | None,
    otherwise: _Callable[[Tensor], Any],
) -> Tensor:  # fmt: skip
    _expect_strided(input, f.__name__)
    (d,) = _dims(dim, input.ndim)
    return f(_let_through(input, mask, otherwise), d, dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """What counts, divided by its norm of order ``ord`` along ``dim``, or by ``eps`` where that is larger; 0
    elsewhere.

    >>> import jtorch
    >>> jtorch.masked.normalize(jtorch.tensor([3.0, 9.0, 4.0]), 2, 0, mask=jtorch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    _expect_strided(input, "normalize")
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _let_through(input, mask, _zero) / _jtorch.maximum(length, length.new_full([], eps))


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The logarithm of ``exp(input) + exp(other)``, of what each mask lets through.

    >>> import jtorch
    >>> x, y = jtorch.tensor([1.0, 1.0]), jtorch.tensor([2.0, 2.0])
    >>> jtorch.masked.logaddexp(x, y, input_mask=jtorch.tensor([False, True]))
    tensor([2.0000, 2.3133])
    """
    if input.layout is not _jtorch.strided or other.layout is not _jtorch.strided:
        raise ValueError(
            f"masked logaddexp expects strided tensors (got {input.layout} tensor for input, "
            f"{other.layout} for other)"
        )
    x = _let_through(input, input_mask, _lowest)
    y = _let_through(other, other_mask, _lowest)
    return _jtorch.logaddexp(x, y).to(dtype or input.dtype)
