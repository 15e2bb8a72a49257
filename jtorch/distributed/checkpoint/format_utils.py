"""Checkpoints of many files as one file, and the other way round.

Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jtorch.distributed.checkpoint.api import save
from jtorch.distributed.checkpoint.reading import Reading
from jtorch.eager.public import from_numpy
from jtorch.serialization import load, save as save_file


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike) -> None:
    """Write what is in a checkpoint's folder into one file, whole tensors, which takes their memory.

    Lists come back as dicts by number. One process alone does it; raises what ``load`` does.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    reading = Reading(Path(dcp_checkpoint_dir))
    whole: dict[Any, Any] = {}
    for path, value in reading.metadata.values.items():
        _grow(whole, path, value)
    for path, entry in reading.metadata.tensors.items():
        _grow(whole, path, from_numpy(reading.whole(entry)))
    save_file(whole, torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike) -> None:
    """Write what is in a file of ``save`` into a folder, from which any number of processes can load it.

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    save(load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def _grow(root: dict[Any, Any], path: tuple[Any, ...], value: Any) -> None:
    *way, last = path
    for step in way:
        root = root.setdefault(step, {})
    root[last] = value
