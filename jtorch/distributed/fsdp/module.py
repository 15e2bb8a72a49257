"""``fully_shard``, and what a module can do once it is sharded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jtorch.core.errors import CompileError
from jtorch.distributed.fsdp.group import ParameterGroup
from jtorch.distributed.fsdp.state import State, compile_refusal
from jtorch.nn.module import Module


class FSDPModule:
    """The class that ``fully_shard`` puts before a module's own: calling it gathers its parameters.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    _fsdp: State

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """One of the plain class: containers make one of their own kind for some of their layers."""
        plain: Any = cls.__mro__[2]
        made = plain.__new__(plain)
        made.__init__(*args, **kwargs)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._fsdp.call(self, args, kwargs) as (args, kwargs):
            return self._fsdp.given_out(super().__call__(*args, **kwargs))  # type: ignore[misc]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather this module's own parameters, those of modules that are sharded themselves not included.

        They stay until ``reshard()``, or the end of a call that releases them. With ``async_op`` the handle's
        ``wait()`` puts them in place; so does a call.
        """
        if async_op:
            self._fsdp.group.start()
            return UnshardHandle(self._fsdp)
        self._fsdp.unshard()
        return None

    def reshard(self) -> None:
        """Release this module's own parameters. Raises RuntimeError where they were written to meanwhile."""
        self._fsdp.reshard()

    # -- what changes later calls --------------------------------------------------------------------------

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether ``backward()`` averages gradients. Without, whole ones are kept, and join the next average.

        For the first passes of an accumulation: nothing is sent then, and the memory is that of a whole
        model's gradients.
        """
        for state in _states(self, recurse):
            state.group.syncs_gradients = bool(requires_gradient_sync)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Change what ``fully_shard`` was told."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for state in _states(self, recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether parameters are released when their gradients are there. Without, an accumulation gathers
        them once for several passes."""
        for state in _states(self, recurse):
            state.group.releases_after_backward = bool(reshard_after_backward)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of this module's gradients are divided by, instead of the number of processes."""
        self._fsdp.group.divisor = float(factor)

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Let parameters without a gradient take part with zeros: where processes use different ones."""
        for state in _states(self, recurse):
            state.group.reduces_unused = bool(reduce_scatter_unused_params)

    def set_modules_to_forward_prefetch(self, modules: Sequence[Any]) -> None:
        """The modules whose parameters begin to be gathered when this one's are there, in forward; without,
        that is the one that was called next the last time."""
        self._fsdp.next_in_forward = [state.group for state in _given(modules)]

    def set_modules_to_backward_prefetch(self, modules: Sequence[Any]) -> None:
        """The same for backward; without, it is the one that was called before."""
        groups = [state.group for state in _given(modules)]

        def prefetch(group: ParameterGroup) -> None:
            for other in groups:
                other.start_in_backward()

        self._fsdp.group.own_prefetch = prefetch

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted, and changes nothing: each ``backward()`` leaves its averages where it returns."""

    def reset_iter_state(self) -> None:
        """After an exception in forward or backward: forget gathered parameters and gradients of that pass,
        here and below."""
        for state in _states(self, True):
            state.group.forget()

    # -- what a plain module does in another way -----------------------------------------------------------

    def _apply(self, fn: Callable) -> Any:
        self._fsdp.reshard()
        return super()._apply(fn)  # type: ignore[misc]

    @property
    def _compiled_part(self) -> Any:
        raise CompileError(compile_refusal(self._fsdp.name))

    def __deepcopy__(self, memo: dict) -> Any:
        raise TypeError(
            f"{self._fsdp.name} is sharded by fully_shard and can't be copied: make another one, shard it, "
            "and load this one's state_dict()"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"{self._fsdp.name} is sharded by fully_shard and can't be pickled: save its state_dict() with "
            "jtorch.distributed.checkpoint.save"
        )


class UnshardHandle:
    """What ``unshard(async_op=True)`` gives.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """

    def __init__(self, state: State) -> None:
        self._state: State | None = state

    def wait(self) -> None:
        """Return when the whole parameters are in the module."""
        if self._state is not None:
            self._state.unshard()
            self._state = None


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method of a sharded module gather its parameters as ``forward`` does; others stay as they are.

    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name, None)
    if method is None:
        raise ValueError(f"{type(module)} does not have a method {method_name}")

    def gathering(*args: Any, **kwargs: Any) -> Any:
        with module._fsdp.call(module, args, kwargs) as (args, kwargs):
            return module._fsdp.given_out(method(*args, **kwargs))

    module.__dict__[method_name] = gathering


def _states(module: Any, recurse: bool) -> Iterator[State]:
    for each in module.modules() if recurse else (module,):
        if isinstance(each, FSDPModule):
            yield each._fsdp


def _given(modules: Sequence[Any]) -> list[State]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
    return [module._fsdp for module in modules]
