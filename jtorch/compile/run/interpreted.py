"""Running a plan's graph equation by equation, as it was recorded: ``mode="interpret"``.

No pass, no fusion, no memory plan and no kernel takes part, so what is wrong here is wrong in the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.interpret import interpret
from jtorch.compile.graph.ir import Graph, Var
from jtorch.compile.plan.plan import Place, Where
from jtorch.compile.run.host import array_at
from jtorch.compile.run.runner import Runner, store
from jtorch.compile.target import Binding
from jtorch.core.failure import Failure


class Interpreted(Runner):
    """The same duties as ``Replay``, by NumPy. ``graph`` has the outputs of the plan's, in their order."""

    compiled = 0

    def __init__(self, code: Code, graph: Graph, binding: Binding) -> None:
        super().__init__()
        self.graph = graph
        self.plan = code.plan
        self.numbers, self.fixed, self.dynamic = binding.numbers, binding.fixed, binding.dynamic

    def move(self, place: Place, address: int) -> None:
        self.fixed[place] = address

    def run(self, *arguments: Any) -> int:
        with self.alone:
            self._run(arguments)
            self._ended += 1
        return 0

    def _run(self, arguments: Sequence[Any]) -> None:
        store(self.numbers, arguments)
        places = (Place(Where.INPUT, k) for k in range(len(self.graph.inputs)))
        values = [
            np.array(self._array(p, v, arguments)) for p, v in zip(places, self.graph.inputs, strict=True)
        ]
        outs = interpret(self.graph, values)
        outputs = self.plan.fused.graph.outputs
        for var, destination, value in zip(outputs, self.plan.destinations, outs, strict=True):
            assert isinstance(var, Var)
            self._array(destination.place, var, arguments)[...] = value

    def _array(self, place: Place, var: Var, arguments: Sequence[Any]) -> np.ndarray:
        address = self.fixed.get(place)
        return array_at(address, var) if address is not None else arguments[self.dynamic[place]]

    def failure(self, status: int) -> Failure:
        """NumPy's own errors are raised; there is no status but 0."""
        raise AssertionError(f"the interpreter gave status {status}")
