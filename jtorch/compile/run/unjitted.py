"""Running a plan's generated source as plain Python: ``JTORCH_JIT=0``.

Slow, and made to be stepped through: each kernel is the same text that Numba would compile, called with
flat NumPy arrays where the compiled one gets pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.elements import Elements
from jtorch.compile.codegen.emitter import Edge, Number, Pointer
from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.pieces import divided
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run import arena
from jtorch.compile.run.host import array_at, view_of
from jtorch.compile.run.replay import failure_of
from jtorch.compile.run.runner import Runner, store
from jtorch.compile.target import Binding
from jtorch.core.dtypes import HALVES
from jtorch.core.failure import Failure
from jtorch.ops import xp


class Unjitted(Runner):
    """The same duties as ``Replay``, without native code."""

    compiled = 0

    def __init__(self, code: Code, binding: Binding) -> None:
        super().__init__()
        self.code, self.plan = code, code.plan
        self.numbers, self.fixed, self.dynamic = binding.numbers, binding.fixed, binding.dynamic
        self.memory, self.arena = arena.allocate(max(self.plan.arena_bytes, 64))
        self.functions = self._load()

    def _load(self) -> dict[str, Any]:
        """The function of each text."""
        found = {}
        for source, kernel in self.code.texts().items():
            namespace: dict[str, Any] = {}
            exec(compile(source, f"<kernel {kernel.entry}>", "exec"), namespace)
            found[source] = namespace[kernel.entry]
        return found

    def move(self, place: Place, address: int) -> None:
        self.fixed[place] = address

    def run(self, *arguments: Any) -> int:
        with self.alone, np.errstate(all="ignore"):
            store(self.numbers, arguments)
            for row, task in enumerate(self.plan.tasks):
                code = self.run_one(task, arguments)
                if code:
                    self.failed = task
                    return (row << 16) | int(code)
            self._ended += 1
        return 0

    def call_of(self, *tasks: Task) -> Callable[..., int]:
        """What runs one task alone, and gives its status."""
        (task,) = tasks
        return lambda *arguments: self.run_one(task, arguments)

    def run_one(self, task: Task, arguments: Sequence[Any] = ()) -> int:
        """Run one task alone; its status."""
        kernel = self.code.kernels.get(task)
        if kernel is None:
            (eqn,) = task.step.eqns
            values = [
                self._array(a, arguments) if isinstance(a, Var) else a.dtype.type(a.value) for a in eqn.inputs
            ]
            outs = eqn.op.body(xp, *values, **eqn.statics)
            for var, value in zip(eqn.outputs, outs if len(eqn.outputs) > 1 else (outs,), strict=True):
                self._array(var, arguments)[...] = value
            return 0
        assert task.nest is not None
        loop = divided(task.nest)
        edges = (0, loop.size) if loop else (0, 0)
        values = [
            edges[a.last] if isinstance(a, Edge) else self._argument(a, arguments) for a in kernel.arguments
        ]
        return self.functions[kernel.source](*values) or 0

    def _argument(self, argument: Pointer | Number, arguments: Sequence[Any]) -> Any:
        if isinstance(argument, Number):
            return argument.dtype.type(argument.value)
        address = self._address(self.plan.places[argument.var], arguments)
        elements = array_at(address, argument.var).reshape(-1)
        if elements.dtype in HALVES:  # kernels hold their bits
            elements = elements.view(np.uint16)
        return Elements(elements, argument.offset, repr(argument.var))

    def _address(self, place: Place, arguments: Sequence[Any]) -> int:
        if place.kind is Where.ARENA:
            return self.arena + place.at
        if place in self.fixed:
            return self.fixed[place]
        value = arguments[self.dynamic[place]]
        return value.__array_interface__["data"][0]

    def _array(self, var: Var, arguments: Sequence[Any]) -> np.ndarray:
        layout = layout_of(var, self.plan.fused.find)
        assert layout is not None
        return view_of(self._address(self.plan.places[layout.owner], arguments), var, layout)

    def address(self, var: Var, arguments: Sequence[Any]) -> int:
        """Where a variable lies in this call."""
        return self._address(self.plan.places[var], arguments)

    def failure(self, status: int) -> Failure:
        return failure_of(self.code, self.failed, status & 0xFFFF)
