"""Parameters, gradients and optimizer state shared out between processes (ZeRO's stages 2 and 3).

``fully_shard`` is PyTorch's FSDP2. Its first version, ``FullyShardedDataParallel``, is not there.

Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from jtorch.distributed.fsdp.module import FSDPModule, UnshardHandle, register_fsdp_forward_method
from jtorch.distributed.fsdp.policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from jtorch.distributed.fsdp.sharding import fully_shard

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle", "fully_shard",
    "register_fsdp_forward_method",
]  # fmt: skip
