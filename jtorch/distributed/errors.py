"""What goes wrong between processes, under PyTorch's names.

Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.DistError
"""

from __future__ import annotations

from jtorch.compiler import is_compiling
from jtorch.core.errors import CompileError


class DistError(RuntimeError):
    """Something between processes went wrong."""


class DistBackendError(DistError):
    """A collective failed or was given up: a process died, did not come, or asked for something else."""


class DistNetworkError(DistError):
    """The network failed. Kept for scripts that catch it: MPI tells no such errors apart."""


class DistStoreError(DistError):
    """A store failed. Kept for scripts that catch it: there are no stores here."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError):
    _error.__module__ = "jtorch.distributed"


def refuse_recording(name: str) -> None:
    """Raise CompileError while a function is recorded: a replay would not talk to the other processes."""
    if is_compiling():
        raise CompileError(
            f"jtorch.distributed.{name}() in a compiled function: a recording would do it once, and its "
            "replays never. Call it outside, or in a function that is disabled for compiling "
            "(jtorch.compiler.disable). DistributedDataParallel, all_reduce, broadcast and "
            "all_gather_into_tensor are part of the recording."
        )
