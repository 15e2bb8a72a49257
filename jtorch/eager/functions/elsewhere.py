"""Methods of Tensor whose functions lie in other modules, which are imported when one of them is called."""

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


def geqrf(self: Tensor) -> Any:
    """See ``torch.geqrf``."""
    return _factors().geqrf(self)


def lu(self: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """See ``torch.lu``."""
    return _factors().lu_old(self, pivot, get_infos)


def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """See ``torch.lu_solve``."""
    return _factors().lu_solve_old(self, LU_data, LU_pivots)


def orgqr(self: Tensor, input2: Tensor) -> Tensor:
    """See ``torch.orgqr``."""
    return _factors().orgqr(self, input2)


def ormqr(self: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """See ``torch.ormqr``."""
    return _factors().ormqr(self, input2, input3, left, transpose)


def triangular_solve(
    self: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """See ``torch.triangular_solve``."""
    return _factors().triangular_solve(self, A, upper, transpose, unitriangular)


def map_(self: Tensor, other: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by ``callable(element, element of other)``, which broadcasts."""
    return _module("jtorch.eager.mapping").map_(self, other, callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by ``callable(element, element of x, element of y)``; both broadcast."""
    return _module("jtorch.eager.mapping").map2_(self, x, y, callable)


def as_strided_scatter(
    self: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """See ``torch.as_strided_scatter``."""
    return _module("jtorch.compat.native").as_strided_scatter(self, src, size, stride, storage_offset)


def nonzero_static(self: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """See ``torch.nonzero_static``."""
    return _module("jtorch.compat.native").nonzero_static(self, size=size, fill_value=fill_value)


def unsafe_chunk(self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    """See ``torch.unsafe_chunk``."""
    return _module("jtorch.compat.copies").unsafe_chunk(self, chunks, dim)


def unsafe_split(self: Tensor, split_size: int, dim: int = 0) -> list[Tensor]:
    """See ``torch.unsafe_split``."""
    return _module("jtorch.compat.copies").unsafe_split(self, split_size, dim)


def unsafe_split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> list[Tensor]:
    """See ``torch.unsafe_split_with_sizes``."""
    return _module("jtorch.compat.copies").unsafe_split_with_sizes(self, split_sizes, dim)


def _spectra() -> Any:
    return _module("jtorch.signal.spectra")


def _factors() -> Any:
    return _module("jtorch.eager.factors")


def _module(name: str) -> Any:
    return importlib.import_module(name)


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        as_strided_scatter, geqrf, istft, lu, lu_solve, map2_, map_, nonzero_static, orgqr, ormqr, stft,
        triangular_solve, unsafe_chunk, unsafe_split, unsafe_split_with_sizes,
    )
}  # fmt: skip
