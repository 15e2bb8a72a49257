"""Wrappers that share a module's batch between devices or processes.

Source: https://docs.pytorch.org/docs/stable/nn.html#dataparallel-layers-multi-gpu-distributed
"""

from typing import TYPE_CHECKING, Any

from jtorch.nn.parallel.data_parallel import DataParallel

if TYPE_CHECKING:
    from jtorch.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """``DistributedDataParallel``, imported when it is asked for: few programs have several processes."""
        if name != "DistributedDataParallel":
            raise AttributeError(f"module 'jtorch.nn.parallel' has no attribute '{name}'")
        from jtorch.nn.parallel.distributed import DistributedDataParallel

        return DistributedDataParallel
