"""Checks programs by number, and sorts what fails into classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jtorch
from tests.fuzz.generate import program, with_break
from tests.fuzz.programs import Program
from tests.fuzz.run import Judge, Outcome, place_of, quiet, run
from tests.fuzz.shrink import shrunk

_OPTIONS: dict[str | None, dict[str, Any]] = {
    "dynamic": {"dynamic": True, "fullgraph": True}, "breaks": {"fullgraph": False},
}  # fmt: skip
_STOCHASTIC = ("Dropout",)  # each library draws its own numbers


@dataclass(frozen=True)
class Failure:
    seed: int
    pair: str  # "compiled" or "torch"
    kind: str  # error, refused, value, facts, version
    sign: str  # what failures of one class have in common
    text: str
    program: Program

    @property
    def label(self) -> tuple[str, str, str]:
        return self.pair, self.kind, self.sign


def check(p: Program, pairs: tuple[str, ...] = ("compiled",), mode: str | None = None) -> list[Failure]:
    """What of a program differs: between eager and compiled mode, and between jtorch and PyTorch."""
    found = []
    if mode == "breaks":
        p = with_break(p)
    with quiet():
        judge = Judge(p)
        if "compiled" in pairs:
            other = run(p, compile=jtorch.compile(**_OPTIONS.get(mode, {"mode": mode, "fullgraph": True})))
            found.append(_failure(p, "compiled", judge.complaint(other), other, judge.plain))
        if "torch" in pairs and not any(name in p.script() for name in _STOCHASTIC):
            oracle = Judge(p, "torch")
            if not _saves_less(judge.plain, oracle.plain):
                complaint = oracle.complaint(judge.plain, versions=False)
                found.append(_failure(p, "torch", complaint, judge.plain, oracle.plain))
    return [f for f in found if f]


def _saves_less(found: Outcome, wanted: Outcome) -> bool:
    """PyTorch misses a value that was changed in place, or forbids the change because it could; jtorch's
    formula needs none of it."""
    return found.error is None and bool(re.search(r"modified (by an )?in-?place", str(wanted.error)))


def _failure(p: Program, pair: str, complaint: str | None, found: Outcome, wanted: Outcome) -> Failure | None:
    if complaint is None:
        return None
    kind, _, text = complaint.partition(": ")
    if kind != "error":
        sign = re.sub(r"[\d.e+-]+", "#", text.rpartition("(")[2]) if kind == "value" else _general(text)
        return Failure(p.seed, pair, kind, sign, text, p)
    error = found.error or wanted.error
    kind = "refused" if type(error).__name__ == "CompileError" else kind
    classes = "" if kind == "refused" else f"{wanted.error_name} -> {found.error_name} "
    sign = f"{classes}in {place_of(error)}: {_general(str(error))}"
    return Failure(p.seed, pair, kind, sign, text, p)


def _general(text: str) -> str:
    """The first line of a message without what is particular to one program."""
    first = next(iter(text.strip().splitlines()), "")
    first = re.sub(r"<program [^>]*>:\d+ in \S+: ", "", first)
    return re.sub(r"'?\b[abvmp]\d+\b'?|-?\d+(\.\d+)?(e[+-]\d+)?|\(\)", "#", first)[:120]


def small(failure: Failure, mode: str | None = None, tries: int = 250) -> Failure:
    """The failure with the smallest program that still fails so; values may be off elsewhere. Without kernels
    where it fails without them, too, which takes a tenth of the time."""
    best = failure

    def fails(p: Program, mode: str | None) -> bool:
        nonlocal best
        for f in check(p, (failure.pair,), mode):
            if f.kind == failure.kind and (f.sign == failure.sign or f.kind == "value"):
                best = f
                return True
        return False

    if fails(failure.program, "interpret"):
        mode = "interpret"
    shrunk(failure.program, lambda p: fails(p, mode), tries)
    return best


def of_seed(seed: int, pairs: tuple[str, ...], mode: str | None = None) -> list[Failure]:
    return check(program(seed), pairs, mode)
