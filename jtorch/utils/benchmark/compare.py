"""Measurements side by side, as a table.

Source: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Compare
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any

from jtorch.utils.benchmark.measurement import Measurement, select_unit

_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"
_BOLD, _END = "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """Among which measurements the best is looked for."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Measurements of several tasks as tables: one for each label, with a row for each ``sub_label`` and
    number of threads, and a column for each ``description``."""

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trims, self._colorize, self._warns = False, Colorize.NONE, False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add more of them; those of one task are merged. Raises ValueError for what is no Measurement."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show no more digits than mean something."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour times by how far they are from the best of their column (or row)."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show how far times are spread where that is much."""
        self._warns = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        by_label: dict[Any, list[Measurement]] = {}
        for r in Measurement.merge(self._results):
            by_label.setdefault(r.label, []).append(r)
        return "\n".join(
            _Table(group, self._colorize, self._trims, self._warns).text() for group in by_label.values()
        )


_Row = list[Measurement | None]


class _Table:
    def __init__(self, results: list[Measurement], colorize: Colorize, trims: bool, warns: bool) -> None:
        self.results, self.colorize, self.trims = results, colorize, trims
        self.warns = warns and any(r.has_warnings for r in results)
        self.unit, self.scale = select_unit(min(r.median for r in results))
        self.columns = list(dict.fromkeys(r.description for r in results))
        keys = dict.fromkeys((r.num_threads, r.env, r.as_row_name) for r in results)
        self.keys = sorted(keys, key=lambda key: (key[0], key[1] or ""))
        found = {(r.num_threads, r.env, r.as_row_name, r.description): r for r in results}
        self.rows: list[_Row] = [[found.get((*key, c)) for c in self.columns] for key in self.keys]

    def text(self) -> str:
        digits = [self._digits([row[k] for row in self.rows]) for k in range(len(self.columns))]
        cells = [
            [self._name(i), *(self._shown(m, digits[k]) for k, m in enumerate(row))]
            for i, row in enumerate(self.rows)
        ]
        titles = ["", *(str(c) for c in self.columns)]
        widths = [max(len(row[k]) for row in [titles, *cells]) for k in range(len(titles))]
        first = "  |  ".join(c.center(w) for c, w in zip(titles, widths, strict=True))
        lines = [first]
        for i, row in enumerate(cells):
            threads = self.keys[i][0]
            if not i or threads != self.keys[i - 1][0]:
                lines.append(f"{threads} threads: ".ljust(len(first), "-"))
            lines.append("  |  ".join(self._coloured(i, row, widths)))
        title = f" {self.results[0].label or ''} ".center(len(first) - 2, "-")
        ends = [f"[{title}]", *lines, "", f"Times are in {_NAMES[self.unit]} ({self.unit})."]
        if self.warns:
            ends.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join(ends) + "\n"

    def _name(self, i: int) -> str:
        envs = {r.env for r in self.results}
        threads, own, name = self.keys[i]
        is_new = not i or self.keys[i - 1][:2] != (threads, own)
        shown, width = len(envs) > 1, max(len(str(e)) for e in envs)
        env = f"({own})" if shown and is_new else ""
        return f"  {env.ljust(4 + (width if shown else 0))}{name}"

    def _digits(self, column: _Row) -> tuple[int, int, int]:
        """(how wide a number is, how many digits after the point, how wide its spread is)"""
        whole = [(m, math.ceil(math.log10(m.median / self.scale))) for m in column if m is not None]
        before = max(d for _, d in whole)
        after = min(max(m.significant_figures - d, 0) for m, d in whole) if self.trims else 1
        spread = 7 if self.warns and any(m.has_warnings for m, _ in whole) else 0
        return before + after + (1 if after else 0), after, spread

    def _shown(self, m: Measurement | None, digits: tuple[int, int, int]) -> str:
        width, after, beside = digits
        if m is None:
            return " " * len(f"{1:>{width}.{after}f}{'':>{beside}}")
        value = m.median / self.scale
        if self.trims:
            value = _trimmed(value, m.significant_figures)
        spread = f" (! {m.iqr / m.median * 100:.0f}%)" if beside and m.has_warnings else ""
        return f"{value:>{width}.{after}f}{spread:>{beside}}"

    def _coloured(self, i: int, row: list[str], widths: list[int]) -> list[str]:
        found = [row[0].ljust(widths[0])]
        for k, (cell, width) in enumerate(zip(row[1:], widths[1:], strict=True)):
            m, cell = self.rows[i][k], cell.center(width)
            if m is not None and self.colorize is not Colorize.NONE:
                cell = _in_colour(cell, m.median, self._best(i, k))
            found.append(cell)
        return found

    def _best(self, i: int, k: int) -> float:
        if self.colorize is Colorize.ROWWISE:
            return min(m.median for m in self.rows[i] if m is not None)
        alike = (j for j, key in enumerate(self.keys) if key[0] == self.keys[i][0])
        return min(m.median for m in (self.rows[j][k] for j in alike) if m is not None)


_NAMES = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def _trimmed(value: float, digits: int) -> float:
    """``value`` with so many significant digits."""
    step = 10 ** (math.ceil(math.log10(abs(value))) - digits)
    return round(value / step) * step


def _in_colour(cell: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return _BEST + _BOLD + cell + _END * 2
    if value <= best * 1.1:
        return _GOOD + _BOLD + cell + _END * 2
    if value >= best * 5:
        return _VERY_BAD + _BOLD + cell + _END * 2
    return _BAD + cell + _END * 2 if value >= best * 2 else cell
