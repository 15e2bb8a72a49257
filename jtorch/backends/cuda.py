"""CUDA's libraries. Products of float32 follow the switches for TF32; the others keep what they are set to,
and nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jtorch.core import settings

matmul = settings.MATMUL


def is_built() -> bool:
    return False


_kernels = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _switch(kind: str) -> tuple[Any, Any]:
    def enable(enabled: bool) -> None:
        _kernels[kind] = bool(enabled)

    def is_enabled() -> bool:
        return _kernels[kind]

    return enable, is_enabled


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:  # fmt: skip
    """The former ``nn.attention.sdpa_kernel``: the switches are set inside it, for one algorithm.

    Raises RuntimeError where neither math nor flash is enabled, which PyTorch's attention on the CPU does.
    """
    if not (enable_math or enable_flash):
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off "
            "both the math kernel and the fused kernels."
        )
    before = dict(_kernels)
    _kernels.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _kernels.update(before)
