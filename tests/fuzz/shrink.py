"""Makes a failing program small: less of everything while it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.programs import Program

_LET = re.compile(r"(\w+) = ")
_NAME = re.compile(r"\b[avpb]\d+\b")


def shrunk(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """The smallest program found in ``tries`` runs for which ``fails`` still holds."""
    while True:
        for smaller in _smaller(program):
            tries -= 1
            if tries < 0:
                return program
            if fails(smaller):
                program = smaller
                break
        else:
            return program


def _smaller(p: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest things first."""
    for k in reversed(range(len(p.calls))):
        if len(p.calls) > 1:
            yield replace(p, calls=_less(p.calls, k))
    last = len(p.body) - 1
    for n in (len(p.body) // 2, len(p.body) // 4):
        for k in range(last - n, -1, -max(n, 1)):
            if n > 1:
                yield replace(p, body=p.body[:k] + p.body[k + n :])
    for k in reversed(range(last)):
        yield replace(p, body=_less(p.body, k))
        yield from _bypassed(p, k)
    yield from _fewer_results(p)
    yield from _fewer_lines(p)
    for k in reversed(range(len(p.setup))):
        yield replace(p, setup=_less(p.setup, k))


def _less(parts: tuple, k: int) -> tuple:
    return parts[:k] + parts[k + 1 :]


def _bypassed(p: Program, k: int) -> Iterator[Program]:
    """Statement k is left out, and what it made is what it was made of."""
    if not (made := _LET.match(p.body[k])):
        return
    for other in dict.fromkeys(_NAME.findall(p.body[k][made.end() :])):
        if other != made[1]:
            rest = tuple(re.sub(rf"\b{made[1]}\b", other, s) for s in p.body[k + 1 :])
            yield replace(p, body=p.body[:k] + rest)


def _fewer_results(p: Program) -> Iterator[Program]:
    results = p.body[-1].removeprefix("return ").removesuffix(",").split(", ")
    if len(results) > 1:
        for k in range(len(results)):
            kept = ", ".join(_less(tuple(results), k))
            yield replace(p, body=(*p.body[:-1], f"return {kept}{',' if len(results) == 2 else ''}"))


def _fewer_lines(p: Program) -> Iterator[Program]:
    """Calls with one statement less; an event, the backward outside, an argument that is not made anew."""
    for c, call in enumerate(p.calls):
        for k, line in enumerate(call):
            if not line.startswith(("out = ", "show")):
                yield replace(p, calls=(*p.calls[:c], _less(call, k), *p.calls[c + 1 :]))
