"""Polynomials with whole coefficients over numbered *atoms*, as dictionaries; what their bounds are.

A symbol is an atom, and so is what no polynomial says: a quotient, a minimum. Two polynomials are equal if
their dictionaries are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Term = tuple[int, ...]  # the numbers of atoms that are multiplied, in order; () is the constant
Terms = dict[Term, int]  # a polynomial: the coefficient of each
Bound = int | None  # None: there is none


@dataclass(frozen=True, slots=True)
class Atom:
    """``text`` is Python for it, ``value`` the number that it is in this run."""

    text: str
    value: int
    low: Bound
    high: Bound


def is_constant(terms: Terms) -> bool:
    """Whether no atom is in it."""
    return terms.keys() <= {()}


def added(a: Terms, b: Terms, times: int = 1) -> Terms:
    """a + times b"""
    terms = dict(a)
    for term, c in b.items():
        terms[term] = terms.get(term, 0) + times * c
    return _without_zeros(terms)


def multiplied(a: Terms, b: Terms) -> Terms:
    """a b"""
    terms: Terms = {}
    for m, c in a.items():
        for k, d in b.items():
            both = m + k if not m or not k else tuple(sorted(m + k))
            terms[both] = terms.get(both, 0) + c * d
    return _without_zeros(terms)


def divided(a: Terms, by: Term, d: int) -> tuple[Terms, Terms]:
    """The terms that d times ``by`` divides, divided; the others."""
    whole: Terms = {}
    rest: Terms = {}
    for term, c in a.items():
        left = _less(term, by)
        if left is None or c % d:
            rest[term] = c
        else:
            whole[left] = c // d
    return whole, rest


def replaced(terms: Terms, solved: Mapping[int, Terms]) -> Terms:
    """``terms`` with what atoms are equal to in their place."""
    while any(a in solved for term in terms for a in term):
        out: Terms = {}
        for term, c in terms.items():
            k = next((a for a in term if a in solved), None)
            part = {term: c} if k is None else multiplied({_less(term, (k,)) or (): c}, solved[k])
            out = added(out, part)
        terms = out
    return terms


def value(terms: Terms, atoms: Sequence[Atom]) -> int:
    """The number that it is in this run."""
    return sum(c * math.prod(atoms[a].value for a in term) for term, c in terms.items())


def written(terms: Terms, atoms: Sequence[Atom]) -> str:
    """Python for it, the constant last, which can stand beside any operator."""
    out = ""
    for term, c in sorted(terms.items(), key=lambda pair: (not pair[0], pair[0])):
        factors = [atoms[a].text for a in term]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        sign = f" {'-' if c < 0 else '+'} " if out else "-" if c < 0 else ""
        out += sign + "*".join(factors)
    if not out:
        return "0"
    return f"({out})" if len(terms) > 1 or out.startswith("-") or "*" in out else out


def _without_zeros(terms: Terms) -> Terms:
    return {term: c for term, c in terms.items() if c}


def _less(term: Term, by: Term) -> Term | None:
    """``term`` without the atoms of ``by``; None where it lacks one."""
    left = list(term)
    for atom in by:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


# -- bounds


def bounds(terms: Terms, atoms: Sequence[Atom]) -> tuple[Bound, Bound]:
    """The least and the largest value, as far as those of the atoms tell."""
    low: Bound = 0
    high: Bound = 0
    for term, c in terms.items():
        least, most = _bounds_of_term(term, atoms)
        if c < 0:
            least, most = most, least
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high


def _bounds_of_term(term: Term, atoms: Sequence[Atom]) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for a in term:
        atom = atoms[a]
        if atom.low is None or atom.low < 0 or low is None:
            return None, None
        low *= atom.low
        high = None if high is None or atom.high is None else high * atom.high
    return low, high


def without_common(terms: Terms, atoms: Sequence[Atom]) -> Terms:
    """What has the same sign: without the positive atoms that all terms have in common."""
    first, *others = terms
    for a in first:
        low = atoms[a].low
        if low is not None and low > 0 and all(a in term for term in others):
            return without_common(divided(terms, (a,), 1)[0], atoms)
    return terms


TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


def decided(sign: str, low: Bound, high: Bound) -> bool | None:
    """The answer to ``n SIGN 0`` of what lies between these bounds; None where they leave it open."""
    least = -math.inf if low is None else low
    most = math.inf if high is None else high
    if sign in ("==", "!="):
        if least > 0 or most < 0:
            return sign == "!="
        return sign == "==" if least == most == 0 else None
    at_least, at_most = TESTS[sign](least, 0), TESTS[sign](most, 0)
    return bool(at_least) if at_least == at_most else None


def quotient_bounds(a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    """Those of a // b."""
    (low, high), (least, most) = a, b
    if least is None or least <= 0:
        return None, None
    if low is not None:
        low = low // least if low < 0 else 0 if most is None else low // most
    if high is not None:
        high = high // least if high >= 0 else -1 if most is None else high // most
    return low, high
