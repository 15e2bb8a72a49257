"""``repr`` of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np


def tensor_text(tensor: Any) -> str:
    data = tensor._data
    if data.__class__ is not np.ndarray:
        return f"tensor(..., shape={list(data.shape)}, dtype={tensor.dtype})"
    return f"tensor({np.array2string(data, separator=', ', precision=4, prefix='tensor(')})"
