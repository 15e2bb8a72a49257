"""DLPack: memory shared with other libraries. Source: https://docs.pytorch.org/docs/stable/dlpack.html"""

from __future__ import annotations

from jtorch.eager.public import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
