"""One checkpointed call: what it keeps instead of saved tensors, and how it gets them back.

In the first run each saved tensor is packed into a numbered *slip*. The first slip to be unpacked runs the
function again and fills in the numbers of all slips still held; each value is let go when it was used.
Arguments are packed by the hooks in force outside: so a checkpoint inside a checkpoint keeps nothing alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from jtorch.core import op as op_module
from jtorch.eager.public import (
    Packed,
    Tensor,
    as_before,
    enable_grad,
    noted_draws,
    pack,
    repeated_draws,
    saved_tensors_hooks,
    twin_of,
)


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


def _shape_dtype_device(t: Tensor) -> dict[str, Any]:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


METADATA: dict[str, Callable[[Tensor], Any]] = {"default": _shape_dtype_device, "none": lambda t: None}


class _Slip:
    """Stands for the ``number``-th tensor that the call saved."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class _Argument:
    """A tensor among the arguments, in the form that the hooks outside give it."""

    def __init__(self, tensor: Tensor) -> None:
        self.packed: Packed | None = pack(tensor)
        self.tensor = None if self.packed is not None else tensor
        self.version = tensor._version
        self.requires_grad = tensor.requires_grad

    def again(self) -> Tensor:
        if self.packed is not None:
            return self.packed.tensor().detach().requires_grad_(self.requires_grad)
        assert self.tensor is not None
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: an argument of shape {list(self.tensor.shape)} of a checkpointed function is at "
                f"version {self.tensor._version}; expected version {self.version} instead."
            )
        return twin_of(self.tensor, self.requires_grad)


class _Enough(Exception):  # noqa: N818 - no error: it ends the second run
    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class Frame:
    """One checkpointed call."""

    def __init__(
        self, function: Callable, second: AbstractContextManager, metadata: Callable, early_stop: bool
    ) -> None:
        self.function, self.second, self.early_stop = function, second, early_stop
        self.metadata = metadata
        self.facts: list[Any] = []  # of each tensor saved in the first run
        self.slips: list[weakref.ref[_Slip]] = []
        self.values: dict[int, Tensor] = {}  # by number, from the second run until they are used
        self.draws: list[tuple[Any, Any]] = []
        self.casting = op_module.CONTEXT.get().casting
        self.repeats = False  # whether the second run draws the same random numbers

    def keep(self, args: tuple, kwargs: dict[str, Any]) -> None:
        self.args = [_Argument(a) if isinstance(a, Tensor) else a for a in args]
        self.kwargs = {k: _Argument(a) if isinstance(a, Tensor) else a for k, a in kwargs.items()}

    @contextmanager
    def first_run(self, preserve_rng_state: bool) -> Iterator[None]:
        self.repeats = preserve_rng_state
        noting = noted_draws(self.draws) if preserve_rng_state else nullcontext()
        with saved_tensors_hooks(self._pack, self._unpack), noting:
            yield

    def _pack(self, tensor: Tensor) -> _Slip:
        slip = _Slip(len(self.slips))
        self.slips.append(weakref.ref(slip))
        self.facts.append(self.metadata(tensor))
        return slip

    def _unpack(self, slip: _Slip) -> Tensor:
        if slip.number not in self.values:
            self._run_again()
        return self.values.pop(slip.number)

    def _run_again(self) -> None:
        """Fill ``values`` for all slips that somebody still holds."""
        op_module.CONTEXT.get().evaluator.runs_again(self.function)
        found = _Recomputed(self)
        args = [a.again() if isinstance(a, _Argument) else a for a in self.args]
        kwargs = {k: a.again() if isinstance(a, _Argument) else a for k, a in self.kwargs.items()}
        repeating = repeated_draws(self.draws) if self.repeats else nullcontext()
        try:
            hooks = saved_tensors_hooks(found.note, lambda kept: kept)
            with hooks, enable_grad(), as_before(self.casting), repeating, self.second:
                self.function(*args, **kwargs)
        except _Enough as enough:
            if enough.frame is not self:
                raise
        found.check()
        self.values = found.values


class _Recomputed:
    """What the second run saves."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.count = 0
        self.values: dict[int, Tensor] = {}
        self.different: list[str] = []

    def note(self, tensor: Tensor) -> Tensor:
        frame, number = self.frame, self.count
        if number == len(frame.slips):
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
                "original forward pass."
            )
        self.count += 1
        if frame.slips[number]() is not None:
            self.values[number] = tensor
            self._compare(number, frame.facts[number], frame.metadata(tensor))
        if frame.early_stop and self.count == len(frame.slips):
            raise _Enough(frame)
        return tensor

    def _compare(self, number: int, first: Any, second: Any) -> None:
        if first != second:
            self.different.append(
                f"tensor at position {number}:\nsaved metadata: {first}\nrecomputed metadata: {second}\n"
            )

    def check(self) -> None:
        saved = len(self.frame.slips)
        if self.count != saved:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation.\nNumber of tensors saved during forward: {saved}\nNumber of tensors "
                "saved "
                f"during recomputation: {self.count}."
            )
        if self.different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass.\n{''.join(self.different)}"
            )
