"""The parameters that travel together: gathered whole for the time they are used, their gradients shared out.

Source: Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", arXiv:1910.02054; Zhao et al. 2023, "PyTorch FSDP", arXiv:2304.11277.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

import jtorch.distributed as dist
from jtorch.autograd.function import Function, once_differentiable
from jtorch.distributed.fsdp.policies import MixedPrecisionPolicy
from jtorch.distributed.fsdp.saved import REGIONS
from jtorch.distributed.layout import Layout
from jtorch.distributed.sharded import ShardedParameter
from jtorch.eager.public import Tensor, call_at_end, current_run, from_numpy, reached

_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: the "
    "parameter {name} is at version {now}; expected version {then} instead. Call backward() before the "
    "optimizer's step, or before what else changed it"
)

_SAME = (
    "all processes must have gradients of the same parameters, or zeros for the others: "
    "set_reduce_scatter_unused_params(True)"
)
_numbers = itertools.count()  # of calls


class _Travelling(NamedTuple):
    """Parameters of one dtype on their way: their numbers, and where they will lie."""

    numbers: list[int]
    layout: Layout
    lines: np.ndarray
    work: Any


class ParameterGroup:
    """The parameters of one ``fully_shard``.

    ``wholes`` are their arrays while they are gathered, ``blocks`` the memory under these, one block for each
    dtype; both are empty in between. ``versions`` are those of the parts that were gathered last.
    """

    def __init__(
        self, named: Sequence[tuple[str, ShardedParameter]], process_group: Any, policy: MixedPrecisionPolicy
    ) -> None:
        self.names = [name for name, _ in named]
        self.params = [p for _, p in named]
        self.process_group, self.policy = process_group, policy
        self.wholes: list[np.ndarray] = []
        self.blocks: list[np.ndarray] = []
        self.versions: tuple[int, ...] = ()
        self.is_saved = False  # whether the tape holds places of this group
        self.is_kept = False  # gathered by the user's ``unshard()``
        # called when backward gathers it: the order of calls' own, and what the user wants instead
        self.prefetch: Callable[[ParameterGroup], None] | None = None
        self.own_prefetch: Callable[[ParameterGroup], None] | None = None
        self.syncs_gradients = True
        self.reduces_unused = False
        self.releases_after_backward = True
        self.divisor: float | None = None
        self._under_way: list[_Travelling] = []
        self._unsynced: dict[int, np.ndarray] = {}  # whole gradients of passes that were not synchronised
        # of the tape: where gradients of the gathered parameters come to, until they have
        self._nodes: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._pass = -1  # the number of the backward pass whose end releases it

    # -- whole parameters ----------------------------------------------------------------------------------

    @property
    def is_gathered(self) -> bool:
        return bool(self.wholes)

    def start(self) -> None:
        """Begin to gather, unless that is done or under way."""
        current = tuple([p._version for p in self.params])
        if self.versions != current:
            self.release()  # what was gathered before an update is of no use
        if self.is_gathered or self._under_way or not self.params:
            return
        self.versions = current
        self._under_way = [self._sent(numbers) for numbers in self._alike(range(len(self.params)))]

    def _alike(self, numbers: Any) -> list[list[int]]:
        """These parameters, those that are gathered in one dtype together."""
        by_dtype: dict[str, list[int]] = {}
        for k in numbers:
            by_dtype.setdefault(self._dtype(k).name, []).append(k)
        return list(by_dtype.values())

    def _dtype(self, k: int) -> Any:
        """In which a parameter is gathered."""
        p = self.params[k]
        return (self.policy.param_dtype or p.dtype) if p.is_floating_point() else p.dtype

    def _layout(self, numbers: list[int]) -> Layout:
        return Layout([self.params[k].sharding.shape for k in numbers], self.process_group.size())

    def _sent(self, numbers: list[int]) -> _Travelling:
        layout, parts = self._layout(numbers), [self.params[k].to_local().numpy() for k in numbers]
        lines = np.empty((layout.count, layout.length), self._dtype(numbers[0]).numpy)
        work = None
        if layout.length:
            line = from_numpy(layout.line(parts, lines.dtype))
            work = dist.all_gather_into_tensor(from_numpy(lines), line, self.process_group, async_op=True)
        return _Travelling(numbers, layout, lines, work)

    def _wait(self, one: _Travelling) -> None:
        try:
            if one.work is not None:
                one.work.wait()
        except dist.DistError as error:
            error.add_note(f"while fully_shard gathers {', '.join(self.names[k] for k in one.numbers)}")
            raise

    def gather(self) -> None:
        """Have the whole parameters: where they travel already, wait for them."""
        self.start()
        if self.is_gathered or not self.params:
            return
        wholes: dict[int, np.ndarray] = {}
        travelling, self._under_way = self._under_way, []
        for one in travelling:
            self._wait(one)
            block, found = one.layout.wholes(one.lines)
            self.blocks.append(block)
            wholes.update(zip(one.numbers, found, strict=True))
        self.wholes = [wholes[k] for k in range(len(self.params))]
        REGIONS.add(self, self.blocks)

    def gather_for_backward(self, versions: tuple[int, ...]) -> None:
        """The same for what the tape saved when the parts had these versions."""
        for name, p, then in zip(self.names, self.params, versions, strict=True):
            if p._version != then:
                raise RuntimeError(_CHANGED.format(name=name, now=p._version, then=then))
        if not self.is_gathered:
            self.start_in_backward()
            self.gather()
            prefetch = self.own_prefetch or self.prefetch
            if prefetch is not None:
                prefetch(self)

    def start_in_backward(self) -> None:
        """Begin to gather what the pass that is running needs, now or soon."""
        if not self.is_gathered:
            self._release_at_end()
            self.start()

    def _release_at_end(self) -> None:
        """Let the end of this backward pass release what no gradient releases before."""
        if self._pass != current_run().number:
            self._pass = current_run().number
            call_at_end(self._end)

    def _end(self) -> None:
        self.is_saved = False
        self._nodes.clear()
        self.release_in_backward()

    def release(self) -> None:
        """Forget the whole parameters. Others may be sending theirs, so what travels is waited for."""
        travelling, self._under_way = self._under_way, []
        for one in travelling:
            self._wait(one)
        if self.is_gathered:
            REGIONS.remove(self.blocks)
        self.wholes, self.blocks, self.is_kept = [], [], False

    def forget(self) -> None:
        """Drop what a pass that failed has left."""
        self.release()
        self._unsynced, self.is_saved = {}, False
        self._nodes.clear()

    def tensors(self) -> tuple[Tensor, ...]:
        """The gathered parameters as tensors on the tape, whose gradients come back here."""
        number = next(_numbers)
        found = Gathered.apply(self, number, *self.params)
        node = next((t.grad_fn for t in found if t.grad_fn is not None), None)
        if node is not None:
            self._nodes[number] = node
        return found

    # -- gradients -----------------------------------------------------------------------------------------

    def leave(self, number: int) -> None:
        """The gradients of one call's parameters have come, which is the last that they are needed for."""
        self._release_at_end()
        self._nodes.pop(number, None)
        if not self.holds_frozen:
            self.release_in_backward()

    def release_in_backward(self) -> None:
        """Release it, unless the pass that is running has gradients of another call to come."""
        if self.releases_after_backward and not self.is_kept and not reached(list(self._nodes.values())):
            self.release()

    @property
    def holds_frozen(self) -> bool:
        """Whether ops may still need parameters whose gradients are not waited for."""
        return not all(p.requires_grad for p in self.params)

    def reduced(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """This process's parts of the averages over all processes, of whole gradients."""
        arrays = {k: g.detach().numpy() for k, g in enumerate(gradients) if g is not None}
        for k, before in self._unsynced.items():
            arrays[k] = before + arrays[k] if k in arrays else before
        self._unsynced = {}
        if not self.syncs_gradients:
            self._unsynced = {k: np.array(g, self._reduced_in(k)) for k, g in arrays.items()}
            return [None] * len(self.params)
        if self.reduces_unused:
            for k, p in enumerate(self.params):
                if p.requires_grad and k not in arrays:
                    arrays[k] = np.zeros(p.sharding.shape, p.dtype.numpy)
        found: dict[int, Tensor] = {}
        for numbers in self._alike(sorted(arrays)):
            found.update(zip(numbers, self._averages(numbers, arrays), strict=True))
        return [found.get(k) for k in range(len(self.params))]

    def _reduced_in(self, k: int) -> np.dtype:
        """The dtype that the gradient of a parameter travels in."""
        return (self.policy.reduce_dtype or self._dtype(k)).numpy

    def _averages(self, numbers: list[int], arrays: dict[int, np.ndarray]) -> list[Tensor]:
        layout, dtype = self._layout(numbers), self._reduced_in(numbers[0])
        line = np.zeros(layout.length, dtype)
        if layout.length:
            lines = from_numpy(layout.lines([arrays.pop(k) for k in numbers], dtype))
            op = dist.ReduceOp.AVG if self.divisor is None else dist.ReduceOp.SUM
            try:
                dist.reduce_scatter_tensor(from_numpy(line), lines, op, self.process_group)
            except dist.DistError as error:
                told = ", ".join(self.names[k] for k in numbers)
                error.add_note(f"while fully_shard averages the gradients of {told}: {_SAME}")
                raise
            if self.divisor is not None:
                line /= dtype.type(self.divisor)
        parts = layout.parts(line, self.process_group.rank())
        return [from_numpy(part).to(self.params[k].dtype) for k, part in zip(numbers, parts, strict=True)]


class Gathered(Function):
    """Whole parameters from parts; backward, parts of averaged gradients from whole ones."""

    @staticmethod
    def forward(ctx: Any, group: ParameterGroup, number: int, *parts: Any) -> tuple[Tensor, ...]:
        ctx.group, ctx.number = group, number
        ctx.set_materialize_grads(False)
        wholes = tuple(from_numpy(array) for array in group.wholes)
        frozen = [t for t, part in zip(wholes, parts, strict=True) if not part.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return wholes

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.group.leave(ctx.number)
        return None, None, *ctx.group.reduced(gradients)
