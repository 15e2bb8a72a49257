"""Mixed precision: its switches, and the scaling of gradients. Asking for computing in it is an error.

``enabled=False`` does nothing, as in PyTorch; so does "cuda" on a machine without a GPU, with PyTorch's
warning. Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

from jtorch.amp.grad_scaler import GradScaler as GradScaler
from jtorch.core.dtypes import bfloat16, dtype, float16


class autocast:  # noqa: N801 - PyTorch's name
    """A block, or a function, whose products run in a smaller float type.

    Raises NotImplementedError where it would really be on: ``device_type="cpu"`` and enabled.
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype = dtype or get_autocast_dtype(device_type)
        if enabled and device_type != "cpu":
            warnings.warn(
                f"User provided device_type of '{device_type}', but {device_type.upper()} is not available. "
                "Disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if enabled:
            raise NotImplementedError(
                f"autocast(device_type='cpu', dtype={self.fast_dtype}): jtorch computes in the dtypes of the "
                "tensors. Pass enabled=False, or cast the tensors and modules with .to(dtype)."
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Callable) -> Callable:
        return function


def is_autocast_available(device_type: str) -> bool:
    """False: no device computes in mixed precision here."""
    return False


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False: see ``autocast``."""
    return False


def get_autocast_dtype(device_type: str) -> dtype:
    """The float type that PyTorch would use: bfloat16 on "cpu", float16 on a GPU."""
    return bfloat16 if device_type in ("cpu", "xla", "hpu") else float16


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str = "cuda", cast_inputs: dtype | None = None
) -> Callable:
    """For the ``forward`` of a custom Function: itself, since autocast is never on."""
    return functools.partial(custom_fwd, device_type=device_type) if fwd is None else fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str = "cuda") -> Callable:
    """For the ``backward`` of a custom Function: itself, since autocast is never on."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd
