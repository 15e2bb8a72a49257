"""``jtorch.signal.windows`` against PyTorch and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import jtorch
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

OPTIONS = {
    "exponential": {"tau": 2.5}, "exponential off centre": {"center": 1.5, "sym": False}, "cosine": {},
    "gaussian": {"std": 1.7}, "kaiser": {"beta": 5.0}, "bartlett": {}, "hamming": {}, "hann": {},
    "blackman": {}, "nuttall": {}, "general_hamming": {"alpha": 0.6},
    "general_cosine": {"a": [0.5, 0.3, 0.2]},
}  # fmt: skip


@needs_torch
@each("name", OPTIONS)
def test_equals_pytorch(name):
    options = OPTIONS[name]
    for length in (0, 1, 2, 3, 6, 9):
        for sym in (True, False) if "sym" not in options else (False,):
            given = options | {"sym": sym}
            for dtype in ("float32", "float64"):
                ours, theirs = (
                    getattr(L.signal.windows, name.split()[0])(length, **given, dtype=getattr(L, dtype))
                    for L in (jtorch, torch)
                )
                close = {"rtol": 1e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-14}
                np.testing.assert_allclose(ours.numpy(), theirs.numpy(), strict=True, **close)


@each("name", ["cosine", "bartlett", "hamming", "hann", "blackman"])
def test_equals_scipy(name):
    for sym in (True, False):
        ours = getattr(jtorch.signal.windows, name)(8, sym=sym, dtype=jtorch.float64)
        theirs = getattr(scipy.signal.windows, name)(8, sym=sym)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-15)


BAD = {
    "negative": lambda W, L: W.hann(-1),
    "half": lambda W, L: W.hann(3, dtype=L.float16),
    "half blackman": lambda W, L: W.blackman(3, dtype=L.bfloat16),
    "tau": lambda W, L: W.exponential(3, tau=0),
    "centre": lambda W, L: W.exponential(3, center=1),
    "std": lambda W, L: W.gaussian(3, std=-1),
    "beta": lambda W, L: W.kaiser(3, beta=-1),
    "no weights": lambda W, L: W.general_cosine(3, a=[]),
    "a number": lambda W, L: W.general_cosine(3, a=2.0),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((ValueError, TypeError)) as theirs:
        BAD[name](torch.signal.windows, torch)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch.signal.windows, jtorch)
    assert str(ours.value).replace("jtorch", "torch") == str(theirs.value)


def test_a_window_may_require_grad_and_lie_in_a_compiled_function():
    assert jtorch.signal.windows.hann(4, requires_grad=True).requires_grad
    compiled = jtorch.compile(lambda x: x * jtorch.signal.windows.hann(4), fullgraph=True)
    np.testing.assert_array_equal(compiled(jtorch.ones(4)).numpy(), jtorch.signal.windows.hann(4).numpy())
