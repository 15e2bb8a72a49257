"""``DistributedDataParallel``: each process computes on its part of a batch, gradients are averaged.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jtorch.distributed as dist
from jtorch.compiler import is_compiling
from jtorch.distributed.algorithms.join import Join, Joinable, JoinHook
from jtorch.distributed.alike import check_alike
from jtorch.distributed.errors import refuse_recording
from jtorch.eager.public import Tensor, is_grad_enabled, tensor
from jtorch.nn.module import Module
from jtorch.nn.parallel import buckets, recorded, reducer


class DistributedDataParallel(Module, Joinable):
    """``module``, whose gradients are the mean over all processes after each ``backward()``.

    Parameters and buffers become those of rank 0 when it is made; models of other shapes are an error.
    Gradients travel in buckets of ``bucket_cap_mb``, the last layers' first, while backward computes the
    others; where ``backward()`` returns they are averaged. ``bucket_plan()`` tells which are where.

    ``find_unused_parameters`` for modules that do not use all of them each time; without, that is an error in
    the next forward. Which are used is seen in ``backward()``: one that a loss does not lead to counts as
    unused, and ``backward()`` must run in all processes and lead to some parameter in each. A second
    ``backward()`` of one forward is an error. ``broadcast_buffers``: before each forward buffers become those
    of rank 0. With ``deterministic``, jtorch's own, sums run in the order of ranks: their bits depend on
    neither the buckets nor the MPI library; each bucket takes two collectives then. ``static_graph`` looks
    for unused parameters, too. ``gradient_as_bucket_view`` changes nothing: gradients keep their own memory.

    Raises ValueError without a process group or parameters that require grad, RuntimeError where the models
    of the processes differ, NotImplementedError for ``mixed_precision`` and ``device_mesh``.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        *,
        deterministic: bool = False,
    ) -> None:
        super().__init__()
        refuse_recording("DistributedDataParallel")
        for name, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce), ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh), ("skip_all_reduce_unused_params", skip_all_reduce_unused_params),
        ):  # fmt: skip
            if value:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not implemented")
        self._join_config = Joinable.DISABLED
        self.module = module
        self.process_group = process_group if process_group is not None else _world()
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.deterministic = deterministic
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._divides_by_all = True
        self._active = self.process_group.size()
        named = _named_parameters(module)
        _check_devices(device_ids, output_device, named)
        if init_sync:
            check_alike("DDP", named, self.process_group)
            self._sync_states(0)
        first, cap = (buckets.FIRST_MB, 25.0) if bucket_cap_mb is None else (bucket_cap_mb, bucket_cap_mb)
        self.bucket_cap_mb = cap
        self.reducer = reducer.Reducer(
            named, self.process_group, first, cap, self.find_unused_parameters, deterministic
        )

    # -- a step --------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return self._recorded(*inputs, **kwargs)
        sync = is_grad_enabled() and self.require_backward_grad_sync
        if sync:
            self.reducer.check_finished()
        if self._join_config.enable:
            self._announce()
        if self.require_forward_param_sync and self.broadcast_buffers:
            self._sync_buffers(True)
        out = self.module(*inputs, **kwargs)
        if sync:
            self.reducer.prepare(out, self._divisor())
        self.require_forward_param_sync = self.require_backward_grad_sync
        return out

    def _recorded(self, *inputs: Any, **kwargs: Any) -> Any:
        """``forward`` in a compiled function."""
        recorded.refuse_what_is_not_recorded(self)
        sync = is_grad_enabled() and self.require_backward_grad_sync
        if self.broadcast_buffers and self.require_backward_grad_sync:
            found = [b for b in self.module.buffers() if b is not None]
            recorded.broadcast_coalesced(found, self.process_group, 0)
        out = self.module(*inputs, **kwargs)
        self.reducer.recorded = recorded.RecordedPass(self.reducer, out) if sync else None
        return out

    @property
    def _compiled_part(self) -> Module:
        """Its module: ``backward()`` comes after the call, and averages in eager mode."""
        return self.module

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of forwards in here are not averaged, but kept until a step outside averages them, too.

        Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """Let ``hook(state, bucket)`` average each bucket; it gives a Future of the flat averages.

        Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        if self.deterministic:
            raise ValueError("register_comm_hook: deterministic=True has its own way to add gradients up")
        self.reducer.hook_state, self.reducer.hook = state, hook

    def bucket_plan(self) -> str:
        """One line a bucket, in the order they are sent: dtype, size, and the parameters in it."""
        return "\n".join(map(str, self.reducer.buckets))

    def _divisor(self) -> int:
        return self.process_group.size() if self._divides_by_all else self._active

    # -- parameters and buffers ----------------------------------------------------------------------------

    def _sync_states(self, root: int) -> None:
        states = [*self.module.parameters(), *self.module.buffers()]
        reducer.broadcast_coalesced(states, self.process_group, root)

    def _sync_buffers(self, has_inputs: bool) -> None:
        found = [b for b in self.module.buffers() if b is not None]
        if found:
            root = self._highest(has_inputs) if self._join_config.enable else 0
            reducer.broadcast_coalesced(found, self.process_group, root)

    def _highest(self, counts: bool) -> int:
        """The highest rank of those processes that call this with True."""
        rank = tensor([self.process_group.rank() if counts else -1])
        dist.all_reduce(rank, dist.ReduceOp.MAX, self.process_group)
        found = int(rank.item())
        if found < 0:
            raise ValueError("BUG! Expected rank_cond to be true for at least one process.")
        return found

    # -- uneven inputs -------------------------------------------------------------------------------------

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:  # fmt: skip
        """A context in which processes may run out of inputs at different times: those that have take part in
        the others' collectives with zeros, and all end with the model of the last.

        Sums are divided by the number of all processes, or with ``divide_by_initial_world_size=False`` of
        those that still had inputs.
        Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        """
        return Join([self], enable, throw_on_early_termination,
                    divide_by_initial_world_size=divide_by_initial_world_size)  # fmt: skip

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What ``Join`` does for this module in a process that has no more inputs."""
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    def _announce(self) -> None:
        """Count the processes that have inputs, and tell the others whether gradients will be averaged."""
        count = Join.notify_join_context(self)
        if count is not None:
            self._active = int(count.result()[0].item())
        self._will_average(is_grad_enabled() and self.require_backward_grad_sync)

    def _will_average(self, here: bool) -> bool:
        wanted = tensor([int(here)])
        dist.all_reduce(wanted, group=self.process_group)
        return bool(wanted.item())


class _Shadow(JoinHook):
    """Takes part in the collectives of a module's steps elsewhere."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp = self.ddp
        will_average = ddp._will_average(False)
        if ddp.require_forward_param_sync and ddp.broadcast_buffers:
            ddp._sync_buffers(False)
        ddp.require_forward_param_sync = will_average
        if will_average:
            size = ddp.process_group.size()
            ddp.reducer.shadow(size if ddp._divides_by_all else size - 1)

    def post_hook(self, is_last_joiner: bool) -> None:
        self.ddp._sync_states(self.ddp._highest(is_last_joiner))


def _world() -> Any:
    if dist.group.WORLD is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    return dist.group.WORLD


def _named_parameters(module: Module) -> list[tuple[str, Tensor]]:
    named: list[tuple[str, Tensor]] = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not named:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
            "gradient."
        )
    return named


def _check_devices(device_ids: Any, output_device: Any, named: Sequence[tuple[str, Tensor]]) -> None:
    if device_ids or output_device is not None:
        devices = {p.device for _, p in named}
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            "single-device/multiple-device GPU modules or CPU modules, but got device_ids "
            f"{device_ids}, output_device {output_device}, and module parameters {devices}."
        )
