"""``torch.utils.hooks``: what registering a hook gives.

Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/hooks.py
"""

from __future__ import annotations

from jtorch.eager.public import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle"]
