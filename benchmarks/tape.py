"""What building a graph at every step costs in eager mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jtorch
from benchmarks.program import Program
from benchmarks.timing import Calls, Effort, Timing, interleave


@dataclass(frozen=True)
class TapeCost:
    """Nodes on the tape of one step, and its forward pass with the tape and under ``no_grad``."""

    nodes: int
    forward: Timing
    without_tape: Timing

    @property
    def seconds(self) -> float:
        """Per step. Near zero, and even below, where the arithmetic hides it."""
        return self.forward.median - self.without_tape.median

    def as_dict(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "forward": self.forward.as_dict(),
            "forward_no_grad": self.without_tape.as_dict(),
            "tape_s": self.seconds,
        }


def count_nodes(result: Any) -> int:
    """Ops on the tape behind ``result``: distinct nodes, not counting where leaves accumulate."""
    seen: set[int] = set()
    todo = [result.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen or node.name() == "AccumulateGrad":
            continue
        seen.add(id(node))
        todo += [target for target, _ in node.next_functions]
    return len(seen)


def cost(program: Program, effort: Effort) -> TapeCost:
    """Time the forward pass of a program on jtorch with the tape and without, in turns."""
    forward = program.forward
    assert forward is not None
    nodes = count_nodes(forward(*program.arguments[0]))
    contestants = {
        "with": Calls(forward, program.arguments, program.reset),
        "without": Calls(forward, program.arguments, program.reset, mode=jtorch.no_grad),
    }
    timings = interleave(contestants, effort)
    return TapeCost(nodes, timings["with"], timings["without"])
