"""Collectives on tensors, with PyTorch's names and arguments.

Each process of the group must call the same one, with the same shapes and dtypes, in the same order. With
``async_op=True`` a ``Work`` comes back at once, else None when it is done here. In a process that is not in
the group they do nothing. Tensors need not be contiguous; float16 and bfloat16 are added up in float32 and
rounded once, in ``all_reduce`` and ``reduce_scatter`` while they travel in 16 bits.
Source: https://docs.pytorch.org/docs/stable/distributed.html#collective-functions
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compiler import is_compiling
from jtorch.distributed import recorded, reduction, steps
from jtorch.distributed.buffers import Target, check_alike, check_tensor, check_tensors, read, told
from jtorch.distributed.reduction import ReduceOp
from jtorch.distributed.work import Order, Work
from jtorch.distributed.world import entered, root_of
from jtorch.eager.public import Tensor

_Group = Any


def _order(op: str, tensor: Tensor, detail: str = "") -> Order:
    return Order(op, tuple(tensor.shape), tensor.dtype.name, detail)


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: _Group = None, async_op: bool = False
) -> Work | None:
    """Reduce ``tensor`` over all processes, in place: afterwards it is the same in all of them, bit for bit.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
    """
    if (g := entered("all_reduce", group, is_recorded=True)) is None:
        return None
    op = reduction.checked("all_reduce", op, check_tensor(tensor, "tensor").dtype.numpy)
    order = _order("all_reduce", tensor, op.name)
    if is_compiling():
        return recorded.given(tensor, recorded.all_reduce(g, [tensor], order, op), async_op)
    target = Target(tensor)
    if reduction.in_order(op, target.flat.dtype, target.flat.nbytes):
        return g.start(order, steps.ordered_all_reduce(g, target, op), async_op, stages=2)
    return g.start(order, steps.all_reduce(g, target, op), async_op)


def ordered_all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: _Group = None, async_op: bool = False
) -> Work | None:
    """``all_reduce`` that adds in the order of ranks: the bits depend on the elements and that order alone.

    They are the same with any MPI, and wherever in a larger tensor the elements stand. jtorch's own.
    """
    if (g := entered("ordered_all_reduce", group, is_recorded=True)) is None:
        return None
    op = reduction.checked("ordered_all_reduce", op, check_tensor(tensor, "tensor").dtype.numpy)
    order = _order("ordered_all_reduce", tensor, op.name)
    if is_compiling():
        found = recorded.all_reduce(g, [tensor], order, op, in_order=True)
        return recorded.given(tensor, found, async_op)
    target = Target(tensor)
    return g.start(order, steps.ordered_all_reduce(g, target, op), async_op, stages=2)


def broadcast(
    tensor: Tensor, src: int | None = None, group: _Group = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give all processes the elements that ``tensor`` has in ``src`` (a global rank).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast
    """
    if (g := entered("broadcast", group, is_recorded=True)) is None:
        return None
    root = root_of(g, "src", src, group_src)
    order = _order("broadcast", check_tensor(tensor, "tensor"), f"from {root}")
    if is_compiling():
        return recorded.given(tensor, recorded.broadcast(g, [tensor], order, root), async_op)
    target = Target(tensor)
    return g.start(order, steps.broadcast(g, target, root), async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: _Group = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce ``tensor`` over all processes, into that of ``dst``; the others keep theirs.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce
    """
    if (g := entered("reduce", group)) is None:
        return None
    root = root_of(g, "dst", dst, group_dst)
    target = Target(check_tensor(tensor, "tensor"))
    op = reduction.checked("reduce", op, target.flat.dtype)
    order = _order("reduce", tensor, f"{op.name} to {root}")
    return g.start(order, steps.reduce(g, target, op, root), async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: _Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into ``tensor_list``, in the order of ranks.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather
    """
    if (g := entered("all_gather", group)) is None:
        return None
    check_tensor(tensor, "tensor")
    targets = _targets("all_gather", g, tensor_list, tensor, "tensor_list")
    return g.start(_order("all_gather", tensor), steps.all_gather(g, read(tensor), targets), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: _Group = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all processes into one, behind each other or stacked.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_into_tensor
    """
    if (g := entered("all_gather_into_tensor", group, is_recorded=True)) is None:
        return None
    check_tensor(output_tensor, "output_tensor")
    _check_sizes("all_gather_into_tensor", g, output_tensor, input_tensor)
    order = _order("all_gather_into_tensor", input_tensor)
    if is_compiling():
        return recorded.given(output_tensor, recorded.all_gather(g, [input_tensor], order), async_op)
    targets = [Target(output_tensor, reads=False)]
    return g.start(order, steps.all_gather(g, read(input_tensor), targets), async_op)


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
    group: _Group = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Put the tensors of all processes into ``gather_list`` of ``dst`` (0 where none is given).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather
    """
    if (g := entered("gather", group)) is None:
        return None
    root = root_of(g, "dst", dst, group_dst, default=0)
    check_tensor(tensor, "tensor")
    targets: list[Target] = []
    if g.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        targets = _targets("gather", g, gather_list, tensor, "gather_list")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    order = _order("gather", tensor, f"to {root}")
    return g.start(order, steps.gather(g, read(tensor), targets, root), async_op)


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
    group: _Group = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give each process its tensor of ``scatter_list`` of ``src`` (0 where none is given).

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter
    """
    if (g := entered("scatter", group)) is None:
        return None
    root = root_of(g, "src", src, group_src, default=0)
    check_tensor(tensor, "tensor")
    given = []
    if g.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        given = [read(t) for t in _one_for_each("scatter", g, scatter_list, tensor, "scatter_list")]
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    target = Target(tensor, reads=False)
    return g.start(_order("scatter", tensor, f"from {root}"), steps.scatter(g, given, target, root), async_op)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: _Group = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Reduce ``input_list`` over all processes; each keeps the tensor of its rank.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter
    """
    if (g := entered("reduce_scatter", group)) is None:
        return None
    check_tensor(output, "output")
    tensors = _one_for_each("reduce_scatter", g, input_list, output, "input_list")
    given = np.concatenate([read(t) for t in tensors])
    op = reduction.checked("reduce_scatter", op, given.dtype)
    order = _order("reduce_scatter", output, op.name)
    return g.start(order, steps.reduce_scatter(g, given, Target(output, reads=False), op), async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: _Group = None, async_op: bool = False
) -> Work | None:
    """Reduce ``input`` over all processes; each keeps one part of it, in the order of ranks.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter_tensor
    """
    if (g := entered("reduce_scatter_tensor", group)) is None:
        return None
    check_tensor(output, "output")
    _check_sizes("reduce_scatter_tensor", g, input, output)
    given = read(input)
    op = reduction.checked("reduce_scatter_tensor", op, given.dtype)
    order = _order("reduce_scatter_tensor", output, op.name)
    return g.start(order, steps.reduce_scatter(g, given, Target(output, reads=False), op), async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: _Group = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each process its rows of ``input`` and put what comes into ``output``, in the order of ranks.

    The sizes say how many rows; without them all processes get as many.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all_single
    """
    if (g := entered("all_to_all_single", group)) is None:
        return None
    check_tensor(output, "output")
    counts = _splits(g, input, input_split_sizes, "input")
    expected = _splits(g, output, output_split_sizes, "output")
    _check_dtype("all_to_all_single", output, input)
    targets = [Target(output, reads=False)]
    order = Order("all_to_all_single", (), "", input.dtype.name)
    return g.start(order, steps.all_to_all(g, read(input), counts, targets, expected), async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: _Group = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each process its tensor of ``input_tensor_list``; shapes may differ, but must fit at both ends.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all
    """
    if (g := entered("all_to_all", group)) is None:
        return None
    outputs = check_tensors(output_tensor_list, "output_tensor_list")
    inputs = check_tensors(input_tensor_list, "input_tensor_list")
    for name, tensors in (("output_tensor_list", outputs), ("input_tensor_list", inputs)):
        _check_count("all_to_all", g, tensors, name)
    for t in (*outputs, *inputs):
        _check_dtype("all_to_all", t, inputs[0])
    given = np.concatenate([read(t) for t in inputs])
    targets = [Target(t, reads=False) for t in outputs]
    counts, expected = [t.numel() for t in inputs], [t.numel() for t in outputs]
    order = Order("all_to_all", (), "", inputs[0].dtype.name)
    return g.start(order, steps.all_to_all(g, given, counts, targets, expected), async_op)


def barrier(group: _Group = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes of the group have come here.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
    """
    if (g := entered("barrier", group)) is None:
        return None
    return g.start(Order("barrier"), steps.barrier(g), async_op)


# -- checks ------------------------------------------------------------------------------------------------


def _check_count(op: str, group: Any, tensors: list[Tensor], name: str) -> None:
    if len(tensors) != group.size():
        raise ValueError(
            f"{op}: {name} has {len(tensors)} tensors, and there are {group.size()} processes in the group"
        )


def _one_for_each(op: str, group: Any, tensors: Any, like: Tensor, name: str) -> list[Tensor]:
    found = check_tensors(tensors, name)
    _check_count(op, group, found, name)
    check_alike(op, found, like, name)
    return found


def _targets(op: str, group: Any, tensors: Any, like: Tensor, name: str) -> list[Target]:
    return [Target(t, reads=False) for t in _one_for_each(op, group, tensors, like, name)]


def _check_dtype(op: str, a: Tensor, b: Tensor) -> None:
    check_tensor(b, "input")
    if a.dtype is not b.dtype:
        raise ValueError(f"{op}: tensors of {a.dtype.name} and {b.dtype.name}; one dtype was expected")


def _check_sizes(op: str, group: Any, whole: Tensor, part: Tensor) -> None:
    _check_dtype(op, whole, part)
    if whole.numel() != group.size() * part.numel():
        raise ValueError(
            f"{op}: {told(whole)} can't hold {told(part)} of each of {group.size()} processes: output tensor "
            "size must be equal to world_size times input tensor size"
        )


def _splits(group: Any, tensor: Tensor, sizes: Sequence[int] | None, name: str) -> list[int]:
    """How many elements go to, or come from, each process."""
    n, rows = group.size(), tensor.shape[0] if tensor.ndim else 0
    if sizes:
        if len(sizes) != n or sum(sizes) != rows:
            raise ValueError(
                f"all_to_all_single: {name}_split_sizes={list(sizes)} for {rows} rows and {n} processes: "
                "Split sizes doesn't match total dim 0 size"
            )
    elif rows % n:
        raise ValueError(
            f"all_to_all_single: {name} of {rows} rows for {n} processes: tensor's dim 0 does not divide "
            "equally across group size"
        )
    width = tensor.numel() // rows if rows else 0
    return [k * width for k in sizes or [rows // n] * n]
