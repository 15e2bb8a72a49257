"""Helpers around training: data loading, and memory shared with other libraries."""

from jtorch.utils import checkpoint, data, dlpack
from jtorch.utils.swapping import swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "swap_tensors"]
