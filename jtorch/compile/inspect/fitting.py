"""Which plan of a compiled function a question is about: the one that a call with these arguments would take,
or else the latest that differs from it in state alone (a gradient, a mode, an attribute), which is said.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jtorch.compile.record.arrays import LentNumber, given, lend_all
from jtorch.compile.record.drawn import looking
from jtorch.compile.run.lines import Guard, Return, Ways, function_of, guards_of, until
from jtorch.eager.tensor import Tensor


def failing_guard(plan: Any, leaves: Sequence[Any], state: bool = True) -> Guard | None:
    """The first guard of ``plan`` that a call does not pass, None where it takes the call; without ``state``
    the first one of the arguments. The guards alone run."""
    lines = [line for line in until(plan.lines, "kernels") if state or not line.state]
    guards = list(dict.fromkeys(guards_of(lines)))
    ask = function_of([*lines, Return("None")], dict(plan.written.__globals__), _Telling(guards))
    with looking(plan.capture.drawn):
        failing = ask(tuple(leaves))
    return None if failing is None else guards[failing]


class _Telling(Ways):
    """A miss gives the number of its guard."""

    def __init__(self, guards: list[Guard]) -> None:
        self.numbers = {guard: k for k, guard in enumerate(guards)}

    def miss(self, guard: Guard) -> str:
        return f"return {self.numbers[guard]}"


@dataclass(frozen=True)
class Asked:
    """The plan that a question is about, and the call: ``leaves`` is None where its arguments are gone.

    ``fits`` tells whether that call would take the plan now; ``which`` says in words which plan it is and,
    where it does not fit, what of the state is another one than when it was recorded.
    """

    plan: Any
    leaves: list[Any] | None
    structure: Any
    fits: bool
    which: str = ""


def choose(plans: Sequence[Any], leaves: list[Any]) -> tuple[Any, bool] | None:
    """(the first of ``plans`` that takes a call with ``leaves``, True), or else (the first that would in
    another state, False); None where the arguments fit none."""
    for plan in plans:
        if failing_guard(plan, leaves) is None:
            return plan, True
    for plan in plans:
        if failing_guard(plan, leaves, state=False) is None:
            return plan, False
    return None


class LastCall:
    """The latest call of a function: its plan, and the structure and leaves of its arguments, whose tensors
    it does not keep alive."""

    def __init__(self, plan: Any, leaves: list[Any], structure: Any) -> None:
        self.plan = plan
        self.structure = structure
        self._leaves = [
            weakref.ref(given(a)) if isinstance(a, Tensor) and type(a) is not LentNumber else given(a)
            for a in leaves
        ]

    def leaves(self) -> list[Any] | None:
        """The arguments; None where one is no more."""
        found = [a() if isinstance(a, weakref.ref) else a for a in self._leaves]
        gone = any(a is None and isinstance(r, weakref.ref) for a, r in zip(found, self._leaves, strict=True))
        return None if gone else lend_all(found, self.plan.capture.name)
