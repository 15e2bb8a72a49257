"""What a fully sharded module knows, and what happens around each of its calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jtorch.compiler import is_compiling
from jtorch.core.errors import CompileError
from jtorch.distributed.fsdp.group import ParameterGroup
from jtorch.distributed.fsdp.order import CURRENT, Order
from jtorch.distributed.fsdp.policies import cast
from jtorch.distributed.fsdp.saved import keeping_places
from jtorch.distributed.sharded import ShardedParameter
from jtorch.eager.public import Tensor, in_backward, is_grad_enabled, through_identity

_COMPILED = (
    "{name} is sharded by fully_shard, and called in a compiled function, where its parameters can't be "
    "gathered. Call it outside of compiled functions; the optimizer's step may be one: "
    "jtorch.compile(optimizer.step)"
)
_WRITTEN = (
    "the parameter {name} was changed in place while fully_shard had gathered it, and the change would be "
    "lost: change the sharded parameter instead, outside of forward, and not after unshard()"
)
_REPLACED = (
    "the parameter {name} was replaced by another tensor after fully_shard, which would go on with its own: "
    "write into the sharded parameter instead, or replace it before"
)


def compile_refusal(name: str) -> str:
    """Why a sharded module can't be part of a compiled function."""
    return _COMPILED.format(name=name)


class Owner(NamedTuple):
    """A module that has the ``number``-th parameter of a group as its attribute ``name``."""

    module: Any
    name: str
    number: int


class State:
    """What one ``fully_shard`` made: a group of parameters, and where they belong.

    ``modules`` are nearly always one; of several that share a group, the first that is called gathers it, and
    when all have been called it is released.
    """

    def __init__(
        self, modules: Sequence[Any], group: ParameterGroup, owners: Sequence[Owner],
        reshard_after_forward: bool,
    ) -> None:  # fmt: skip
        self.name = ", ".join(type(module).__name__ for module in modules)
        self.group = group
        self.owners = list(owners)
        self._to_call = len(modules)
        self._called: set[int] = set()  # since it was gathered
        self.reshard_after_forward = reshard_after_forward
        self.next_in_forward: list[ParameterGroup] | None = None  # instead of what the order says
        self.order = Order()  # of calls in which this is the outermost module
        self._shown: tuple[Tensor, ...] = ()  # the gathered parameters in the places of the sharded ones
        self._depth = 0  # of calls of this module inside each other

    def name_by(self, path: str) -> None:
        """Go by the name that an outer module has for this one, in errors."""
        self.name = path

    # -- a call --------------------------------------------------------------------------------------------

    @contextmanager
    def call(self, module: Any, args: tuple, kwargs: dict) -> Iterator[tuple[tuple, dict]]:
        """What a call of ``module`` runs in: with the whole parameters, of which the tape keeps places alone.
        Gives the arguments to call with."""
        if is_compiling():
            raise CompileError(compile_refusal(self.name))
        if self._depth:
            yield args, kwargs
            return
        with self._ordered(), keeping_places():
            self._depth = 1
            try:
                self.show()
                yield self._taken_in(args, kwargs)
            finally:
                self._depth = 0
                self._leave(module)

    def _taken_in(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments as the policy wants them. Their gradients tell that backward is through where a
        parameter is frozen, as those of parameters don't."""
        policy = self.group.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            args, kwargs = cast((args, kwargs), policy.param_dtype)
        if self.group.holds_frozen and is_grad_enabled():
            args, _ = through_identity(args, lambda gradients: self.group.release_in_backward())
        return args, kwargs

    def given_out(self, result: Any) -> Any:
        """The outputs as the policy wants them."""
        dtype = self.group.policy.output_dtype
        return result if dtype is None else cast(result, dtype)

    @contextmanager
    def _ordered(self) -> Iterator[None]:
        """In its place in the order of calls, which one in backward (of a checkpoint) has none in."""
        order, again = CURRENT.get(), in_backward()
        if again:
            self.group.start_in_backward()
            yield
            return
        outermost = order is None
        if order is None:
            order = self.order
            order.begin()
        before = CURRENT.set(order)
        try:
            order.enter(self.group)
            self.group.gather()
            self._prefetch(order)
            yield
        finally:
            CURRENT.reset(before)
            if outermost:
                order.end()

    def _prefetch(self, order: Order) -> None:
        if self.next_in_forward is None:
            order.prefetch_after(self.group)
        else:
            for group in self.next_in_forward:
                group.start()

    def _leave(self, module: Any) -> None:
        self._called.add(id(module))
        try:
            self.hide()
        finally:
            if len(self._called) == self._to_call:
                self._called.clear()
                if self.reshard_after_forward and not in_backward():
                    self.group.release()

    # -- what the module shows -----------------------------------------------------------------------------

    def show(self) -> None:
        """Put the whole parameters into the module."""
        self.hide()
        for module, name, number in self.owners:
            if module._parameters.get(name) is not self.group.params[number]:
                raise RuntimeError(_REPLACED.format(name=self.group.names[number]))
        self.group.gather()
        self._shown = self.group.tensors()
        for module, name, number in self.owners:
            module._parameters[name] = self._shown[number]

    def hide(self) -> None:
        """Put the sharded parameters back. Raises RuntimeError where whole ones were written to."""
        shown, self._shown = self._shown, ()
        if not shown:
            return
        params: Sequence[ShardedParameter] = self.group.params
        for module, name, number in self.owners:
            module._parameters[name] = params[number]
        for name, tensor in zip(self.group.names, shown, strict=True):
            if tensor._version:
                raise RuntimeError(_WRITTEN.format(name=name))

    def unshard(self) -> None:
        """Gather until ``reshard``, or the end of a call that releases."""
        self.show()
        self.group.is_kept = True

    def reshard(self) -> None:
        try:
            self.hide()
        finally:
            self.group.release()
