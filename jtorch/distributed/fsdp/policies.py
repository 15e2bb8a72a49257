"""What ``fully_shard`` may be told beside the processes: dtypes to compute in, and where parts are kept.

Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jtorch.eager.public import Tensor


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes to compute in, beside that of the parts, in which the optimizer steps.

    ``param_dtype``: of gathered parameters, and with ``cast_forward_inputs`` of a module's inputs;
    ``reduce_dtype``: in which gradients travel and are added up (``param_dtype`` without);
    ``output_dtype``: of outputs. Only floating-point tensors are cast.
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


def cast(value: Any, dtype: Any) -> Any:
    """The floating-point tensors in ``value`` (also in lists, tuples and dicts) in another dtype."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: cast(inner, dtype) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(cast(inner, dtype) for inner in value))
    if isinstance(value, (list, tuple)):
        return type(value)(cast(inner, dtype) for inner in value)
    return value
