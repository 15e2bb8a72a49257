"""``x[i]`` for an ``i`` that is a tensor of one integer, or such a number: in eager mode a view, in a graph a
copy.

What is written into the copy is written into ``x`` as well. What eager mode would show in the copy later, or
take along on the tape, is an error.
"""

from __future__ import annotations

from typing import Any

from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME
from jtorch.ops.slicing import OVERLAPPING


class Pick:
    """Where a copy came from: ``tensor`` at ``indices``, traced values without axes, along ``axes``."""

    def __init__(self, tracer: Any, tensor: Any, indices: tuple, axes: tuple[int, ...]) -> None:
        self.tracer = tracer
        self.tensor = tensor
        self.indices = tuple(tracer.fresh(tracer.read(tracer.lift(i))) for i in indices)
        self.axes = axes
        self.storage = tracer.lift(tensor._data).storage
        self.version = self.storage.version

    def check(self) -> None:
        """Raise where eager mode's view would show something else by now."""
        if self.storage.version != self.version:
            raise CompileError(
                f"{user_source()}: x[i] with a tensor or .item() as i is used here after x changed, which "
                "eager mode would show in it, as a view: take x[i] again, or its .clone() at once."
            )
        if self.storage.picked is not None:
            self.storage.picked.check()

    def write(self, value: Any) -> None:
        """The copy was given ``value``: so is the place it came from."""
        tracer = self.tracer
        before = tracer.lift(self.tensor._data)
        put = tracer.table[BY_NAME["index_put"].index](before, value, *self.indices, axes=self.axes)
        try:
            tracer.write(self.tensor, put)
        except RuntimeError as error:
            if str(error) != OVERLAPPING:
                raise
            raise CompileError(
                f"{user_source()}: x[i] with a tensor or .item() as i changes in place, of an x whose "
                "elements share memory, as after expand(): take x[i] of what was expanded, or of a clone()."
            ) from None
        self.tensor._cell[0] += 1
        self.version = self.storage.version


def check_tape(written: list[tuple[Any, Any]]) -> None:
    """Raise where a copy that was written through is on the tape: where it came from is not told of it."""
    for tensor, source in written:
        if tensor._requires_grad or tensor._node is not None:
            raise CompileError(
                f"{source}: x[i] with a tensor or .item() as i changes in place, with gradients, which can't "
                "be followed while a function is compiled: write x[i] = x[i] + ... in place of x[i] += ..."
            )
