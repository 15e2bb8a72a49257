"""Helpers around training: data loading, and memory shared with other libraries."""

from jtorch.eager.public import swap_tensors
from jtorch.utils import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack", "swap_tensors"]
