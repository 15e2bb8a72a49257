"""Which plan of a compiled function a question is about: the one that a call with these arguments would take,
or else the latest that differs from it in state alone (a gradient, a mode, an attribute), which is said.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jtorch.compile.record.arrays import given, lend_all
from jtorch.compile.run.caller import STATE
from jtorch.eager.tensor import Tensor

_GUARD = re.compile(rf"(\s+)if not \((.*)\): return MISS(?:{STATE})?")


def failing_guard(plan: Any, leaves: Sequence[Any], state: bool = True) -> str | None:
    """The first test of ``plan`` that a call does not pass, None where it takes the call; without ``state``
    the first one of the arguments. The guards alone run."""
    lines = []
    for line in plan.call.source.splitlines():
        if line.strip() == "# kernels":
            break
        if STATE in line and not state:
            lines.append(_without(line))
            continue
        match = _GUARD.fullmatch(line)
        lines.append(
            f"{match[1]}if not ({match[2]}): return {match[2]!r}" if match else line.replace("MISS", "'?'")
        )
    namespace = dict(plan.call.__globals__)
    exec("\n".join([*lines, "    return None"]), namespace)
    return namespace["call"](tuple(leaves))


def _without(line: str) -> str:
    """A line that does nothing in its place."""
    space = line[: len(line) - len(line.lstrip())]
    return f"{space}except GONE: pass" if line.lstrip().startswith("except") else f"{space}pass"


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
        self._leaves = [weakref.ref(given(a)) if isinstance(a, Tensor) else a for a in leaves]

    def leaves(self) -> list[Any] | None:
        """The arguments; None where one is no more."""
        found = [a() if isinstance(a, weakref.ref) else a for a in self._leaves]
        gone = any(a is None and isinstance(r, weakref.ref) for a, r in zip(found, self._leaves, strict=True))
        return None if gone else lend_all(found, self.plan.capture.name)
