"""What building a graph at every step costs in eager mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jtorch
from benchmarks.program import Program
from benchmarks.timing import Calls, Contestant, Effort, Timing, interleave

WITH, WITHOUT = "forward with the tape", "forward without it"


@dataclass(frozen=True)
class TapeCost:
    """Nodes on the tape of one step, and its forward pass with the tape and under ``no_grad``."""

    nodes: int
    forward: Timing
    without_tape: Timing

    @property
    def seconds(self) -> float:
        """Per step. Near zero, and even below, where the arithmetic hides it."""
        return self.forward.beyond(self.without_tape)

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
    return cost_of(program, interleave(contestants(program), effort))


def contestants(program: Program) -> dict[str, Contestant]:
    """The forward pass with the tape, and without."""
    forward = program.forward
    assert forward is not None
    return {
        WITH: Calls(forward, program.arguments, program.reset),
        WITHOUT: Calls(forward, program.arguments, program.reset, mode=jtorch.no_grad),
    }


def cost_of(program: Program, timings: Mapping[str, Timing]) -> TapeCost:
    """What the times of these contestants say."""
    assert program.forward is not None
    nodes = count_nodes(program.forward(*program.arguments[0]))
    return TapeCost(nodes, timings[WITH], timings[WITHOUT])


def saved_bytes(library: Any, program: Program) -> int:
    """What the tape of one forward pass keeps for backward, beside parameters and data: each storage once.

    ``library`` is jtorch or torch, whichever the program is of.
    """
    assert program.forward is not None
    kept: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with library.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = program.forward(*program.arguments[0])
    tensors = [t for some in program.kept().values() for t in some]
    others = {t.untyped_storage().data_ptr() for t in (*tensors, *program.arguments[0])}
    del result  # until here nothing that was saved is freed, so that no address is another one's
    return sum(nbytes for address, nbytes in kept.items() if address not in others)
