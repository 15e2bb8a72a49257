"""An instance of a plan that has library calls: tables, and these calls between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.access import Find
from jtorch.compile.graph.at_sizes import Numbers
from jtorch.compile.graph.ir import Var
from jtorch.compile.run.expressions import Expressions
from jtorch.compile.run.host_calls import HostCall, layouts_of
from jtorch.compile.run.runner import store
from jtorch.compile.run.template import HostBlock
from jtorch.native.executor import Executor


class CallsAtSizes:
    """The library calls of a plan over symbols, worked out for a call's sizes."""

    def __init__(self, blocks: Sequence[HostBlock], find: Find, names: Sequence[str], space: Any) -> None:
        self.numbers = Expressions()
        asked = Numbers(self.numbers.of)
        self.blocks = []
        for block in blocks:
            (eqn,) = block.task.step.eqns
            layouts = layouts_of(eqn, find)
            self.blocks.append((block, eqn, layouts))
            asked.eqn(eqn)
            for layout in layouts:
                asked.layout(layout)
        self.function = self.numbers.function(names, space)

    def made(self, sizes: Sequence[int], words: np.ndarray) -> list[HostCall]:
        """The calls, in their order, of an instance that has these words."""
        values, known = self.function(*sizes), self.numbers.texts
        of = Numbers(lambda symbol: values[known[symbol.text]])
        calls = []
        for block, eqn, layouts in self.blocks:
            at = {of.var(var): k for var, k in block.words.items()}
            brought = {of.var(var): k for var, k in block.arguments.items()}
            address = _address(words, at, brought)
            calls.append(HostCall(block.task, of.eqn(eqn), [of.layout(x) for x in layouts], address))
        return calls


def _address(words: np.ndarray, at: Mapping[Var, int], brought: Mapping[Var, int]) -> Callable[..., int]:
    """Where a variable lies: word ``at`` tells, or an argument of the call does that has ``brought`` it."""

    def address(var: Var, arguments: Sequence[Any]) -> int:
        k = at.get(var)
        if k is not None:
            return int(words[k])
        return arguments[brought[var]].__array_interface__["data"][0]

    return address


class Segments:
    """What takes an executor's place: ``tables``, and before each of ``calls`` as many of their rows as it
    has with it. ``scalars`` are where runtime scalars belong. Whoever runs it is alone."""

    def __init__(
        self, table: np.ndarray, calls: Sequence[tuple[int, HostCall]], scalars: Mapping[int, int],
        executor: Callable[[np.ndarray, bool], Executor],
    ) -> None:  # fmt: skip
        self.scalars, self.ended = scalars, 0
        self.parts: list[tuple[int, HostCall | Executor]] = []  # and the number of its first row
        begin, first = 0, True
        for end, call in (*calls, (len(table), None)):
            if end > begin:
                self.parts.append((begin, executor(table[begin:end], first)))
                first = False
            if call is not None:
                self.parts.append((end, call))
            begin = end

    def run(self, *arguments: Any) -> int:
        """Run all; the status that of the first row that fails."""
        store(self.scalars, arguments)
        for begin, part in self.parts:
            status = part.run(*arguments)
            if status:
                return Executor.of_later_row(status, begin)
        self.ended += 1
        return 0
