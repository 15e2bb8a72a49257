"""Collectives that give new tensors, and whose gradients are collectives, too.

All processes of the group must call the same ones forward, and run backward through them in the same order:
what one process has computed from a tensor of another reaches it there. The loss of the whole is the sum of
those of all processes, so each parameter gets the gradient of that sum.
Source: https://github.com/pytorch/pytorch/blob/main/torch/distributed/nn/functional.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.autograd import Function
from jtorch.distributed import collectives
from jtorch.distributed.reduction import ReduceOp
from jtorch.distributed.world import get_rank, get_world_size
from jtorch.eager.public import Tensor, empty, empty_like, zeros_like

_ADDING = (ReduceOp.SUM, ReduceOp.AVG)


def _differentiable(name: str, op: Any) -> None:
    if op not in _ADDING:
        raise NotImplementedError(
            f"distributed.nn.{name}: the gradient of {getattr(op, 'name', op)} is not there: use SUM or "
            f"AVG, or distributed.{name} without a gradient"
        )


# -- one tensor for all ------------------------------------------------------------------------------------


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """What ``tensor`` is in process ``src``, in all of them; the gradients come together there.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast
    """
    return _Broadcast.apply(tensor, src, group)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        collectives.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _Reduce.apply(grad, ctx.src, ReduceOp.SUM, ctx.group)
        return (total if get_rank() == ctx.src else zeros_like(total)), None, None


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors in process ``dst``; in the others their own, which has no gradient.

    Raises NotImplementedError for an ``op`` that does not add, where a gradient is wanted.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce
    """
    if tensor.requires_grad:
        _differentiable("reduce", op)
    return _Reduce.apply(tensor, dst, op, group)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        out = tensor.clone()
        collectives.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        found = _Broadcast.apply(grad, ctx.dst, ctx.group)
        mean = get_world_size(ctx.group) if ctx.op == ReduceOp.AVG else 1
        return found / mean if mean != 1 else found, None, None, None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors, in all of them; so is the gradient.

    Raises NotImplementedError for an ``op`` that does not add, where a gradient is wanted.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
    """
    if tensor.requires_grad:
        _differentiable("all_reduce", op)
    return _AllReduce.apply(tensor, op, group)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        out = tensor.clone()
        collectives.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


# -- one tensor of each ------------------------------------------------------------------------------------


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the order of ranks, in process ``dst``; zeros in the others.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.gather
    """
    return _Gather.apply(tensor, dst, group)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        parts = [zeros_like(tensor) for _ in range(get_world_size(group))]
        collectives.gather(tensor, parts if get_rank() == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _Scatter.apply(ctx.dst, ctx.group, *grads), None, None


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Of the ``tensors`` of process ``src`` the one of this process's rank.

    All processes must give some, of the same shapes and dtype.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.scatter
    """
    return _Scatter.apply(src, group, *tensors)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = zeros_like(tensors[0])
        collectives.scatter(out, list(tensors) if get_rank() == src else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(grad, ctx.src, ctx.group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the order of ranks, in all of them.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather
    """
    return _AllGather.apply(tensor, group)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [zeros_like(tensor) for _ in range(get_world_size(group))]
        collectives.all_gather(parts, tensor, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads), None


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The sum of what all processes have for this one's rank in ``input_list``; ``output`` says its shape.

    Raises NotImplementedError for an ``op`` that does not add, where a gradient is wanted.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.reduce_scatter
    """
    if any(t.requires_grad for t in input_list):
        _differentiable("reduce_scatter", op)
    if any(t.shape != output.shape for t in input_list):
        raise ValueError(
            f"reduce_scatter: output of shape {list(output.shape)}, and input_list of "
            f"{[list(t.shape) for t in input_list]}"
        )
    return _ReduceScatter.apply(op, group, *input_list)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        out = zeros_like(tensors[0])
        collectives.reduce_scatter(out, list(tensors), op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        mean = get_world_size(ctx.group) if ctx.op == ReduceOp.AVG else 1
        return None, None, *_AllGather.apply(grad / mean if mean != 1 else grad, ctx.group)


# -- from each to each -------------------------------------------------------------------------------------


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What each process has for this one in ``input_tensor_list``; ``output_tensor_list`` says the shapes.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all
    """
    return _AllToAll.apply([tuple(t.shape) for t in output_tensor_list], group, *input_tensor_list)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, shapes: list, group: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tuple(t.shape) for t in tensors]
        out = [empty(*shape, dtype=tensors[0].dtype, device=tensors[0].device) for shape in shapes]
        collectives.all_to_all(out, list(tensors), group)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.shapes, ctx.group, *grads)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """The rows that all processes have for this one, in the order of ranks; ``output`` says their shape.

    The sizes say how many rows; without them all processes get as many.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_to_all_single
    """
    return _AllToAllSingle.apply(input, output, output_split_sizes, input_split_sizes, group)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, like: Tensor, come: Any, go: Any, group: Any) -> Tensor:
        ctx.like, ctx.come, ctx.go, ctx.group = empty_like(input), come, go, group
        out = empty_like(like)
        collectives.all_to_all_single(out, input, come, go, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _AllToAllSingle.apply(grad, ctx.like, ctx.go, ctx.come, ctx.group), None, None, None, None
