"""The retrace ledger: each time a compiled function was recorded again, why, and what that cost.

# outcome    ms  where        what changed     from      to        how to avoid it
1 recorded  3.1  train.py:31  x.shape          (32, 64)  (7, 64)   drop the last partial batch, or pad it...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from jtorch.compile.inspect.facts import Facts, differences
from jtorch.compile.observe.fact_guards import ArrayRead
from jtorch.compile.observe.guards import PLAIN
from jtorch.core.errors import Source

_SHOWN = 4  # changes of one retrace that its text names


class Change(NamedTuple):
    """One thing that is not what it was when the nearest plan was recorded."""

    what: str
    before: str
    after: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} -> {self.after}" if self.before or self.after else self.what


@dataclass(frozen=True)
class Retrace:
    """One further recording of ``function``.

    ``outcome`` is "recorded" (a new plan), "confirmed" (recorded, and an earlier plan fits still), "eager" or
    "raised" (not recorded, as ``on_retrace`` asked). ``where`` is the user's line that called.
    """

    function: str
    changes: tuple[Change, ...]
    where: Source
    outcome: str
    milliseconds: float
    kernels_compiled: int = 0

    def __str__(self) -> str:
        more = f" and {len(self.changes) - _SHOWN} more" if len(self.changes) > _SHOWN else ""
        causes = "; ".join(map(str, self.changes[:_SHOWN])) + more
        return (
            f"'{self.function}' called at {self.where}: {self.outcome} ({self.milliseconds:.1f} ms, "
            f"{self.kernels_compiled} kernels compiled), because {causes}. {self.changes[0].advice}"
        )


_KEPT = 1000  # retraces of one function: a program that never settles must not grow for it


class Ledger(list[Retrace]):
    """The retraces of one function, oldest first; of more than 1,000 the latest. Prints as a table."""

    def add(self, entry: Retrace) -> None:
        self.append(entry)
        del self[:-_KEPT]

    def __str__(self) -> str:
        if not self:
            return "no retraces"
        head = ("#", "outcome", "ms", "where", "what changed", "from", "to", "how to avoid it")
        rows: list[tuple[str, ...]] = [head]
        for number, entry in enumerate(self, 1):
            first = (str(number), entry.outcome, f"{entry.milliseconds:.1f}", _place(entry.where))
            for change in entry.changes:
                rows.append((*first, *map(_short, change[:3]), change.advice))
                first = ("", "", "", "")
        return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _place(source: Source) -> str:
    return f"{source.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{source.line}"


def _short(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


# -- why a plan does not take a call ------------------------------------------------------------------------


def causes(plans: Sequence[Any], leaves: list[Any], facts: Facts, labels: list[str]) -> tuple[Change, ...]:
    """What changed between the nearest of ``plans`` and a call that none of them takes."""
    candidates = [_causes_of(plan, leaves, facts, labels) for plan in plans]
    return min(candidates, key=len)


def _causes_of(plan: Any, leaves: list[Any], facts: Facts, labels: list[str]) -> tuple[Change, ...]:
    changed = [Change(*d, _advice(d[0])) for d in differences(plan.facts, facts)]
    changed += _plain_changes(plan)
    return tuple(changed) or (_guard_change(plan, leaves, labels),)


_FOR_CLASSES = "each class that comes has a plan of its own"
_PASS = "pass it as an argument: a float that is one may change without a retrace"


def _plain_changes(plan: Any) -> Iterator[Change]:
    """Globals, closure cells and other plain values that the plan was recorded with."""
    written = {place.identity for place in plan.capture.written}
    for read in plan.capture.plain:
        if not read.holds():
            advice = _FOR_CLASSES if isinstance(read.value, type) else _PASS
            before, now = read.change()
            if isinstance(read, ArrayRead) and before.startswith("["):
                advice = "jtorch.from_numpy(array) in its place: its elements are read at each call"
            if (id(read.container), read.key if isinstance(read.key, PLAIN) else None) in written:
                advice = (
                    "the function counts on it and needs its digits: keep it in a tensor and change that in "
                    "place, or count outside and pass in what is computed from it"
                )
            at = f", read at {_place(read.source)}" if read.source is not None else ", outside the function"
            yield Change(f"{read.label()}{at}", before, now, advice)


def _guard_change(plan: Any, leaves: list[Any], labels: list[str]) -> Change:
    """The guard itself, where no fact tells more."""
    test = failing_guard(plan, leaves)
    if test is None:  # every guard holds: it stopped at a branch
        return Change(
            "a data-dependent branch", "the ways recorded", "another way",
            "each way is recorded once, up to max_branches: jtorch.where has both in one",
        )  # fmt: skip
    if "plan.news" in test:
        return Change(
            "a module, optimizer, hook or mode that the function may use", "", "",
            "change modules and optimizers between calls only where the program asks for it",
        )  # fmt: skip
    named = re.sub(r"\ba(\d+)\b", lambda m: labels[int(m[1])] if int(m[1]) < len(labels) else m[0], test)
    return Change(
        f"{named} holds no longer", "", "", "the recorded branch rests on it: use jtorch.where to have both"
    )


def failing_guard(plan: Any, leaves: Sequence[Any]) -> str | None:
    """The first test of ``plan`` that a call does not pass, None where it takes the call. Runs nothing."""
    lines = []
    for line in plan.call.source.splitlines():
        if line.strip() == "# kernels":
            break
        match = re.fullmatch(r"(\s+)if not \((.*)\): return MISS", line)
        lines.append(
            f"{match[1]}if not ({match[2]}): return {match[2]!r}" if match else line.replace("MISS", "'?'")
        )
    namespace = dict(plan.call.__globals__)
    exec("\n".join([*lines, "    return None"]), namespace)
    return namespace["call"](tuple(leaves))


_ADVICE = (
    (
        r"\.shape$",
        "each new size is recorded and planned anew: drop or pad the last partial batch, or sort by size",
    ),
    (r"\.dtype$", "convert before the call"),
    (r"\.stride\(\)$", "pass .contiguous() tensors"),
    (r"^arguments$", "pass the same arguments in the same form"),
    (r"^gradients$", "call it under the same grad mode, or compile one function for each"),
    (r"\.training$", "train() and eval() are two programs: each is recorded once, toggling confirms it"),
    (r"requires_grad$", "freeze before the first call"),
    (r"^hooks of ", "register hooks before the first call"),
    (r"\.grad$", "zero_grad(set_to_none=True) at the same place of each step"),
    (r"^memory of ", "write into tensors (copy_) instead of replacing them"),
    (r"param_groups", "set flags before the first call; rates may change freely"),
    (r"^(id|type)\(", "pass the same object, or take from it what the function needs"),
)


def _advice(what: str) -> str:
    for pattern, text in _ADVICE:
        if re.search(pattern, what):
            return text
    return "its value decides what is recorded: pass a float, or a tensor, where any value should do"


# -- who wants to know ----------------------------------------------------------------------------------

_listeners: list[Callable[[Any, Retrace], None]] = []


def tell(function: Any, entry: Retrace) -> None:
    """Add ``entry`` to the function's ledger and tell those who listen."""
    function.retraces.add(entry)
    for listener in list(_listeners):
        listener(function, entry)


@contextmanager
def listening(listener: Callable[[Any, Retrace], None]) -> Iterator[None]:
    """``listener(function, entry)`` hears of every retrace in this process meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
