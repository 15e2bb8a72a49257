"""Discrete Fourier transforms under PyTorch's names: ``torch.fft``.

``norm`` says what a sum of N terms is divided by: "backward" (the default) by N in the inverse transforms
alone, "forward" by N in the others alone, "ortho" by the root of N in both. Results are complex64 of float32
and of integers, complex128 of float64.
Source: https://docs.pytorch.org/docs/stable/fft.html
"""

from __future__ import annotations

from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any

import numpy as _np

from jtorch.core import dtypes as _dt
from jtorch.core.op import CONTEXT as _CONTEXT
from jtorch.eager.binding import APPLY as _APPLY, accepting as _accepting_keywords
from jtorch.eager.examples import show as _show_examples
from jtorch.eager.factory import factory as _factory
from jtorch.eager.functions.reordering import roll as _roll
from jtorch.eager.messages import long_name as _long_name
from jtorch.eager.methods import FUNCTIONS as _FUNCTIONS
from jtorch.eager.tensor import Tensor, wrap as _wrap
from jtorch.ops import axes as _ax

_Dims = int | _Sequence[int] | None
_SIZES = (_np.dtype(_np.float32), _np.dtype(_np.float64), _np.dtype(_np.complex64), _np.dtype(_np.complex128))


def _accepting(function: _Callable) -> _Callable:
    """With ``out=``, and with the name of PyTorch's function in errors."""
    function.__name__ = f"fft_{function.__name__}"
    made = _accepting_keywords(function)
    made.__name__ = made.__qualname__ = function.__name__.removeprefix("fft_")
    return made


def _divisor(norm: str | None, forward: bool) -> str:
    if norm == "ortho":
        return "root"
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return "count" if forward == (norm == "forward") else "one"


def _floats(input: Tensor) -> Tensor:
    """``input`` in a dtype that has transforms."""
    if input._data.dtype in _SIZES:
        return input
    if input.is_floating_point():
        raise RuntimeError(f"Unsupported dtype {_long_name(input._data.dtype)}")
    return input.to(_dt.get_default_dtype())


def _complex(input: Tensor) -> Tensor:
    input = _floats(input)
    if input.is_complex():
        return input
    return input.to(_dt.complex128 if input.dtype is _dt.float64 else _dt.complex64)


def _axis(input: Tensor, dim: int) -> int:
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return _ax.one(dim, input.ndim)


