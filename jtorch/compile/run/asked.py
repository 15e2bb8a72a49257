"""What is known of some sizes where it is chosen how each task of a plan goes that is one over symbols, see
``choice.py``; and the numbers in it that other sizes change, which are followed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jtorch.compile.run.steps_at_sizes import StepsAtSizes
from jtorch.compile.run.template import ProductBlock, Template
from jtorch.core.pieces import product_time


class Asked(NamedTuple):
    """``values`` of the template's expressions, None where they are followed; microseconds of its loops, and
    others behind them; ``turns`` of loops; the moving numbers of its products, and whether they are usual.
    ``is_cut``: threads share what they can."""

    values: np.ndarray | None
    times: Sequence[float]
    turns: Sequence[int]
    parts: Sequence[tuple[int, ...]]
    usual: Sequence[bool]
    is_cut: bool


class Moving:
    """What moves in those of a template without loops over time, of which ``tiled`` asks more."""

    def __init__(self, template: Template, tiled: StepsAtSizes) -> None:
        texts = [*template.ints.texts]

        def constant(expression: int) -> int | None:
            text = texts[expression]
            return int(text) if text.lstrip("-").isdigit() else None

        loops = ((each, constant(elements)) for each, elements, _, _ in template.times)
        products = map(constant, template.flops)
        self.tiled = tiled
        self._parts = [len(block.moving) for block in template.blocks if isinstance(block, ProductBlock)]
        # The same at all sizes, None where it moves.
        self._times: list[float | None] = [
            *(None if elements is None else each * elements for each, elements in loops),
            *(None if flops is None else product_time(flops) for flops in products),
        ]
        self._turns = [constant(turns) for _, _, turns, _ in template.times]
        self._moves = [[n is None for n in known] for known in (self._times, self._turns)]

    def numbers(self, sizes: Sequence[int], asked: Asked) -> list[Any]:
        """Those of what is ``asked`` of these sizes, and of what is tiled."""
        times, turns = map(itertools.compress, (asked.times, asked.turns), self._moves)
        parts = itertools.chain.from_iterable(asked.parts)
        return [asked.is_cut, *asked.usual, *self.tiled.asked(*sizes), *times, *turns, *parts]

    def asked(self, numbers: Sequence[Any]) -> tuple[Asked, list[Any]]:
        """What has these numbers, which may be followed, and those of what is tiled."""
        left = iter(numbers)

        def with_constants(known: Iterable[Any]) -> list[Any]:
            return [next(left) if n is None else n for n in known]

        is_cut, *usual = itertools.islice(left, 1 + len(self._parts))
        moving = [*itertools.islice(left, self.tiled.n_asked)]
        times, turns = with_constants(self._times), with_constants(self._turns)
        parts = [tuple(itertools.islice(left, n)) for n in self._parts]
        return Asked(None, times, turns, parts, usual, bool(is_cut)), moving
