"""Names for kinds of values, which programs use in annotations.

Source: https://github.com/pytorch/pytorch/blob/main/torch/types.py
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from jtorch.core.devices import device as _device
from jtorch.eager.tensor import Size, Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _int, _float, _complex, _str, _bytes = bool, int, float, complex, str, bytes
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)  # for isinstance
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = Any
