"""From a list of items to one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.dtypes import float64
from jtorch.eager.functions.shape import stack
from jtorch.eager.creation import from_numpy, tensor
from jtorch.eager.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Tensors are stacked, numbers become a tensor, tuples and dicts are collated part by part.

    Raises RuntimeError for items of different lengths, TypeError for what it can't put together.
    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(batch)
    if isinstance(first, (np.ndarray, np.generic)) and first.dtype.kind in "biuf":
        return from_numpy(np.stack(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, Sequence):
        return _collate_parts(batch)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}. Give DataLoader a collate_fn that knows it."
    )


def _collate_parts(batch: Sequence[Any]) -> Any:
    first = batch[0]
    if any(len(item) != len(first) for item in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [default_collate(part) for part in zip(*batch, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):  # a namedtuple
        return type(first)(*parts)
    return parts
