"""``torch.functional``: functions of the module ``torch`` that are written in Python there."""

from typing import Any

import jtorch as _jtorch

_NAMES = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank",
    "split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'jtorch.functional' has no attribute '{name}'")
    return getattr(_jtorch, name)


def __dir__() -> list[str]:
    return list(_NAMES)
