"""Factories on the device "meta": shapes and dtypes are worked out, elements are not made.

What ops make of such tensors is no matter of this file: they lie on a device, see ``on_device.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import META
from jtorch.core.op import TABLE, Op
from jtorch.eager.evaluate import EAGER, Eager
from jtorch.eager.on_device import memory_of, with_defaults


class _Meta(Eager):
    """Ops of numbers and arrays of the host, or of nothing, give arrays without elements."""

    narrows = False

    def __init__(self) -> None:
        self.on_host, self.on_device = EAGER.on_host, EAGER.on_device
        self.memory = memory_of(META)
        self.table = [functools.partial(self._computed, op) for op in TABLE]
        self.xp = SimpleNamespace(**{op.name: f for op, f in zip(TABLE, self.table, strict=True)})

    def _computed(self, op: Op, *values: Any, **statics: Any) -> Any:
        values = tuple([self.memory.uploaded(v) if isinstance(v, np.ndarray) else v for v in values])
        if any(v.__class__ is DeviceArray for v in values):
            return self.on_device.op(op, values, statics)
        return self.memory.made(op, self.on_host[op.index], values, with_defaults(op, statics))

    def as_value(self, value: Any) -> Any:
        return self.memory.uploaded(value)

    def new(self, array: np.ndarray) -> Any:
        return self.memory.uploaded(array)

    def next_call(self, generator: Any) -> tuple[int, int]:
        return 0, 0  # nothing is drawn: the generator stays where it is


_meta = functools.cache(_Meta)


@contextmanager
def without_elements() -> Iterator[None]:
    """What is made in the block has a shape and a dtype."""
    context = op_module.CONTEXT.get()
    try:
        op_module.CONTEXT.set(context.replace(evaluator=_meta()))
        yield
    finally:
        op_module.CONTEXT.set(context)
