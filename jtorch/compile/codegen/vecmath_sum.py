"""Sums of float64 with about twice its digits, for sums of partials.

Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974; the
error of one addition is Knuth's two-sum.
"""

from __future__ import annotations

from typing import Any

from jtorch.compile.codegen.intrinsics import select
from jtorch.compile.codegen.vecmath_core import quiet

__all__ = ["add_with_rest", "with_rest"]


@quiet
def add_with_rest(total: Any, rest: Any, x: Any) -> tuple[Any, Any]:
    """(total + x rounded, rest + what that rounding lost)"""
    new = total + x
    back = new - total
    return new, rest + ((total - (new - back)) + (x - back))


@quiet
def with_rest(total: Any, rest: Any) -> Any:
    """``total + rest``. The rest of a sum that is infinite is NaN, and does not count."""
    exact = total + rest
    return select(exact == exact, exact, total)
