"""``stft`` and ``istft`` against PyTorch: values, gradients, sentences; and that one undoes the other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
SIGNAL = RNG.standard_normal(30)
SIGNALS = RNG.standard_normal((2, 30))
WINDOW, SHORT = RNG.uniform(0.5, 1.0, 8), RNG.uniform(0.5, 1.0, 5)
COMPLEX = SIGNALS + 1j * RNG.standard_normal((2, 30))
FRAMES = RNG.standard_normal((2, 5, 6)) + 1j * RNG.standard_normal((2, 5, 6))

CALLS = {
    "plain": (lambda L, x, w: L.stft(x, 8, window=w, return_complex=True), [SIGNAL, WINDOW]),
    "batch": (lambda L, x, w: L.stft(x, 8, window=w, return_complex=True), [SIGNALS, WINDOW]),
    "method": (lambda L, x, w: x.stft(8, 3, window=w, return_complex=True), [SIGNALS, WINDOW]),
    "hop": (lambda L, x, w: L.stft(x, 8, 3, 5, w, return_complex=True), [SIGNALS, SHORT]),
    "not centred": (
        lambda L, x, w: L.stft(x, 8, 3, window=w, center=False, return_complex=True), [SIGNAL, WINDOW]
    ),
    "normalized": (
        lambda L, x, w: L.stft(x, 8, window=w, normalized=True, return_complex=True), [SIGNAL, WINDOW]
    ),
    "two-sided": (
        lambda L, x, w: L.stft(x, 8, window=w, onesided=False, return_complex=True), [SIGNALS, WINDOW]
    ),
    "odd": (lambda L, x, w: L.stft(x, 9, 2, 8, window=w, return_complex=True), [SIGNALS, WINDOW]),
    "constant border": (
        lambda L, x, w: L.stft(x, 8, window=w, pad_mode="constant", return_complex=True), [SIGNAL, WINDOW]
    ),
    "repeated border": (
        lambda L, x, w: L.stft(x, 8, window=w, pad_mode="replicate", return_complex=True), [SIGNALS, WINDOW]
    ),
    "of complex numbers": (lambda L, x, w: L.stft(x, 8, window=w), [COMPLEX, WINDOW]),
    "complex window": (lambda L, x, w: L.stft(x, 8, window=w), [SIGNAL, WINDOW * (1 + 1j)]),
    "aligned": (
        lambda L, x, w: L.stft(
            x, 8, 3, 5, window=w, center=False, align_to_window=True, return_complex=True
        ), [SIGNAL, SHORT],
    ),
    "aligned, even": (
        lambda L, x, w: L.stft(
            x, 9, 3, 5, window=w, center=False, align_to_window=True, return_complex=True
        ), [SIGNALS, SHORT],
    ),
    "back": (lambda L, z, w: L.istft(z, 8, 2, window=w), [FRAMES, WINDOW]),
    "back one": (lambda L, z, w: z.istft(8, 2, window=w), [FRAMES[0], WINDOW]),
    "back short": (lambda L, z, w: L.istft(z, 8, 3, 5, w), [FRAMES, SHORT]),
    "back not centred": (lambda L, z, w: L.istft(z, 8, 3, window=w, center=False), [FRAMES, WINDOW]),
    "back normalized": (lambda L, z, w: L.istft(z, 8, window=w, normalized=True), [FRAMES, WINDOW]),
    "back cut": (lambda L, z, w: L.istft(z, 8, window=w, length=7), [FRAMES, WINDOW]),
    "back two-sided": (lambda L, z, w: L.istft(z, 5, 2, window=w, onesided=False), [FRAMES, SHORT]),
    "back complex": (
        lambda L, z, w: L.istft(z, 5, 2, window=w, onesided=False, return_complex=True), [FRAMES, SHORT]
    ),
}  # fmt: skip


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, rtol=1e-9, atol=1e-11)
    narrow = [a.astype(np.complex64 if a.dtype.kind == "c" else np.float32) for a in arrays]
    compare(call, jtorch, torch, narrow, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("n_fft", [8, 9])
def test_the_inverse_gives_the_signal_back(n_fft):
    x, window = jtorch.tensor(SIGNALS), jtorch.hann_window(n_fft, dtype=jtorch.float64)
    spectrum = jtorch.stft(x, n_fft, 2, window=window, return_complex=True)
    back = jtorch.istft(spectrum, n_fft, 2, window=window, length=30)
    np.testing.assert_allclose(back.numpy(), SIGNALS, atol=1e-13)


def test_gradients_are_those_of_finite_differences():
    x = jtorch.tensor(SIGNAL[:12], requires_grad=True)
    window = jtorch.tensor(SHORT, requires_grad=True)
    assert gradcheck(lambda x, w: jtorch.stft(x, 6, 2, 5, w, return_complex=True), (x, window))


BAD = {
    "not said": lambda L, x, w: L.stft(x, 8, window=w),
    "too many dims": lambda L, x, w: L.stft(L.ones(2, 2, 20), 8, window=w, center=False, return_complex=True),
    "too long": lambda L, x, w: L.stft(x, 40, window=L.ones(40), center=False, return_complex=True),
    "border": lambda L, x, w: L.stft(x, 80, window=w, return_complex=True),
    "hop": lambda L, x, w: L.stft(x, 8, -1, window=w, return_complex=True),
    "width": lambda L, x, w: L.stft(x, 8, 3, 9, window=w, return_complex=True),
    "window": lambda L, x, w: L.stft(x, 8, 3, 6, window=w, return_complex=True),
    "one side of complex": lambda L, x, w: L.stft(x + 0j, 8, window=w, onesided=True),
    "ints": lambda L, x, w: L.stft(L.arange(20), 8, window=w, return_complex=True),
    "aligned and centred": lambda L, x, w: L.stft(x, 8, window=w, align_to_window=True, return_complex=True),
    "back from reals": lambda L, x, w: L.istft(L.ones(5, 4), 8, window=w),
    "back of another size": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 7, window=L.ones(7)),
    "back of one side": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, window=w, onesided=False),
    "back hop": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, 9, window=w),
    "back width": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, 2, 9, window=w),
    "back window": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, 2, window=L.ones(3)),
    "back to nothing": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, 2, window=w * 0),
    "back of many": lambda L, x, w: L.istft(L.ones(1, 1, 5, 4) + 0j, 8, window=w),
    "back of none": lambda L, x, w: L.istft(L.ones(5, 0) + 0j, 8, window=w),
    "back complex": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, window=w, return_complex=True),
    "back by complex": lambda L, x, w: L.istft(L.ones(5, 4) + 0j, 8, window=w + 0j),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises(RuntimeError) as theirs:
        BAD[name](torch, torch.ones(20), torch.ones(8))
    with pytest.raises(RuntimeError) as ours:
        BAD[name](jtorch, jtorch.ones(20), jtorch.ones(8))
    assert str(ours.value) == str(theirs.value)


def test_warns_of_what_pytorch_warns_of():
    x, window = jtorch.ones(20), jtorch.ones(8)
    with pytest.warns(UserWarning, match="A window was not provided") as told:
        spectrum = jtorch.stft(x, 8, return_complex=True)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="A window was not provided"):
        jtorch.istft(spectrum, 8)
    with pytest.warns(UserWarning, match="return_complex=False is deprecated") as told:
        pairs = jtorch.stft(x, 8, window=window, return_complex=False)
    assert told[0].filename == __file__
    assert pairs.shape == (5, 11, 2)
    with pytest.warns(UserWarning, match="padded with zeros in the tail"):
        longer = jtorch.istft(spectrum, 8, window=window, length=30)
    assert longer.shape == (30,)
    assert longer[24:].abs().sum() == 0


def test_a_compiled_function_refuses_complex_frames():
    with warnings.catch_warnings(), pytest.raises(CompileError, match="no complex64 tensors"):
        jtorch.compile(lambda x: jtorch.stft(x, 8, window=jtorch.ones(8), return_complex=True).abs())(
            jtorch.ones(20)
        )
