"""A call of the host's between two graphs. What a library call reads is copied to the host's memory, what it
gives is copied from there; a call out of the function, which is the program's Python, gets tensors on the
device where they lie there, and the device belongs to nobody while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Literal, Var
from jtorch.compile.run import device_memory
from jtorch.compile.run.cuda_steps import Placed
from jtorch.compile.run.host_calls import HostCall, layouts_of
from jtorch.core.device_array import DeviceArray, address_of, in_order
from jtorch.native.cuda.device import Device
from jtorch.ops import xp


def call_between(placed: Placed, device: Device) -> CallBetween:
    """The call of a step."""
    (eqn,) = placed.step.task.step.eqns
    return (CallBetween if eqn.op.there is None else CallOut)(placed, device)


class CallBetween:
    """The step ``placed``, whose op computes with NumPy. ``run()`` waits for the device; it raises what the
    op does, and has written nothing then."""

    def __init__(self, placed: Placed, device: Device) -> None:
        (step, self.address), self.device = placed, device
        (self.eqn,) = step.task.step.eqns
        self.layouts = layouts_of(self.eqn, step.find)
        self.read = list(dict.fromkeys(layout.owner for layout in self.layouts))
        self.written = self.eqn.outputs
        self.call = HostCall(step.task, self.eqn, self.layouts, _address)

    def run(self) -> None:
        memory = {var: np.empty(var.shape, var.dtype) for var in (*self.read, *self.written)}
        with self.device.own():
            self.device.synchronize()  # a clock reads nothing else that waits for it
            for var in self.read:
                self.device.download(address_of(memory[var]), self.address(var), memory[var].nbytes)
            self.call.run(memory)
            for var in self.written:
                self.device.upload(self.address(var), address_of(memory[var]), memory[var].nbytes)


class CallOut(CallBetween):
    """The program's Python: the same, but that arrays lie where they do in eager mode, and that other threads
    may use the device meanwhile, which it may wait for."""

    def run(self) -> None:
        eqn = self.eqn
        outs = eqn.op.there(xp, *self._values(), **eqn.statics)  # type: ignore[misc]
        with self.device.own():
            for var, value in zip(self.written, outs if len(self.written) > 1 else (outs,), strict=True):
                array, there = in_order(value), value.__class__ is DeviceArray
                (self.device.copy if there else self.device.upload)(
                    self.address(var), address_of(array), var.type.nbytes
                )

    def _values(self) -> list[Any]:
        """Its inputs, as views of the plan's memory on the device."""
        memory, layouts = device_memory.of(self.device), iter(self.layouts)
        values: list[Any] = []
        for atom in self.eqn.inputs:
            if isinstance(atom, Literal):
                values.append(atom.dtype.type(atom.value))
                continue
            layout = next(layouts)
            begin, nbytes = self.address(layout.owner), layout.owner.type.nbytes
            block = memory.borrowed(begin, nbytes, self)
            values.append(DeviceArray(block, atom.dtype, atom.shape, layout.strides, layout.offset))
        return values


def _address(var: Var, given: Sequence[Any]) -> int:
    memory: Mapping[Var, np.ndarray] = given[0]
    return address_of(memory[var])
