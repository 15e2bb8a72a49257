"""What a plan can touch outside, copied, so that one call can be run twice from the same state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jtorch.compile.observe.draws import OF_MODULES, Positions
from jtorch.compile.record.containers import snapshot
from jtorch.compile.record.inputs import GradInput, Input, captured, grad_array, of
from jtorch.core.device_array import copied, on_host
from jtorch.core.generator import default_generator
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor

_TAPE = ("_node", "_index", "_requires_grad", "_base")


class Snapshot:
    """The parameters, buffers, optimizer state, gradients, arguments and generators before one call."""

    def __init__(self, capture: Any, leaves: list[Any]) -> None:
        leaves = capture.whole(leaves)
        self.arrays = _arrays(capture.inputs, leaves)
        self.before = [*map(copied, self.arrays)]
        self.tensors = _tensors(capture, leaves)
        self.grads = [(t, t._grad, grad_array(t)) for t in self.tensors]
        self.grads_before = [None if g is None else copied(g) for _, _, g in self.grads]
        self.tape = [(t, [getattr(t, name) for name in _TAPE]) for t in self.tensors]
        moved = [*capture.effects.draws, *capture.effects.seeds]
        drawn = {id(g): g for g, _ in moved} | {id(default_generator): default_generator}
        self.generators = [(g, g.position()) for g in drawn.values()]
        self.drawn = Positions()  # also of those that another way through the function may draw from
        for generator in (*OF_MODULES, *(each.place.generator for each in capture.drawn)):
            self.drawn.keep(generator)
        self.plain = [place.snapshot() for place in {p.identity: p for p in capture.written}.values()]
        if containers := getattr(leaves, "containers", ()):
            self.plain += [snapshot(containers[change.index]) for change in capture.changes]

    def restore(self) -> None:
        """Make everything what it was. Version counters stay where they got to."""
        for array, before in zip(self.arrays, self.before, strict=True):
            if array.flags.writeable:
                array[...] = before
        for (tensor, grad, memory), elements in zip(self.grads, self.grads_before, strict=True):
            EAGER.set_grad(tensor, grad)
            now = grad_array(tensor)  # a plan's gradient moves to other memory while this one is kept
            for place in (memory, now):
                if place is not None and elements is not None:
                    place[...] = elements
        for tensor, facts in self.tape:
            for name, value in zip(_TAPE, facts, strict=True):
                setattr(tensor, name, value)
        for generator, position in self.generators:
            generator.move_to(position)
        self.drawn.put_back()
        for put_back in self.plain:
            put_back()

    def effects(self) -> list[np.ndarray | None]:
        """What is there now: arrays, then gradients, then the generators' positions."""
        found: list[np.ndarray | None] = [np.array(on_host(a)) for a in self.arrays]
        for tensor in self.tensors:
            grad = grad_array(tensor)
            found.append(None if grad is None else np.array(on_host(grad)))
        return found + [np.array(g.position(), np.uint64) for g, _ in self.generators]

    def names(self, name_of: Any) -> list[str]:
        """What to call the entries of ``effects``; ``name_of`` knows tensors by their arrays."""
        names = [name_of(a) for a in self.arrays]
        names += [f"the gradient of {name_of(t._data)}" for t in self.tensors]
        return names + ["the random generator's position"] * len(self.generators)


def _arrays(inputs: Iterable[Input], leaves: list[Any]) -> list[np.ndarray]:
    found = {id(e.array): e.array for e in captured(inputs)}
    found |= {id(leaf._data): leaf._data for leaf in leaves if isinstance(leaf, Tensor)}
    return list(found.values())


def _tensors(capture: Any, leaves: list[Any]) -> list[Tensor]:
    """Those whose gradient or place on the tape a call may change; arguments as they are in this call."""
    inputs = [e.tensor for e in of(GradInput, capture.inputs)]
    reached = [*inputs, *(t for t, _ in capture.effects.grads), *capture.leaves]
    found = [leaves[capture.places[id(t)]] if id(t) in capture.places else t for t in reached]
    found += [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    return list({id(t): t for t in found}.values())


def graph_arguments(capture: Any, leaves: Sequence[Any]) -> list[np.ndarray]:
    """What the inputs of a plan's graph are now, for a call with ``leaves``; copies in the host's memory."""
    whole = capture.whole(leaves)
    return [np.array(on_host(entry.value(whole)), entry.var.dtype, order="C") for entry in capture.inputs]
