"""Where random generators are while a function is recorded: so many draws on from where a call finds them, or
where the function itself puts them (``manual_seed``, ``fork_rng``), as each call does again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jtorch.compile.record.inputs import GeneratorInput
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME

if TYPE_CHECKING:
    from jtorch.compile.record.trace import Tracer

_U64 = np.dtype(np.uint64)


class Position(tuple):
    """The position of a generator that is ``drawn`` random ops on from where the call finds it."""

    drawn = 0


class Generators:
    """Those of one recording."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.entries: dict[int, GeneratorInput] = {}  # by the id of the generator
        self.seeded: dict[int, tuple[Any, tuple[int, int]]] = {}  # those whose position the function knows

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        """(seed, number of this random op), both traced."""
        self.tracer.only_now("draws random numbers")
        self.tracer.leave_turn("draws random numbers")
        if id(generator) in self.seeded:
            seed, number = self.seeded[id(generator)][1]
            self.seeded[id(generator)] = generator, (seed, number + 1)
            return self._constant(seed), self._constant(number)
        entry = self._entry(generator)
        entry.drawn += 1
        entry.drew = True
        call = self.tracer.fresh(entry.call.var)
        if entry.drawn > 1:
            call = self.tracer.record(BY_NAME["add"], call, entry.drawn - 1)
        return self.tracer.fresh(entry.seed.var), call

    def _entry(self, generator: Any) -> GeneratorInput:
        entry = self.entries.get(id(generator))
        if entry is None:
            entry = self.entries[id(generator)] = GeneratorInput(generator)
            self.tracer.inputs += [entry.seed, entry.call]
        return entry

    def _constant(self, number: int) -> Any:
        return self.tracer.record(BY_NAME["full"], number, shape=(), dtype=_U64)

    # -- what a generator asks: see ``core/watch.Seeding`` -------------------------------------------------

    def position_of(self, generator: Any) -> tuple[int, int]:
        if id(generator) in self.seeded:
            return self.seeded[id(generator)][1]
        entry = self.entries.get(id(generator))
        drawn = 0 if entry is None else entry.drawn
        found = Position((generator.key, generator.call + drawn))
        found.drawn = drawn
        return found

    def move_to(self, generator: Any, position: tuple[int, int]) -> None:
        self.tracer.only_now("seeds a random generator")
        self.tracer.leave_turn("seeds a random generator")
        if self.tracer.callees:
            raise CompileError(
                f"{user_source()}: '{self.tracer.name}' seeds a random generator, or sets its state, after "
                f"'{self.tracer.callees[-1].name}' ran, which is disabled for compiling. Do it before."
            )
        if isinstance(position, Position):  # where it was in this call
            self.seeded.pop(id(generator), None)
            if position.drawn or id(generator) in self.entries:
                self._entry(generator).drawn = position.drawn
        else:
            self.seeded[id(generator)] = generator, (position[0], position[1])

    def draw_seed(self) -> None:
        raise CompileError(
            f"{user_source()}: '{self.tracer.name}' takes a seed from the system, which a recording would "
            "keep: call seed() outside."
        )

    def check_apart(self, name: str) -> None:
        """Raise where a function that runs as plain Python would find a generator somewhere else."""
        if self.seeded:
            raise CompileError(
                f"{user_source()}: '{self.tracer.name}' calls '{name}', which is disabled for compiling, "
                "after it has seeded a random generator or set its state. Call it before, or seed outside."
            )
