"""ZeRO, stage 1: each process keeps the optimizer's state of some parameters, updates those, and sends them.

Source: Rajbhandari, Rasley, Ruwase, He 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter
Models", arXiv:1910.02054; https://docs.pytorch.org/docs/stable/distributed.optim.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jtorch.distributed as dist
from jtorch.distributed.errors import refuse_recording
from jtorch.eager.public import Tensor, enable_grad, functions, no_grad, zeros
from jtorch.optim.optimizer import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """``optimizer_class`` with its state shared out: a process keeps that of about 1 / n of the elements.

    Gradients must be the same in all processes, as ``DistributedDataParallel`` leaves them; then parameters
    after each step are those of the plain optimizer, bit for bit. Parameters are dealt out by size, the
    largest first, each to the process that has the fewest elements. ``defaults`` are the optimizer's options.
    ``parameters_as_bucket_view`` changes nothing. Raises NotImplementedError for ``overlap_with_ddp``, and
    CompileError for a step in a compiled function.
    Source: https://docs.pytorch.org/docs/stable/distributed.optim.html
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp is not implemented")
        self.process_group: Any = process_group if process_group is not None else dist.group.WORLD
        if self.process_group is None:
            raise ValueError("Default process group has not been initialized, call init_process_group first")
        self._class, self._options = optimizer_class, defaults
        self.optim: Optimizer | None = None
        self._whole: dict[str, Any] | None = None
        super().__init__(params, defaults)
        self._deal_out()

    def _deal_out(self) -> None:
        """Say whose each parameter is, and make the optimizer of this process's."""
        size, mine = self.process_group.size(), self.process_group.rank()
        loads = [0] * size
        self._owner: dict[int, int] = {}
        for p in sorted(self._all_params(), key=lambda p: -p.numel()):
            owner = loads.index(min(loads))
            self._owner[id(p)] = owner
            loads[owner] += p.numel()
        groups: list[Any] = [
            {**_options(group), "params": [p for p in group["params"] if self._owner[id(p)] == mine]}
            for group in self.param_groups
        ]
        self.optim = self._class(groups, **self._options)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            for name, value in _options(own).items():
                group.setdefault(name, value)
        self.defaults = self.optim.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own, before the first step."""
        if self.optim is not None and self.optim.state:
            raise NotImplementedError("ZeroRedundancyOptimizer: add_param_group after a step")
        super().add_param_group(param_group)
        if self.optim is not None:
            self._deal_out()

    # -- stepping ------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this process's parameters, and take the others from their owners."""
        refuse_recording("ZeroRedundancyOptimizer.step")
        assert self.optim is not None
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._pass_options(self.param_groups, self.optim.param_groups)
        self.optim.step(**kwargs)
        self._exchange()
        return loss

    def _pass_options(self, source: Sequence[dict], target: Sequence[dict]) -> None:
        """Options that schedulers and users change in ``param_groups`` are those of the updates."""
        for given, own in zip(source, target, strict=True):
            for name, value in _options(given).items():
                if own.get(name) is not value:
                    own[name] = value

    def _exchange(self) -> None:
        works = []
        with no_grad():
            for owner, params in self._batches():
                flat = zeros(sum(p.numel() for p in params), dtype=params[0].dtype)
                if owner == self.process_group.rank():
                    flat = functions.cat([p.detach().reshape(-1) for p in params])
                work = dist.broadcast(flat, group=self.process_group, async_op=True, group_src=owner)
                works.append((work, owner, params, flat))
            for work, owner, params, flat in works:
                assert work is not None
                work.wait()
                if owner != self.process_group.rank():
                    _hand_out(flat, params)

    def _batches(self) -> list[tuple[int, list[Tensor]]]:
        """What travels at once: the parameters of one owner and dtype. In the same order everywhere."""
        found: dict[tuple[int, str], list[Tensor]] = {}
        for p in self._all_params():
            found.setdefault((self._owner[id(p)], p.dtype.name), []).append(p)
        return [(owner, found[owner, name]) for owner, name in sorted(found)]

    # -- state ---------------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state together in the process of global rank ``to``, for its ``state_dict()``.

        All processes call it. Source: https://docs.pytorch.org/docs/stable/distributed.optim.html
        """
        assert self.optim is not None
        self._pass_options(self.param_groups, self.optim.param_groups)
        mine = self.optim.state_dict()["state"]
        numbers = {id(p): k for k, p in enumerate(self._all_params())}
        own = [numbers[id(p)] for p in self.optim._all_params()]
        here = dist.get_group_rank(self.process_group, to) == self.process_group.rank()
        everyone: list[Any] | None = [None] * self.process_group.size() if here else None
        dist.gather_object({own[k]: facts for k, facts in mine.items()}, everyone, to, self.process_group)
        if everyone is not None:
            self._whole = {k: facts for part in everyone for k, facts in part.items()}

    def state_dict(self) -> dict[str, Any]:
        """The plain optimizer's state dict, in the process that ``consolidate_state_dict`` was called for.

        Raises RuntimeError elsewhere.
        """
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={dist.get_rank()})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        made = super().state_dict()
        made["state"] = dict(sorted(self._whole.items()))
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a plain optimizer's state dict, of which each process keeps its part.

        All processes pass the whole; it may come from a run of any number of processes.
        """
        assert self.optim is not None
        super().load_state_dict({**state_dict, "state": {}})
        saved = [k for group in state_dict["param_groups"] for k in group["params"]]
        numbers = dict(zip(map(id, self._all_params()), saved, strict=True))
        local = self.optim.state_dict()
        own = [numbers[id(p)] for p in self.optim._all_params()]
        local["state"] = {k: state_dict["state"][n] for k, n in enumerate(own) if n in state_dict["state"]}
        self.optim.load_state_dict(local)
        self._pass_options(self.param_groups, self.optim.param_groups)
        self._whole = None


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _hand_out(flat: Tensor, params: Sequence[Tensor]) -> None:
    begin = 0
    for p in params:
        p.copy_(flat[begin : begin + p.numel()].view(p.shape))
        begin += p.numel()
