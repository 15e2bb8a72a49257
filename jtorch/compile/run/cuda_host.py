"""A library call between two graphs: what it reads is copied to the host's memory, what it gives is copied
from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Var
from jtorch.compile.run.cuda_steps import Placed
from jtorch.compile.run.host_calls import HostCall, layouts_of
from jtorch.compile.target import address_of
from jtorch.native.cuda.device import Device


class CallBetween:
    """The step ``placed``, whose op computes with NumPy. ``run()`` waits for the device; it raises what the
    op does, and has written nothing then."""

    def __init__(self, placed: Placed, device: Device) -> None:
        (step, self.address), self.device = placed, device
        (eqn,) = step.task.step.eqns
        layouts = layouts_of(eqn, step.find)
        self.read = list(dict.fromkeys(layout.owner for layout in layouts))
        self.written = eqn.outputs
        self.call = HostCall(step.task, eqn, layouts, _address)

    def run(self) -> None:
        memory = {var: np.empty(var.shape, var.dtype) for var in (*self.read, *self.written)}
        for var in self.read:
            self.device.download(address_of(memory[var]), self.address(var), memory[var].nbytes)
        self.call.run(memory)
        for var in self.written:
            self.device.upload(self.address(var), address_of(memory[var]), memory[var].nbytes)


def _address(var: Var, given: Sequence[Any]) -> int:
    memory: Mapping[Var, np.ndarray] = given[0]
    return address_of(memory[var])
