"""The retrace ledger: each time a compiled function was recorded again, why, and what that cost.

#1 recorded in 3.1 ms, train.py:31
    28 parameters' .grad: None -> a tensor
    with gradients and without them are two programs, each recorded once: [...]
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from jtorch.compile.inspect.advice import (
    FOR_CLASSES,
    IN_TENSORS,
    NOT_USED,
    OF_FORMS,
    ON_NUMPY,
    advice_on,
    on_new_integer,
    on_new_size,
    same_rank,
)
from jtorch.compile.inspect.facts import Facts, differences, is_of_numpy
from jtorch.compile.inspect.fitting import failing_guard
from jtorch.compile.inspect.size_changes import size_change
from jtorch.compile.observe.fact_guards import ArrayRead
from jtorch.compile.observe.guards import PLAIN
from jtorch.compile.record.sizing import why_numbers
from jtorch.compile.run.lines import About
from jtorch.core.errors import Source
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import Tensor

_EXPECT = BY_NAME["expect"]
_SHOWN = 4  # changes of one retrace that its text names
_WIDTH = 80  # columns of the text of a ledger
_FEW = 3  # from so many on, changes of a kind are counted instead of listed


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
        return (
            f"'{self.function}' called at {self.where}: {self.outcome} ({self.milliseconds:.1f} ms, "
            f"{self.kernels_compiled} kernels compiled), because {in_words(self.changes)}. "
            f"{self.changes[0].advice}"
        )


_KEPT = 1000  # retraces of one function: a program that never settles must not grow for it


class Ledger(list[Retrace]):
    """The retraces of one function, oldest first; of more than 1,000 the latest.

    Printed, those for one reason that follow each other are told together, within 80 columns.
    """

    def add(self, entry: Retrace) -> None:
        self.append(entry)
        del self[:-_KEPT]

    def __str__(self) -> str:
        if not self:
            return "no retraces"
        numbered = list(enumerate(self, 1))
        runs = [list(run) for _, run in itertools.groupby(numbered, key=lambda pair: _reason(pair[1]))]
        return "\n".join(itertools.chain.from_iterable(map(_told, runs)))


def _reason(entry: Retrace) -> tuple:
    """What entries have in common that are told as one."""
    return entry.outcome, entry.where, tuple(c.what for c in entry.changes)


def _told(run: list[tuple[int, Retrace]]) -> Iterator[str]:
    """The lines for entries of one reason: what the first one came from, and the latest one's advice."""
    (first, oldest), (last, latest) = run[0], run[-1]
    took = sum(entry.milliseconds for _, entry in run)
    numbers = f"#{first}" if first == last else f"#{first} to #{last}"
    together = "" if first == last else " together"
    yield f"{numbers} {latest.outcome} in {took:.1f} ms{together}, {_place(latest.where)}"
    changes = tuple(b._replace(before=a.before) for a, b in zip(oldest.changes, latest.changes, strict=True))
    between = "-> " if first == last else "-> ... -> "
    grouped = [change._replace(before=_short(change.before), after=_short(change.after))
               for change in together_by_kind(changes)]  # fmt: skip
    for k, change in enumerate(grouped):
        yield from _wrapped(str(change).replace("-> ", between, 1))
        if [c.advice for c in grouped[k + 1 : k + 2]] != [change.advice]:
            yield from _wrapped(f"{change.advice}")


def _wrapped(text: str) -> list[str]:
    space = " " * 4
    return textwrap.wrap(text, _WIDTH, initial_indent=space, subsequent_indent=space + "  ")


_OF_ALL = re.compile(r"(?P<kind>hooks|memory) of (?P<whose>.+)|(?P<path>.+)\.(?P<fact>[\w()]+)")


def together_by_kind(changes: Sequence[Change]) -> list[Change]:
    """``changes``, where many of one kind are one: ``28 parameters' .grad: None -> a tensor``."""
    kinds: dict[Any, list[Change]] = {}
    for change in changes:
        match = _OF_ALL.fullmatch(change.what)
        kind = (match["kind"], match["fact"], *change[1:]) if match else (change.what, *change)
        kinds.setdefault(kind, []).append(change)
    return [c for same in kinds.values() for c in ([_as_one(same)] if len(same) >= _FEW else same)]


