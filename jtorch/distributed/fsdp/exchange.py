"""What travels between processes for one group: its parameters to all, its gradients to who keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import jtorch.distributed as dist
from jtorch.distributed import steps
from jtorch.distributed.buffers import Target
from jtorch.distributed.fsdp.policies import MixedPrecisionPolicy
from jtorch.distributed.layout import Layout
from jtorch.distributed.sharded import ShardedParameter
from jtorch.distributed.work import Order, Work
from jtorch.eager.public import Tensor, from_numpy

_SAME = (
    "all processes must have gradients of the same parameters, or zeros for the others: "
    "set_reduce_scatter_unused_params(True)"
)


class Travelling(NamedTuple):
    """Parameters of one dtype on their way: their numbers, and where they will lie."""

    numbers: list[int]
    layout: Layout
    lines: np.ndarray
    work: Work | None  # None where there is nothing to wait for

    def arrived(self) -> list[np.ndarray]:
        """The whole parameters, once they are there."""
        self.wait()
        return self.layout.wholes(self.lines)

    def wait(self) -> None:
        if self.work is not None:
            self.work.wait()


class Exchange:
    """Collectives on the parameters of a group, by their numbers. Orders name them: processes that ask for
    others, though of the same sizes, are told apart."""

    def __init__(
        self, named: Sequence[tuple[str, ShardedParameter]], process_group: Any, policy: MixedPrecisionPolicy
    ) -> None:
        self.names = [name for name, _ in named]
        self.params = [p for _, p in named]
        self.process_group, self.policy = process_group, policy
        self._layouts: dict[tuple[int, ...], Layout] = {}

    def rename(self, names: Mapping[int, str]) -> None:
        """Go by the names that an outer module has for the parameters, given by their ids."""
        pairs = zip(self.names, self.params, strict=True)
        self.names = [names.get(id(p), name) for name, p in pairs]

    def alike(self, numbers: Iterable[int]) -> list[list[int]]:
        """These parameters, those that travel in one dtype together."""
        by_dtype: dict[str, list[int]] = {}
        for k in numbers:
            by_dtype.setdefault(self._gathered_in(k).name, []).append(k)
        return list(by_dtype.values())

    def _gathered_in(self, k: int) -> Any:
        p = self.params[k]
        return (self.policy.param_dtype or p.dtype) if p.is_floating_point() else p.dtype

    def reduced_in(self, k: int) -> np.dtype:
        """The dtype that the gradient of a parameter travels in."""
        return (self.policy.reduce_dtype or self._gathered_in(k)).numpy

    def _layout(self, numbers: list[int]) -> Layout:
        found = self._layouts.get(tuple(numbers))
        if found is None:
            found = Layout([self.params[k].sharding.shape for k in numbers], self.process_group.size())
            self._layouts[tuple(numbers)] = found
        return found

    def _order(self, op: str, layout: Layout, dtype: np.dtype, numbers: list[int], detail: str) -> Order:
        names = ", ".join(self.names[k] for k in numbers)
        return Order(op, (layout.length,), dtype.name, f"{detail}{names}")

    def send(self, numbers: list[int]) -> Travelling:
        """Begin to gather these, which are alike."""
        layout, parts = self._layout(numbers), [self.params[k].to_local().numpy() for k in numbers]
        lines = np.empty((layout.count, layout.length), self._gathered_in(numbers[0]).numpy)
        if not layout.length:
            return Travelling(numbers, layout, lines, None)
        line = layout.line(parts, lines.dtype)
        order = self._order("all_gather_into_tensor", layout, lines.dtype, numbers, "")
        targets = [Target(from_numpy(lines), reads=False)]
        gathering = steps.all_gather(self.process_group, line, targets)
        return Travelling(numbers, layout, lines, self.process_group.start(order, gathering, True))

    def averages(
        self, numbers: list[int], arrays: dict[int, np.ndarray], divisor: float | None
    ) -> list[Tensor]:
        """This process's rows of the averages of whole gradients, which are taken out of ``arrays``."""
        layout, dtype = self._layout(numbers), self.reduced_in(numbers[0])
        line = np.zeros(layout.length, dtype)
        lines = layout.lines([arrays.pop(k) for k in numbers], dtype)
        if layout.length:
            order = self._order("reduce_scatter_tensor", layout, dtype, numbers, "AVG, ")
            self._reduce(line, lines, order, divisor)
        parts = layout.parts(line, self.process_group.rank())
        return [from_numpy(part).to(self.params[k].dtype) for k, part in zip(numbers, parts, strict=True)]

    def _reduce(self, line: np.ndarray, lines: np.ndarray, order: Order, divisor: float | None) -> None:
        op = dist.ReduceOp.AVG if divisor is None else dist.ReduceOp.SUM
        target = Target(from_numpy(line), reads=False)
        try:
            scattering = steps.reduce_scatter(self.process_group, lines.reshape(-1), target, op)
            self.process_group.start(order, scattering, False)
        except dist.DistError as error:
            error.add_note(f"while fully_shard averages gradients: {_SAME}")
            raise
        if divisor is not None:
            line /= line.dtype.type(divisor)
