"""The parameters that travel together: gathered whole for the time they are used, their gradients shared out.

Source: Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", arXiv:1910.02054; Zhao et al. 2023, "PyTorch FSDP", arXiv:2304.11277.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from jtorch.autograd.function import Function, once_differentiable
from jtorch.distributed.fsdp.exchange import Exchange, Travelling
from jtorch.distributed.fsdp.policies import MixedPrecisionPolicy
from jtorch.distributed.fsdp.saved import REGIONS
from jtorch.distributed.sharded import ShardedParameter
from jtorch.eager.public import Tensor, call_at_end, current_run, from_numpy, in_backward, reached

_CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: the "
    "parameter {name} is at version {now}; expected version {then} instead. Call backward() before the "
    "optimizer's step, or before what else changed it"
)

_numbers = itertools.count()  # of calls


class ParameterGroup:
    """The parameters of one ``fully_shard``.

    ``wholes`` are their arrays while they are gathered, and empty in between; ``versions`` those of the parts
    that were gathered last.
    """

    def __init__(
        self, named: Sequence[tuple[str, ShardedParameter]], process_group: Any, policy: MixedPrecisionPolicy
    ) -> None:
        self.exchange = Exchange(named, process_group, policy)
        self.params, self.policy = self.exchange.params, policy
        self.wholes: list[np.ndarray] = []
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
        self._under_way: list[Travelling] = []
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
        alike = self.exchange.alike(range(len(self.params)))
        self._under_way = [self.exchange.send(numbers) for numbers in alike]

    def gather(self) -> None:
        """Have the whole parameters: where they travel already, wait for them."""
        self.start()
        if self.is_gathered or not self.params:
            return
        wholes: dict[int, np.ndarray] = {}
        travelling, self._under_way = self._under_way, []
        for one in travelling:
            wholes.update(zip(one.numbers, one.arrived(), strict=True))
        self.wholes = [wholes[k] for k in range(len(self.params))]
        REGIONS.add(self, self.wholes)

    def gather_for_backward(self, number: int, version: int) -> None:
        """The same where the tape saved this parameter when its part had this version."""
        now = self.params[number]._version
        if now != version:
            raise RuntimeError(_CHANGED.format(name=self.names[number], now=now, then=version))
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
        if in_backward() and self._pass != current_run().number:
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
            if not self.exchange.process_group.broken:  # or it would never come
                one.wait()
        if self.is_gathered:
            REGIONS.remove(self.wholes)
        self.wholes, self.is_kept = [], False

    @property
    def names(self) -> list[str]:
        """Those of the parameters, in errors."""
        return self.exchange.names

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
            self._unsynced = {k: np.array(g, self.exchange.reduced_in(k)) for k, g in arrays.items()}
            return [None] * len(self.params)
        if self.reduces_unused:
            for k, p in enumerate(self.params):
                if p.requires_grad and k not in arrays:
                    arrays[k] = np.zeros(p.sharding.shape, p.dtype.numpy)
        found: dict[int, Tensor] = {}
        for numbers in self.exchange.alike(sorted(arrays)):
            averages = self.exchange.averages(numbers, arrays, self.divisor)
            found.update(zip(numbers, averages, strict=True))
        return [found.get(k) for k in range(len(self.params))]


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
