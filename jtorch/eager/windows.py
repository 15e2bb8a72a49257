"""Windows for spectra: they rise from near 0 to 1 and fall again.

A periodic window is the symmetric one of a place more, without its last place.
Source: https://docs.pytorch.org/docs/stable/generated/torch.hann_window.html and its neighbours
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.op import CONTEXT
from jtorch.eager.factory import factory
from jtorch.eager.tensor import Tensor, wrap


def _window(name: str, length: int, periodic: bool, dtype: Any, curve: Callable) -> Tensor:
    """``curve(places, last)`` at the places 0 to ``last``, computed in float64."""
    target = dt.to_numpy(dtype or dt.get_default_dtype())
    assert target is not None
    if target.kind not in "fV":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dt.of(target)}")
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    last = length if periodic else length - 1
    with np.errstate(invalid="ignore"):
        values = np.ones(length) if length < 2 else curve(np.arange(length, dtype=np.float64), last)
    return wrap(CONTEXT.get().evaluator.new(values.astype(target)))


def _cosines(*weights: float) -> Callable:
    """weights[0] - weights[1] cos(t) + weights[2] cos(2 t), for t in one turn"""

    def curve(place: np.ndarray, last: int) -> np.ndarray:
        turn = place * (2 * math.pi / last)
        return sum((-1) ** k * w * np.cos(k * turn) for k, w in enumerate(weights))  # type: ignore[return-value]

    return curve


@factory
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """(1 - cos(2 pi n / N)) / 2

    >>> import jtorch
    >>> jtorch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, dtype, _cosines(0.5, 0.5))


@factory
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> Tensor:
    """alpha - beta cos(2 pi n / N)

    >>> import jtorch
    >>> jtorch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window("hamming_window", window_length, periodic, dtype, _cosines(alpha, beta))


@factory
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)

    >>> import jtorch
    >>> jtorch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _window("blackman_window", window_length, periodic, dtype, _cosines(0.42, 0.5, 0.08))


@factory
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Tensor:
    """1 - |2 n / N - 1|

    >>> import jtorch
    >>> jtorch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "bartlett_window", window_length, periodic, dtype, lambda n, last: 1 - np.abs(2 * n / last - 1)
    )


@factory
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None
) -> Tensor:
    """i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta)

    >>> import jtorch
    >>> jtorch.kaiser_window(4, periodic=True, beta=0.0)
    tensor([1., 1., 1., 1.])
    """

    def curve(place: np.ndarray, last: int) -> np.ndarray:
        height = np.sqrt(np.maximum(1 - (2 * place / last - 1) ** 2, 0))
        return np.i0(beta * height) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, dtype, curve)
