"""The steps of a plan in the order in which a device runs them: a loop over time is the steps of its turn, as
often as it has turns.

How many there are is known where a graph is made, and so is where each turn finds what it works on: from turn
to turn addresses alone move on. All turns of a loop have the same scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda import emit_cuda
from jtorch.compile.graph.access import Find
from jtorch.compile.graph.halves import Multiplies
from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.plan import Plan, Task, Where
from jtorch.compile.run.cuda_products import Calls, calls_of
from jtorch.compile.run.scans import TWO, Argument, Loop, compiled_turn, scans_of, turn_of
from jtorch.compile.target import Binding, Target
from jtorch.core.errors import CompileError

Address = Callable[[Var], int]
"""Where the memory of a variable begins."""

MOST_STEPS = 1 << 17
"""Of a graph: making one takes some 130 us for each, on the tests' device."""


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A task of a plan, or of the turn of a loop: ``whole`` is the task of the whole plan then. What is
    neither a kernel nor a ``product`` is a call of the host's."""

    task: Task
    code: Code
    whole: Task
    product: Calls | None

    @property
    def kernel(self) -> Any:
        return self.code.kernels.get(self.task)

    @property
    def is_host(self) -> bool:
        return self.task.step.kind is StepKind.HOST

    @property
    def find(self) -> Find:
        """What made a variable of its plan."""
        return self.code.plan.fused.find


class Placed(NamedTuple):
    """A step over the memory of one turn."""

    step: Step
    address: Address


class Turning(NamedTuple):
    """A loop of which elements say how many steps it takes, over the memory of what it is in: ``turn`` are
    the steps of one, ``whole`` is the task of the whole plan."""

    whole: Task
    loop: Loop
    turn: Steps
    address: Address
    arenas: Mapping[Steps, int]

    def at(self, k: int, is_first: bool) -> tuple[int, ...]:
        """Where the arguments of the turn lie at step k, which may be the first one that is taken."""
        return tuple(_address_at(one, k, is_first, self.address) for one in self.loop.arguments)

    def placed(self, given: Sequence[int]) -> Iterator[Placed | Turning]:
        """The steps of the turn whose arguments lie there."""
        return self.turn.placed(_address_in(self.turn.plan, self.arenas[self.turn], given), self.arenas)


class Steps:
    """Those of a plan, or of the loop ``within`` one. Raises CompileError for what no graph of a device can
    do."""

    def __init__(self, code: Code, within: Task | None = None) -> None:
        self.code, self.plan, self.within = code, code.plan, within
        self.steps: dict[Task, Step] = {}
        for task in self.plan.tasks:
            if task.step.kind is not StepKind.SCAN:
                self.steps[task] = _step(code, task, within)
        self.scans = scans_of(self.plan)
        codes = _turns_of(self.scans.values())
        self.turns = {task: Steps(codes[loop], within or task) for task, loop in self.scans.items()}
        if within is None and self.count > MOST_STEPS:
            source = next(iter(self.scans or self.plan.tasks)).step.eqns[0].source
            raise CompileError(
                f"{source}: a graph of {self.count} steps, counting those of each turn of a loop over time; "
                f"a CUDA device is given {MOST_STEPS} at most: let a call go through a part of the time"
            )

    @property
    def count(self) -> int:
        """How many steps graphs have, at most."""
        return len(self.steps) + sum(_turns(self.scans[t]) * turn.count for t, turn in self.turns.items())

    @property
    def flops(self) -> int:
        """Floating-point operations of all products."""
        products = [task for task in self.steps if task.step.kind is StepKind.GEMM]
        found = [product_of(task.step.eqns[0], self.plan.fused.find) for task in products]
        inner = sum(self.scans[t].steps * turn.flops for t, turn in self.turns.items())
        return inner + sum(factors.product.flops for factors in found if factors is not None)

    @property
    def asks_elements(self) -> bool:
        """Whether elements say how many steps a loop takes."""
        found = [not loop.scan.takes_all_steps for loop in self.scans.values()]
        return any(found) or any(turn.asks_elements for turn in self.turns.values())

    @property
    def all(self) -> Iterator[Step]:
        """Each step once, whatever turns there are."""
        yield from self.steps.values()
        for turn in self.turns.values():
            yield from turn.all

    @property
    def codes(self) -> list[Code]:
        """That of the plan, and those of turns, each once."""
        found = [self.code, *(code for turn in self.turns.values() for code in turn.codes)]
        return list(dict.fromkeys(found))

    @property
    def loops(self) -> Iterator[Steps]:
        """What turns in loops, and in their turns."""
        for turn in self.turns.values():
            yield turn
            yield from turn.loops

    def placed(self, address: Address, arenas: Mapping[Steps, int]) -> Iterator[Placed | Turning]:
        """All steps in order. ``arenas`` has the address of the scratch memory of each loop's turns."""
        for task in self.plan.tasks:
            if task in self.steps:
                yield Placed(self.steps[task], address)
                continue
            whole = task if self.within is None else self.within
            turning = Turning(whole, self.scans[task], self.turns[task], address, arenas)
            if not turning.loop.scan.takes_all_steps:
                yield turning
                continue
            for k in range(turning.loop.steps):
                yield from turning.placed(turning.at(k, k == 0))


class _Written:
    """A turn by itself, which nothing runs: its steps are those of a graph."""

    compiled = 0

    def __init__(self, code: Code, graph: Any, binding: Binding) -> None:
        self.code = code


_TURN = Target("a turn on a CUDA device", emit_cuda, _Written, multiplies=Multiplies.ALL)


def _turns_of(loops: Iterable[Loop]) -> dict[Loop, Code]:
    """The code of the turn of each loop; those of one form and of as many rows share one."""
    known: dict[tuple, Code] = {}
    found = {}
    for loop in loops:
        key = loop.form, loop.sizes
        if key not in known:
            known[key] = compiled_turn(turn_of(loop, *loop.sizes), _TURN).code
        found[loop] = known[key]
    return found


def _step(code: Code, task: Task, within: Task | None) -> Step:
    (eqn, *_) = task.step.eqns
    if task.step.kind is StepKind.HOST:
        return Step(task, code, within or task, None)
    product = calls_of(eqn, code.plan.fused.find) if task.nest is None else None
    return Step(task, code, within or task, product)


def _turns(loop: Loop) -> int:
    """How many turns have graphs of their own: where elements say how many there are, those that lie where
    others do have theirs."""
    alternate = all(a.stride == 0 or a.mask == TWO for a in loop.arguments)
    is_short = loop.scan.takes_all_steps or not alternate
    return loop.steps if is_short else min(loop.steps, 4)


def _address_at(argument: Argument, k: int, is_first: bool, address: Address) -> int:
    """Where an argument of a turn lies at step k, see ``scan_kernel``."""
    if is_first and argument.first is not None:
        var, begin = argument.first
        return address(var) + begin
    var, begin = argument.later
    return address(var) + begin + (k - argument.late & argument.mask) * argument.stride


def _address_in(plan: Plan, arena: int, given: Iterable[int]) -> Address:
    """Where the variables of a turn lie whose inputs, then its outputs, do there."""
    addresses, n_inputs = list(given), len(plan.fused.graph.inputs)

    def address(var: Var) -> int:
        place = plan.places[var]
        if place.kind is Where.ARENA:
            return arena + place.at
        return addresses[place.at if place.kind is Where.INPUT else n_inputs + place.at]

    return address
