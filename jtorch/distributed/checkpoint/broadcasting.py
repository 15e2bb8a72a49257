"""A state dict that one process has, for all: tensors travel one after another, and each keeps its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jtorch.distributed as dist
from jtorch.core.dtypes import ALL
from jtorch.eager.public import Tensor, empty, no_grad

_DTYPES = {dtype.name: dtype for dtype in ALL}
_TENSOR = "\0tensor"  # the key of what stands for a tensor in the structure that is sent first


def from_rank0(state: Mapping[str, Any], sharding_of: Callable[[tuple], Any]) -> dict[str, Any]:
    """The dict of rank 0, in all processes. ``sharding_of`` tells how the parameter at a path is shared out:
    tensors of its shape become this process's rows."""
    if not dist.is_initialized():
        return dict(state)
    here = dist.get_rank() == 0
    box: list[Any] = [_structure(state) if here else None]
    dist.broadcast_object_list(box, 0)
    with no_grad():
        return _received(box[0], state if here else None, (), sharding_of)


def _structure(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {_TENSOR: [list(value.shape), value.dtype.name]}
    if isinstance(value, Mapping):
        return {key: _structure(inner) for key, inner in value.items()}
    return [_structure(inner) for inner in value] if isinstance(value, list) else value


def _received(structure: Any, own: Any, path: tuple, sharding_of: Callable[[tuple], Any]) -> Any:
    if isinstance(structure, dict) and _TENSOR in structure:
        shape, dtype = structure[_TENSOR]
        whole = empty(tuple(shape), dtype=_DTYPES[dtype]) if own is None else own.detach().contiguous()
        dist.broadcast(whole, 0)
        sharding = sharding_of(path)
        return whole if sharding is None else sharding.taken_from(whole)
    if isinstance(structure, dict):
        return {
            key: _received(inner, None if own is None else own[key], (*path, key), sharding_of)
            for key, inner in structure.items()
        }
    if isinstance(structure, list):
        return [
            _received(inner, None if own is None else own[k], (*path, k), sharding_of)
            for k, inner in enumerate(structure)
        ]
    return structure