def _as_one(changes: list[Change]) -> Change:
    match = _OF_ALL.fullmatch(changes[0].what)
    if match is None:  # of so many objects that have one name
        return changes[0]._replace(what=f"{len(changes)} times {changes[0].what}")
    owner = match["whose"] or match["path"]
    of_modules = match["fact"] not in ("grad", "requires_grad", "dtype", "shape", "stride()", None)
    named = "parameters" if "." in owner else "tensors"
    whose = f"{len(changes)} {'modules' if of_modules else named}"
    what = f"{match['kind']} of {whose}" if match["kind"] else f"{whose}' .{match['fact']}"
    return changes[0]._replace(what=what)


def in_words(changes: Sequence[Change]) -> str:
    """A few of ``changes``, and how many more there are."""
    found = together_by_kind(changes)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(map(str, found[:_SHOWN])) + more


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


def causes(
    plans: Sequence[Any], leaves: list[Any], facts: Facts, labels: list[str], before: Sequence[Retrace] = ()
) -> tuple[Change, ...]:
    """What changed between the nearest of ``plans`` and a call that none of them takes; ``before`` are the
    retraces until now."""
    sized = {c.what for entry in before for c in entry.changes if c.what.endswith(".shape")}
    candidates = [_causes_of(plan, leaves, facts, labels, sized) for plan in plans]
    return min(candidates, key=len)


def _causes_of(
    plan: Any, leaves: list[Any], facts: Facts, labels: list[str], sized: set[str]
) -> tuple[Change, ...]:
    changed = changes_of(plan, facts, sized)
    if plan.capture.sizing is not None:
        others = [c for c in changed if not c.what.endswith(".shape")]
        found = size_change(plan, leaves, labels)
        if found is None:  # it takes other sizes, row by row
            changed = [*others, *_out_of_order(plan, leaves, facts, labels)]
        elif not others:
            return (Change(found.what, "", "", found.advice),)
    return tuple(changed) or (_guard_change(plan, leaves, labels),)


def _out_of_order(plan: Any, leaves: list[Any], facts: Facts, labels: list[str]) -> Iterator[Change]:
    """The strides of arguments whose sizes are symbols and that do not lie row by row."""
    for k in plan.capture.sizing.texts:
        if k < len(leaves) and isinstance(leaves[k], Tensor) and not leaves[k]._data.flags.c_contiguous:
            what = f"{labels[k]}.stride()"
            yield Change(what, plan.facts.get(what, ""), facts.get(what, ""), "")


def with_plan(
    changes: Sequence[Change], made: Any, labels: Sequence[str], may_be_symbol: bool
) -> tuple[Change, ...]:
    """``changes`` for which ``made`` was recorded, and what it says of sizes and of integers; ``labels`` are
    the arguments' names."""
    why = why_numbers(made)
    on_size = on_new_size(made.sizing is not None and not why, why, may_be_symbol)
    texts = {} if made.sizing is None else made.sizing.texts

    def advice(change: Change) -> str:
        if change.what.endswith(".shape"):
            return on_size if same_rank(change.before, change.after) else ""
        k = labels.index(change.what) if change.what in labels else -1
        is_symbol = k in texts and len(texts[k]) == 1
        if k in made.counted or is_symbol:
            return on_new_integer(made.sizing.pinned_at(*texts[k]) if is_symbol else "")
        return ""

    return tuple(c._replace(advice=advice(c) or c.advice) for c in changes)


def changes_of(plan: Any, facts: Facts, sized: set[str] | frozenset[str] = frozenset()) -> list[Change]:
    """What of ``facts`` and of what the function reads is another one than when ``plan`` was recorded;
    ``sized`` are the shapes that changed before."""
    facts = _with_replaced(plan, facts)
    changed = [Change(*d, advice_on(*d, d[0] in sized)) for d in differences(plan.facts, facts)]
    changed += [*_plain_changes(plan), *_opened_changes(plan)]
    changed = [c for c in changed if c.what not in facts or not is_of_numpy(c.before)] or [
        c._replace(advice=ON_NUMPY) for c in changed
    ]
    return changed or [Change(what, "", "", NOT_USED) for what in plan.told()]


