# ruff: noqa: N999 - PyTorch's name
"""Private names of PyTorch that public programs, and PyTorch's own tests, touch: those of ``torch._C``, and
those of ``torch`` that begin with an underscore. All that is behind them stays missing, with AttributeError.
"""

from __future__ import annotations

from typing import Any

from jtorch.core.errors import LinAlgError as _LinAlgError
from jtorch.eager.creation import tensor
from jtorch.eager.tensor import Size, Tensor
from jtorch.random import Generator, default_generator

__all__ = ["Generator", "Size", "_LinAlgError", "default_generator"]

_TensorBase = TensorBase = Tensor
_has_mkldnn = has_mkldnn = has_mkl = has_openmp = has_lapack = has_cuda = has_mps = False


def _nnpack_available() -> bool:
    """Whether NNPACK computes convolutions: it never does."""
    return False


def _get_nnpack_enabled() -> bool:
    return False


def _set_nnpack_enabled(enabled: bool) -> None:
    """Taken, without effect."""


def _get_tracing_state() -> None:
    """None: nobody traces in the way of TorchScript."""


def _is_tracing() -> bool:
    return False


def _get_default_device() -> str:
    return "cpu"


def _log_api_usage_once(name: str) -> None:
    """Nothing is counted."""


def _assert(condition: Any, message: str) -> None:
    """``assert condition, message``, as models write it that are traced symbolically."""
    assert condition, message


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes as a tensor of int64."""
    return tensor(list(input.shape))
