"""A loop of which elements of tensors say how many steps it takes: the host reads them between its turns.

Each turn is a graph that is launched, or several. Turns whose arguments lie at the same addresses have the
same one, and it is made when the first of them is reached: what a loop carries lies in two places in turn, so
one that keeps nothing for a way back has four, however many turns it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.graph.access import layout_of
from jtorch.compile.run.cuda_steps import Step, Turning
from jtorch.native.cuda.device import Device

if TYPE_CHECKING:
    from jtorch.compile.run.cuda_graph import Parts


class Turns:
    """``make(placed, like)`` gives what runs the steps of a turn, with the scratch memory of another turn, if
    that is given. ``like``: the same loop in another turn of what it is in."""

    def __init__(
        self, turning: Turning, device: Device, make: Callable[[Any, Parts | None], Parts],
        like: Turns | None = None,
    ) -> None:  # fmt: skip
        self.turning, self.device, self.make = turning, device, make
        self.known: dict[tuple[int, ...], Parts] = {}
        self.like: Parts | None = like.like if like else None
        self.like = self._at(0, True)  # which says what cannot be done
        self.unwritten = list(self._unwritten())

    def run(self) -> tuple[Step, int] | None:
        """Run the loop. The first step that reported an error, and its number."""
        loop = self.turning.loop
        with self.device.own():
            for span in self.unwritten:
                self.device.clear(span.start, len(span))
            begin = self._word(*loop.skipped) if loop.skipped else 0
        for k in range(begin, loop.steps):
            with self.device.own():
                turn = self._at(k, k == begin)
            failed = turn.run()
            if failed:
                return failed
            if loop.ends and self._has_ended():
                break
        return None

    def _at(self, k: int, is_first: bool) -> Parts:
        given = self.turning.at(k, is_first)
        if given not in self.known:
            self.known[given] = self.make(list(self.turning.placed(given)), self.like)
        return self.known[given]

    def _has_ended(self) -> bool:
        loop = self.turning.loop
        with self.device.own():
            return self._word(*loop.arguments[loop.ends - 1].later) < 0

    def _word(self, var: Any, begin: int) -> int:
        """An int64, when the device is done."""
        word = np.empty(1, np.int64)
        self.device.download(word.ctypes.data, self.turning.address(var) + begin, word.nbytes)
        return int(word[0])

    def _unwritten(self) -> Iterator[range]:
        """Memory that is read behind the loop, and that a loop of one turn, or none, may not have written:
        what was read is not chosen then."""
        loop, address = self.turning.loop, self.turning.address
        read = []
        for var in loop.eqn.inputs:
            layout = layout_of(var, loop.find)  # type: ignore[arg-type]
            assert layout is not None  # see graph/finalise.py
            read.append(_span(address, layout.owner))
        last = [loop.eqn.outputs[len(loop.carries)]] if loop.ends else []
        for var in (*(loop.eqn.outputs[k] for k in loop.scan.carried), *last):
            span = _span(address, var)
            if all(span.stop <= other.start or other.stop <= span.start for other in read):
                yield span


def _span(address: Callable[[Any], int], var: Any) -> range:
    return range(address(var), address(var) + var.type.nbytes)
