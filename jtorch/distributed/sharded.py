"""Tensors that are shared out between processes by rows: what each of them holds, and knows of the whole.

Takes the place of PyTorch's ``DTensor`` with ``Shard(0)``. A sharded tensor has the shape of its part, since
ops, optimizers among them, work on that; ``sharding.shape`` is the shape of the whole.
Source: https://docs.pytorch.org/docs/stable/distributed.tensor.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jtorch.distributed as dist
from jtorch.distributed.layout import Layout, rows_of
from jtorch.eager.public import Tensor, from_numpy, has_elements, no_grad
from jtorch.nn.parameter import Parameter


class Sharding:
    """How one tensor is shared out: its rows in chunks as by ``torch.chunk(dim=0)``, in the order of ranks.

    ``shape`` is that of the whole, ``group`` the processes that share it.
    """

    __slots__ = ("group", "shape")

    def __init__(self, shape: tuple[int, ...], group: Any) -> None:
        self.shape, self.group = tuple(shape), group

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sharding) and other.shape == self.shape and other.group is self.group

    def __hash__(self) -> int:
        return hash((self.shape, id(self.group)))

    def __deepcopy__(self, memo: dict) -> Sharding:
        return self

    def __repr__(self) -> str:
        begin, end = self.rows
        return f"rows {begin}:{end} of {list(self.shape)} on {self.group.place()}"

    @property
    def rows(self) -> tuple[int, int]:
        """(begin, end) of this process's rows."""
        return rows_of(self.shape[0], self.group.size(), self.group.rank())

    def part_of(self, whole: Tensor) -> Tensor:
        """A copy of this process's rows of ``whole``."""
        begin, end = self.rows
        with no_grad():
            return whole.detach()[begin:end].clone()

    def taken_from(self, value: Any) -> Any:
        """What is loaded where a part is held: the rows of a whole tensor; anything else as it is."""
        is_whole = isinstance(value, Tensor) and not isinstance(value, ShardedTensor)
        return self.part_of(value) if is_whole and tuple(value.shape) == self.shape else value

    def marked(self, part: Tensor) -> ShardedTensor:
        """A part as a sharded tensor over the same memory."""
        return mark(part.detach(), self)

    def state(self, facts: dict[str, Any], part: Tensor) -> dict[str, Any]:
        """An optimizer's state of a part: tensors of its shape are shared out as it is."""
        return {
            name: self.marked(value) if isinstance(value, Tensor) and value.shape == part.shape else value
            for name, value in facts.items()
        }

    def whole(self, part: Tensor) -> Tensor:
        """The whole tensor, of the parts of all processes: each of them calls this."""
        layout, array = Layout([self.shape], self.group.size()), _array(part)
        lines = np.empty((layout.count, layout.length), array.dtype)
        if layout.length:
            line = from_numpy(layout.line([array], array.dtype))
            dist.all_gather_into_tensor(from_numpy(lines), line, self.group)
        return from_numpy(layout.wholes(lines)[0])

    def over_all(self, number: Tensor, op: str = "SUM") -> Tensor:
        """One number of each process, reduced over all of them: "SUM", "MAX" or "MIN"."""
        dist.all_reduce(number, dist.ReduceOp[op], self.group)
        return number


class ShardedTensor(Tensor):
    """This process's rows of a tensor that is shared out: ``sharding`` says which, and of what.

    What ops make of it is an ordinary tensor, of this process alone; ``detach()`` and ``clone()`` stay
    sharded. Saving it with ``jtorch.save`` is a TypeError, since a file of one process would hold a part.
    """

    __slots__ = ()
    sharding: Sharding

    def to_local(self) -> Tensor:
        """This process's rows as an ordinary tensor over the same memory."""
        return super().detach()

    def full_tensor(self) -> Tensor:
        """The whole tensor, off the tape: all processes of the group call it."""
        return self.sharding.whole(self)

    def detach(self) -> Tensor:
        return mark(super().detach(), self.sharding)

    def clone(self, **kwargs: Any) -> Tensor:
        return mark(super().clone(**kwargs), self.sharding)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            copied: Any = self.to_local().clone()
            copied.__class__ = type(self)
            copied.sharding = self.sharding
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a sharded tensor ({self.sharding}) can't be saved or sent as it is, which would keep a part of "
            "it. Save it with jtorch.distributed.checkpoint.save, or the whole one: full_tensor(), or "
            "get_model_state_dict(..., options=StateDictOptions(full_state_dict=True))"
        )


class ShardedParameter(ShardedTensor, Parameter):
    """A parameter of which each process keeps its rows, as ``fully_shard`` leaves them in a module.

    ``grad`` is that of the same rows, averaged over all processes.
    """

    __slots__ = ()

    @property
    def grad(self) -> Tensor | None:
        """The gradient of this process's rows, a sharded tensor."""
        found = super().grad
        if type(found) is Tensor and has_elements(found):
            mark(found, self.sharding)
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        Tensor.grad.__set__(self, value)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"Parameter, {self.sharding}, containing:\n{self.to_local()!r}"


def mark(tensor: Tensor, sharding: Sharding) -> ShardedTensor:
    """Let this very tensor be a sharded one."""
    made: Any = tensor
    made.__class__ = ShardedTensor
    made.sharding = sharding
    return made


def shard_parameter(param: Any, group: Any) -> None:
    """Let this very parameter keep its rows alone: who holds it, optimizers among them, sees the part."""
    sharding = Sharding(tuple(param.shape), group)
    gradient = param.grad
    param.grad = None
    param.data = sharding.part_of(param)
    param.__class__ = ShardedParameter
    param.sharding = sharding
    if gradient is not None:
        param.grad = sharding.part_of(gradient)


def _array(part: Tensor) -> np.ndarray:
    return Tensor.detach(part).numpy()
