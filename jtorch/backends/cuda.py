"""CUDA's libraries: not there. Their switches keep what they are set to; nothing depends on them."""

from __future__ import annotations

from typing import Any


class _Matmul:
    """``torch.backends.cuda.matmul``."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False
    fp32_precision = "none"


matmul: Any = _Matmul()


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
