"""A number that may change from call to call, while tracing: a float argument, a learning rate.

It is no subclass of float, because such a one would leak silently through ``math.exp`` and become a
constant. Arithmetic records float64 equations. Comparing it, or asking for its ``bool()`` or
``float()``, answers with the number of this run and guards it: a later call with another answer is
traced anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class Scalar:
    """A runtime scalar: ``var`` is its 0-d float64 variable, ``value`` the number of this run, and
    ``origins`` the inputs it was computed from."""

    __slots__ = ("origins", "tracer", "value", "var")
    __array_ufunc__ = None
    as_runtime_scalar = True

    def __init__(self, tracer: Any, var: Any, value: float, origins: tuple) -> None:
        self.tracer = tracer
        self.var = var
        self.value = value
        self.origins = origins

    def __float__(self) -> float:
        for origin in self.origins:
            origin.guards.append((operator.eq, origin.value))
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return self._compare(operator.ne, 0.0)

    def _compare(self, test: Callable, other: Any) -> bool:
        other = float(other)
        outcome = bool(test(self.value, other))
        if len(self.origins) == 1 and self.origins[0].var is self.var:
            self.origins[0].guards.append((_outcome(test, outcome), other))
        else:
            float(self)  # the result of arithmetic: guard the numbers it was made of
        return outcome

    def __eq__(self, other: object) -> bool:
        return self._compare(operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return self._compare(operator.ne, other)

    def __lt__(self, other: Any) -> bool:
        return self._compare(operator.lt, other)

    def __le__(self, other: Any) -> bool:
        return self._compare(operator.le, other)

    def __gt__(self, other: Any) -> bool:
        return self._compare(operator.gt, other)

    def __ge__(self, other: Any) -> bool:
        return self._compare(operator.ge, other)

    __hash__ = None  # type: ignore[assignment]


_OPPOSITE = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge,
    operator.ge: operator.lt, operator.gt: operator.le, operator.le: operator.gt,
}  # fmt: skip


def _outcome(test: Callable, outcome: bool) -> Callable:
    """The test that holds exactly when ``test`` has this outcome (NaN apart, which fails and retraces)."""
    return test if outcome else _OPPOSITE[test]
