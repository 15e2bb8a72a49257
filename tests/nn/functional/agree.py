"""One call of ``nn.functional`` on jtorch and on PyTorch, in float64: values, gradients, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import jtorch
from tests.ops.oracle import compare


def draw(*shape: int) -> np.ndarray:
    """Distinct values, at least 0.01 apart."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(n)
    return ((rng.permutation(n) - n / 2 + 0.37) * 0.01).reshape(shape)


def agree(torch, call: Callable, arrays: Sequence[np.ndarray]) -> None:
    """``call(F, *tensors)`` gives the same values, dtypes and gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(call, jtorch.nn.functional, torch.nn.functional, arrays, rtol=1e-9, atol=1e-10)


def agree_on_error(torch, call: Callable, arrays: Sequence[np.ndarray]) -> None:
    """``call(F, *tensors)`` raises the same error with the same sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            call(torch.nn.functional, *map(torch.tensor, arrays))
        with pytest.raises(type(theirs.value)) as ours:
            call(jtorch.nn.functional, *map(jtorch.tensor, arrays))
    assert str(ours.value) == str(theirs.value)
