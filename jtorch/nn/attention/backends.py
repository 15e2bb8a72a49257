"""``sdpa_kernel``: which algorithms ``scaled_dot_product_attention`` may choose from.

Source: https://docs.pytorch.org/docs/stable/nn.attention.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum


class SDPBackend(Enum):
    """PyTorch's names of the algorithms."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_ON_THE_CPU = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION}


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """Inside it attention is computed by one of ``backends``; also a decorator.

    jtorch has one algorithm, which stands for the two that PyTorch has on the CPU: their results differ in
    rounding alone, so neither the choice nor ``set_priority`` changes anything. Raises RuntimeError, here
    and not at the attention, where neither MATH nor FLASH_ATTENTION is allowed.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    if _ON_THE_CPU.isdisjoint([backends] if isinstance(backends, SDPBackend) else backends):
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off "
            "both the math kernel and the fused kernels."
        )
    yield
