"""What ``fully_shard`` may be told beside the processes: dtypes to compute in, and where parts are kept.

Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of gathered parameters, of gradients on their way, and of outputs: not implemented.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts stay where they are.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept in the memory of the CPU, as all tensors are here: it changes nothing.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    pin_memory: bool = True
