"""Calls that a compiled function makes when it has ended: ``scheduler.step()``, ``scaler.update()``.

Code of the user's that runs in them (``LambdaLR``'s function, a schedule of one's own) would find tensors and
random generators as they are at the end, where eager mode finds them as they were at the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jtorch.compile.observe.reach import seen_by_users_code
from jtorch.core.device_array import ARRAYS
from jtorch.core.errors import CompileError, Source

if TYPE_CHECKING:
    from jtorch.compile.record.trace import Tracer


class _Call(NamedTuple):
    line: Source
    what: str
    tensors: list[Any] | None  # that the user's code in it can reach, None for any
    may_draw: bool
    written: dict[int, int]
    drawn: list[Any]


class PutOff:
    """Those of one recording in which code of the user's runs."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self._calls: list[_Call] = []
        self.any = False  # whether there is a call, of which nobody knows whether it draws

    def note(self, what: str, owner: Any) -> None:
        """A method of ``owner`` is put off."""
        self.any = True
        tensors, may_draw = seen_by_users_code(owner)
        if tensors or tensors is None or may_draw:
            now = self._written(), self._drawn()
            self._calls.append(_Call(self.tracer.line(), what, tensors, may_draw, *now))

    def check(self) -> None:
        """Raise CompileError where what comes later in the function changes what such code may see."""
        for call in self._calls:
            versions = self._written()
            later = [e.array for k, e in self.tracer.arrays.items() if versions[k] != call.written.get(k, 0)]
            if any(_sees(call.tensors, array) for array in later):
                raise self._refused(call, "writes a tensor that your code in it can reach")
            if call.may_draw and call.drawn != self._drawn():
                raise self._refused(call, "draws random numbers, as your code in it may")

    def _written(self) -> dict[int, int]:
        return {k: entry.sym.storage.version for k, entry in self.tracer.arrays.items()}

    def _drawn(self) -> list[Any]:
        generators = self.tracer.generators
        return [*((k, e.drawn) for k, e in generators.entries.items()), *generators.seeded.items()]

    def _refused(self, call: _Call, does: str) -> CompileError:
        return CompileError(
            f"{call.line}: '{self.tracer.name}' calls {call.what}, which runs when a compiled function has "
            f"ended, and then {does}. Put the call last."
        )


def _sees(tensors: list[Any] | None, array: np.ndarray) -> bool:
    """Whether one of ``tensors`` lies in the memory of ``array``."""
    if tensors is None:
        return True
    held = (t._data for t in tensors if t._data.__class__ in ARRAYS)
    return any(np.may_share_memory(array, other) for other in held)
