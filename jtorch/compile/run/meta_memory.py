"""The memory of the device "meta", where tensors have shapes and dtypes and no elements: what
``core/higher.py`` offers to eager mode as ``meta``.

What an op makes of such arrays is found by recording it for their shapes, as kernels of formulas are; nothing
is computed.

Source: https://docs.pytorch.org/docs/stable/meta.html
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from jtorch.compile.graph.ir import Var
from jtorch.compile.run.bodies import Recording, constant, form_of
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import META
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError
from jtorch.core.op import Op

_APART = 1 << 44  # bytes from one block to the next: none lies in another
_addresses = itertools.count(_APART, _APART)


class Block:
    """Of no memory at all: see ``core/device_array.py``."""

    __slots__ = ("address", "memory", "nbytes")

    def __init__(self, memory: MetaMemory, nbytes: int) -> None:
        self.memory, self.nbytes, self.address = memory, nbytes, next(_addresses)

    @property
    def device(self) -> Any:
        return META

    @property
    def stream(self) -> int:
        return 0  # of the driver's it has none

    def download(self, begin: int, nbytes: int, wanted_by: str) -> NoReturn:
        if wanted_by == "a copy to the host":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if wanted_by in ("item()", "bool()"):
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        raise NotImplementedError(f"{wanted_by} needs elements, and a tensor on the device meta has none")

    def assign(self, array: DeviceArray, value: Any) -> None:
        """Nothing is written; what does not fit raises, as it does elsewhere."""
        shape = getattr(value, "shape", ())
        if np.broadcast_shapes(array.shape, shape) != array.shape:
            raise ValueError(f"could not broadcast from shape {shape} into shape {array.shape}")


class MetaMemory:
    """All arrays without elements."""

    name = META

    def __init__(self) -> None:
        self._made = lru_cache(maxsize=2048)(self._make)

    def empty(self, dtype: np.dtype, shape: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(Block(self, math.prod(shape) * dtype.itemsize), dtype, tuple(shape))

    def uploaded(self, value: Any, later: bool = False) -> Any:
        """One like an array; of a tuple of them each."""
        if value.__class__ is tuple:
            return tuple([self.uploaded(v) for v in value])
        if value is None or (value.__class__ is DeviceArray and value.device == META):
            return value
        if value.__class__ is DeviceArray:
            return self.copied(value)
        return self.empty(np.asarray(value).dtype, np.shape(value))

    def copied(self, array: DeviceArray) -> DeviceArray:
        """Row by row, in memory of its own."""
        return self.empty(array.dtype, array.shape)

    def in_order(self, array: DeviceArray) -> DeviceArray:
        """Itself where it is laid out row by row, else a copy that is."""
        return array if array.in_order else self.copied(array)

    def made(self, op: Op, at_once: Callable, values: tuple, statics: dict[str, Any]) -> Any:
        """What an op makes of no arrays; ``at_once`` would on the host."""
        return self.kernels(op.body, values, statics)(values)

    def routine(self, op: Any, xp: Any, values: tuple, statics: dict[str, Any]) -> None:
        """None: what ``kernels`` gives does for all ops."""

    def kernels(
        self, function: Callable, values: tuple, statics: dict[str, Any], moves: Any = None, parts: Any = None
    ) -> Callable[[tuple], Any]:
        """What gives the results of ``function(xp, *values, **statics)``. Raises NotImplementedError where
        their shapes depend on elements."""
        form = form_of(values, [])
        fixed = tuple([(name, constant(value)) for name, value in statics.items()])
        return self._made(function, form, fixed)

    def _make(self, function: Callable, form: tuple, fixed: tuple) -> Callable[[tuple], Any]:
        try:
            recording = Recording(function, form, fixed, ())
        except (CompileError, Exact) as why:
            raise NotImplementedError(
                f"{function.__qualname__} asks for elements, which tensors on meta have none of"
            ) from why
        given = {var: k for k, var in enumerate(recording.arrays)}

        def call(values: tuple) -> Any:
            arrays = list[DeviceArray]()
            form_of(values, arrays)
            found = [
                None
                if a is None
                else arrays[given[a]]
                if a in given
                else self.empty(a.dtype, a.shape if isinstance(a, Var) else ())
                for a in recording.results
            ]
            return tuple(found) if recording.several else found[0]

        return call


memory = MetaMemory()
