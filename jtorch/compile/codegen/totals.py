"""The total of a sum of floats, as text: where the partials of ``jtorch.core.partials`` are added up.

A total has twice the digits of its dtype: a float64 for float32, and for float64 a float64 with what its
rounding has lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jtorch.compile.codegen.writer import Writer
from jtorch.compile.plan.loops import Reduce


def is_sum(r: Reduce) -> bool:
    """Whether rounding makes the order of adding show."""
    return r.op.combine == "add" and r.dtype.kind == "f"


@dataclass(frozen=True)
class Total:
    """Names, or elements of arrays, that hold a total."""

    high: str
    low: str | None = None  # what rounding has lost, for float64

    @classmethod
    def of(cls, r: Reduce, place: Callable[[], str]) -> Total:
        """A total for ``r`` in new places."""
        high = place()
        return cls(high, place() if r.dtype.itemsize == 8 else None)

    def clear(self, write: Writer) -> None:
        write(f"{self.high} = float64(0)")
        if self.low:
            write(f"{self.low} = float64(0)")

    def add(self, partial: str, write: Writer) -> None:
        if self.low is None:
            write(f"{self.high} = {self.high} + float64({partial})")
        else:
            write(f"{self.high}, {self.low} = add_with_rest({self.high}, {self.low}, {partial})")

    def rounded(self) -> str:
        """The total in the sum's own dtype."""
        return f"float32({self.high})" if self.low is None else f"with_rest({self.high}, {self.low})"
