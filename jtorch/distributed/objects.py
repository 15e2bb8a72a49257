"""Collectives on plain Python data. Nothing that runs code is ever read.

Objects travel in the format of ``jtorch.save``: tensors, numbers, strings, None, dtypes, dicts, lists and
tuples. Anything else, which PyTorch would pickle, is a TypeError in the process that sends it.
Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from jtorch.distributed.group import ProcessGroup
from jtorch.distributed.steps import Steps
from jtorch.distributed.work import Order
from jtorch.distributed.world import entered, root_of


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the objects of all processes into ``object_list``, in the order of ranks.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object
    """
    if (g := entered("all_gather_object", group)) is None:
        return
    _check_room("all_gather_object", g, object_list)
    object_list[:] = g.settle(Order("all_gather_object"), _all_gathered(g, _packed("all_gather_object", obj)))


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Put the objects of all processes into ``object_gather_list`` of ``dst`` (0 where none is given).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather_object
    """
    if (g := entered("gather_object", group)) is None:
        return
    root = root_of(g, "dst", dst, group_dst, default=0)
    if g.rank() == root:
        if object_gather_list is None:
            raise ValueError("Argument object_gather_list must be specified on destination rank.")
        _check_room("gather_object", g, object_gather_list)
    elif object_gather_list is not None:
        raise ValueError("Argument object_gather_list must NOT be specified on non-destination ranks.")
    order = Order("gather_object", detail=f"to {root}")
    found = g.settle(order, _all_gathered(g, _packed("gather_object", obj), root))
    if object_gather_list is not None:
        object_gather_list[:] = found


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Give all processes the objects that ``object_list`` holds in ``src`` (0 where none is given).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast_object_list
    """
    if (g := entered("broadcast_object_list", group)) is None:
        return
    root = root_of(g, "src", src, group_src, default=0)
    content = _packed("broadcast_object_list", list(object_list)) if g.rank() == root else None
    found = g.settle(Order("broadcast_object_list", detail=f"from {root}"), _broadcast(g, content, root))
    if g.rank() != root:
        if len(found) != len(object_list):
            raise ValueError(
                f"broadcast_object_list: rank {root} sent {len(found)} objects, and there is room for "
                f"{len(object_list)}"
            )
        object_list[:] = found


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Put this process's object of ``scatter_object_input_list`` of ``src`` first into the output list.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter_object_list
    """
    if (g := entered("scatter_object_list", group)) is None:
        return
    root = root_of(g, "src", src, group_src, default=0)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    contents = []
    if g.rank() == root:
        _check_room("scatter_object_list", g, scatter_object_input_list)
        contents = [_packed("scatter_object_list", obj) for obj in scatter_object_input_list or ()]
    order = Order("scatter_object_list", detail=f"from {root}")
    scatter_object_output_list[0] = g.settle(order, _scattered(g, contents, root))


def _check_room(op: str, group: ProcessGroup, objects: Any) -> None:
    if not isinstance(objects, list) or len(objects) != group.size():
        raise ValueError(f"{op}: a list of {group.size()} objects was expected, one for each process")


# -- as bytes ----------------------------------------------------------------------------------------------


def _packed(op: str, obj: Any) -> np.ndarray:
    from jtorch.serialization import tensors

    try:
        content = tensors.to_bytes(obj, whole=True)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{op}: {error} (Objects travel as plain data, and are never pickled.)") from None
    return np.frombuffer(content, np.uint8)


def _unpacked(content: np.ndarray) -> Any:
    from jtorch.serialization import load

    return load(io.BytesIO(content.tobytes()))


def _all_gathered(group: ProcessGroup, content: np.ndarray, root: int | None = None) -> Steps:
    """The objects of all processes; of others than ``root`` none, where that is given."""
    sizes = np.empty(group.size(), np.int64)
    yield group.control.Iallgather(np.array([content.size]), sizes)
    counts = sizes.tolist()
    received = np.empty(sum(counts), np.uint8)
    if root is None:
        yield group.control.Iallgatherv(content, (received, counts))
    else:
        here = group.rank() == root
        yield group.control.Igatherv(content, (received, counts) if here else None, root=root)
        if not here:
            return []
    ends = np.cumsum(sizes)
    return [_unpacked(received[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _broadcast(group: ProcessGroup, content: np.ndarray | None, root: int) -> Steps:
    size = np.array([0 if content is None else content.size])
    yield group.control.Ibcast(size, root=root)
    received = np.empty(int(size[0]), np.uint8) if content is None else content.copy()
    yield group.control.Ibcast(received, root=root)
    return None if group.rank() == root else _unpacked(received)


def _scattered(group: ProcessGroup, contents: list[np.ndarray], root: int) -> Steps:
    here = group.rank() == root
    sizes = np.array([c.size for c in contents]) if here else None
    size = np.empty(1, np.int64)
    yield group.control.Iscatter(sizes, size, root=root)
    received = np.empty(int(size[0]), np.uint8)
    given: Any = (np.concatenate(contents), [c.size for c in contents]) if here else None
    yield group.control.Iscatterv(given, received, root=root)
    return _unpacked(received)
