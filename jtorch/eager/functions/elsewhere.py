"""Methods of Tensor whose functions lie in modules above this one: each imports its module when it is
called."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from jtorch.eager.tensor import Tensor


def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """See ``torch.stft``."""
    return _spectra().stft(
        self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
        align_to_window,
    )  # fmt: skip


def istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """See ``torch.istft``."""
    return _spectra().istft(
        self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )


def _spectra() -> Any:
    return importlib.import_module("jtorch.signal.spectra")


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {"istft": istft, "stft": stft}
