"""Checkpoints that several processes write and read together, each its parts, whatever their number.

    save({"model": get_model_state_dict(model)}, checkpoint_id="folder")

Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from jtorch.distributed.checkpoint.api import (
    DefaultLoadPlanner,
    FileSystemReader,
    FileSystemWriter,
    Stateful,
    async_save,
    load,
    save,
)
from jtorch.distributed.checkpoint.processes import CheckpointException

__all__ = [
    "CheckpointException", "DefaultLoadPlanner", "FileSystemReader", "FileSystemWriter", "Stateful",
    "async_save", "load", "save",
]  # fmt: skip