def _with_replaced(plan: Any, facts: Facts) -> Facts:
    """``facts`` in which tensors that each call replaces are the same ones as before."""
    written = (place.find() for place in plan.capture.written)
    arrays = {str(id(t._data)) for t in written if isinstance(t, Tensor)}
    memory = {k for k, v in facts.items() if k.startswith("memory of ") and v in arrays}
    return facts | {k: plan.facts[k] for k in memory & plan.facts.keys()}


def confirmed(changes: Sequence[Change], told: Sequence[str]) -> tuple[Change, ...]:
    """What made a plan look again and no difference to what is recorded: what it was ``told``, or where that
    is nothing ``changes``."""
    if told:
        return tuple(Change(what, "", "", NOT_USED) for what in told)
    return tuple(c._replace(advice=NOT_USED) for c in changes)


def _plain_changes(plan: Any) -> Iterator[Change]:
    """Globals, closure cells and other plain values that the plan was recorded with."""
    written = {place.identity for place in plan.capture.written}
    for read in plan.capture.plain:
        if not read.holds():
            before, now = read.change()
            advice = FOR_CLASSES if isinstance(read.value, type) else advice_on(read.label(), before, now)
            if isinstance(read, ArrayRead) and before.startswith("["):
                advice = "jtorch.from_numpy(array) in its place: its elements are read at each call"
            is_written = (id(read.container), read.key if isinstance(read.key, PLAIN) else None) in written
            if is_written and not isinstance(read.value, (tuple, list, dict)):
                advice = IN_TENSORS
            at = f", read at {_place(read.source)}" if read.source is not None else ", outside the function"
            yield Change(f"{read.label()}{at}", before, now, advice)


def _opened_changes(plan: Any) -> Iterator[Change]:
    """Containers outside, whose numbers each call brings, that have another form."""
    for each in plan.capture.opened:
        if each.leaves() is None:
            before, now = each.change()
            yield Change(f"the form of {each.place.label()}", before, now, OF_FORMS)


def _branches_of(plan: Any) -> str:
    """Where elements decide which way a plan goes: which of these did is not known."""
    eqns = (eqn for eqn in plan.capture.graph.eqns if eqn.op is _EXPECT and eqn.source is not None)
    lines = [*dict.fromkeys(_place(eqn.source) for eqn in eqns)]
    more = f" or {len(lines) - 3} more" if len(lines) > 3 else ""
    return f", asked at {', '.join(lines[:3])}{more}" if lines else ""


def _guard_change(plan: Any, leaves: list[Any], labels: list[str]) -> Change:
    """The guard itself, where no fact tells more."""
    guard = failing_guard(plan, leaves)
    if guard is None:  # every guard holds: it stopped at a branch
        return Change(
            f"a data-dependent branch{_branches_of(plan)}", "the ways recorded", "another way",
            "each way is recorded once, up to max_branches: jtorch.where has both in one",
        )  # fmt: skip
    if guard.about is About.MODE:
        return Change(
            "a module, optimizer, hook or mode that the function may use", "", "",
            "change modules and optimizers between calls only where the program asks for it",
        )  # fmt: skip
    labels = [*labels, *(place.label() for place in plan.capture.replaced)]
    for each in (*plan.capture.opened, *plan.capture.drawn):
        labels += [each.place.label()] * each.n
    asked = f", asked at {_place(guard.source)}" if guard.source is not None else ""
    return Change(
        f"{guard.of(labels)} holds no longer{asked}",
        "",
        "",
        "the recorded branch rests on it: use jtorch.where to have both",
    )


# -- who wants to know ----------------------------------------------------------------------------------

_listeners: list[Callable[[Any, Retrace], None]] = []


def tell(ledger: Ledger, function: Any, entry: Retrace) -> None:
    """Add ``entry`` to the ``ledger`` of ``function`` and tell those who listen."""
    ledger.add(entry)
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