def _check_size(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _with_sizes(input: Tensor, axes: _Sequence[int], sizes: _Sequence[int]) -> Tensor:
    """``input`` cut off or filled up with zeros at the end of ``axes``."""
    for axis, n in zip(axes, sizes, strict=True):
        have = input.shape[axis]
        if n < have:
            input = input.narrow(axis, 0, n)
        elif n > have:
            gap = [n - have if k == axis else m for k, m in enumerate(input.shape)]
            input = _FUNCTIONS["cat"]([input, input.new_zeros(gap)], axis)
    return input


def _along(input: Tensor, n: int | None, dim: int) -> tuple[Tensor, tuple[int, ...]]:
    """(``input`` with ``n`` elements along ``dim``, the axis of it)"""
    axis = _axis(input, dim)
    size = _check_size(input.shape[axis] if n is None else n)
    return _with_sizes(input, (axis,), (size,)), (axis,)


def _axes_and_sizes(input: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """The axes that ``dim`` and ``s`` name, and the sizes asked for: -1 in ``s`` is the size there is."""
    dims = None if dim is None else tuple(_axis(input, d) for d in ((dim,) if isinstance(dim, int) else dim))
    if dims is not None and len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if s is None:
        dims = tuple(range(input.ndim)) if dims is None else dims
        return dims, [input.shape[axis] for axis in dims]
    sizes = [s] if isinstance(s, int) else list(s)
    if dims is not None and len(dims) != len(sizes):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    if len(sizes) > input.ndim:
        raise RuntimeError(
            f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions."
        )
    dims = tuple(range(input.ndim - len(sizes), input.ndim)) if dims is None else dims
    return dims, [input.shape[axis] if n == -1 else n for axis, n in zip(dims, sizes, strict=True)]


def _check_sizes(name: str, sizes: _Sequence[int]) -> None:
    if not sizes:
        raise RuntimeError(f"{name} must transform at least one axis")
    for n in sizes:
        _check_size(n)


def _check_real(name: str, input: Tensor, kind: str = "real") -> None:
    if input.is_complex():
        found = _long_name(input._data.dtype)
        raise RuntimeError(f"{name} expects a {kind} input tensor, but got {found}")


def _last_given(s: Any) -> int:
    """The last of the sizes ``s``; -1 for none."""
    if s is None:
        return -1
    return s if isinstance(s, int) else [-1, *s][-1]


# -- one dim -------------------------------------------------------------------------------------------------


def _all(input: Tensor, n: int | None, dim: int, norm: str | None, forward: bool) -> Tensor:
    input, axes = _along(_floats(input), n, dim)
    return _APPLY["fft_complex"](input, axes=axes, forward=forward, divisor=_divisor(norm, forward))


@_accepting
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform along ``dim``, of ``n`` elements (cut off, or zeros added)."""
    return _all(input, n, dim, norm, True)


@_accepting
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``."""
    return _all(input, n, dim, norm, False)


@_accepting
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 numbers of ``fft`` of reals: the others are conjugates of these."""
    _check_real("rfft", input)
    input, axes = _along(_floats(input), n, dim)
    return _APPLY["fft_halved"](input, axes=axes, divisor=_divisor(norm, True))


@_accepting
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``: ``n`` reals, by default 2 (size - 1)."""
    return _real_along(_complex(input), n, dim, _divisor(norm, False))


def _real_along(input: Tensor, n: int | None, dim: int, divisor: str) -> Tensor:
    axis = _axis(input, dim)
    size = _check_size(2 * (input.shape[axis] - 1) if n is None else n)
    input = _with_sizes(input, (axis,), (size // 2 + 1,))
    return _APPLY["fft_real"](input, axes=(axis,), size=size, divisor=divisor)


@_accepting
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of what is symmetric up to conjugation, given its first half: ``n`` reals."""
    return _real_along(_complex(input).conj(), n, dim, _divisor(norm, True))


@_accepting
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``."""
    _check_real("ihfft", input)
    input, axes = _along(_floats(input), n, dim)
    return _APPLY["fft_halved"](input, axes=axes, divisor=_divisor(norm, False)).conj()


# -- several dims --------------------------------------------------------------------------------------------


def _all_n(input: Tensor, s: Any, dim: Any, norm: str | None, forward: bool) -> Tensor:
    input = _floats(input)
    axes, sizes = _axes_and_sizes(input, s, dim)
    for n in sizes:
        _check_size(n)
    if not axes:
        return _complex(input).clone()
    input = _with_sizes(input, axes, sizes)
    return _APPLY["fft_complex"](input, axes=axes, forward=forward, divisor=_divisor(norm, forward))


def _halved_n(name: str, input: Tensor, s: Any, dim: Any) -> tuple[Tensor, tuple[int, ...]]:
    _check_real(name, input, "real-valued")
    input = _floats(input)
    axes, sizes = _axes_and_sizes(input, s, dim)
    _check_sizes(name, sizes)
    return _with_sizes(input, axes, sizes), axes


def _real_n(name: str, input: Tensor, s: Any, dim: Any) -> tuple[Tensor, tuple[int, ...], int]:
    """(``input`` as it is to be transformed, the axes, the size of the last one)"""
    input = _complex(input)
    axes, sizes = _axes_and_sizes(input, s, dim)
    if not axes:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = _last_given(s)
    last = _check_size(2 * (input.shape[axes[-1]] - 1) if last == -1 else last)
    sizes[-1] = last // 2 + 1
    _check_sizes(name, sizes)
    return _with_sizes(input, axes, sizes), axes, last


@_accepting
def fftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """The transform along all of ``dim``; without it the last len(s) dims, or all."""
    return _all_n(input, s, dim, norm, True)


@_accepting
def ifftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``."""
    return _all_n(input, s, dim, norm, False)


@_accepting
def rfftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """``fftn`` of reals, of the last dim only the first s[-1] // 2 + 1 numbers."""
    input, axes = _halved_n("rfftn", input, s, dim)
    return _APPLY["fft_halved"](input, axes=axes, divisor=_divisor(norm, True))


@_accepting
def irfftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``."""
    input, axes, size = _real_n("irfftn", input, s, dim)
    return _APPLY["fft_real"](input, axes=axes, size=size, divisor=_divisor(norm, False))


@_accepting
def hfftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """The real ``fftn`` of what is symmetric up to conjugation, given half of its last dim."""
    input, axes, size = _real_n("hfftn", input, s, dim)
    return _APPLY["fft_real"](input.conj(), axes=axes, size=size, divisor=_divisor(norm, True))


@_accepting
def ihfftn(input: Tensor, s: Any = None, dim: _Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of ``hfftn``."""
    input, axes = _halved_n("ihfftn", input, s, dim)
    return _APPLY["fft_halved"](input, axes=axes, divisor=_divisor(norm, False)).conj()


@_accepting
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``fftn`` of the last two dims."""
    return _all_n(input, s, dim, norm, True)


@_accepting
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``ifftn`` of the last two dims."""
    return _all_n(input, s, dim, norm, False)


@_accepting
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``rfftn`` of the last two dims."""
    return rfftn(input, s, dim, norm)


@_accepting
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``irfftn`` of the last two dims."""
    return irfftn(input, s, dim, norm)


@_accepting
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``hfftn`` of the last two dims."""
    return hfftn(input, s, dim, norm)


@_accepting
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``ihfftn`` of the last two dims."""
    return ihfftn(input, s, dim, norm)


# -- frequencies ---------------------------------------------------------------------------------------------


def _frequencies(name: str, places: _np.ndarray, n: int, d: float, dtype: Any) -> Tensor:
    target = _dt.to_numpy(dtype or _dt.get_default_dtype())
    if target is None or target.kind not in "fVc":
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if target.kind == "c":
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{_long_name(target)}'")
    wide: Any = _np.float64 if target == _np.float64 else _np.float32  # 16 bits are rounded once, at the end
    with _np.errstate(divide="ignore", invalid="ignore"):
        values = places.astype(wide) * _np.asarray(_np.float64(1.0) / (n * d)).astype(wide)
    return _wrap(_CONTEXT.get().evaluator.new(values.astype(target)))


@_factory
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of the ``n`` numbers that ``fft`` gives, of samples ``d`` apart: 0, 1 / (n d), ...; the
    second half are negative ones.
    """
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    places = _np.arange(n)
    return _frequencies("fftfreq", places - n * (places >= (n + 1) // 2), n, d, dtype)


@_factory
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None) -> Tensor:
    """The frequencies of the n // 2 + 1 numbers that ``rfft`` gives."""
    if n < -1:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n // 2 + 1}: [{n // 2 + 1}]")
    return _frequencies("rfftfreq", _np.arange(n // 2 + 1), n, d, dtype)


def _shifted(input: Tensor, dim: _Dims, extra: int) -> Tensor:
    if dim is None:
        dims: _Sequence[int] = range(input.ndim)
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        return input.clone()
    return _roll(input, [(input.shape[_ax.one(d, input.ndim)] + extra) // 2 for d in dims], tuple(dims))


def fftshift(input: Tensor, dim: _Dims = None) -> Tensor:
    """The frequency 0 moved from the start of ``dim`` (an int, several, all for None) to the middle."""
    return _shifted(input, dim, 0)


def ifftshift(input: Tensor, dim: _Dims = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _shifted(input, dim, 1)


_show_examples(globals(), "fft.")

__all__ = [
    "Tensor", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip
