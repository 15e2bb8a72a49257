"""What was timed and the times that came out.

Source: https://docs.pytorch.org/docs/stable/benchmark_utils.html#torch.utils.benchmark.Measurement
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

_NOISY, _VERY_NOISY = 0.1, 0.25  # interquartile range over median
_UNITS = {-3: ("ns", 1e-9), -2: ("us", 1e-6), -1: ("ms", 1e-3)}


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which ``t`` seconds is a handy number, and its length: ("us", 1e-6)."""
    return _UNITS.get(math.floor(math.log10(t) / 3), ("s", 1))


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """What a Timer times, and its names."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        named = self.label or ("" if "\n" in self.stmt else self.stmt)
        if named:
            return f"{named}: {self.sub_label}" if self.sub_label else named
        sub = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{sub}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        if self.setup in ("", "pass"):
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, one below the other."""
        parts = filter(None, (self.title, self.description, self.setup_str()))
        return "\n".join(part + "\n" if "\n" in part else part for part in parts)


_SPEC_FIELDS = tuple(field.name for field in dataclasses.fields(TaskSpec))


@dataclasses.dataclass(repr=False)
class Measurement:
    """Times of a statement in seconds: ``raw_times`` of ``number_per_run`` calls each.

    The fields of ``task_spec`` (``stmt``, ``label``...) are its attributes, too.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _SPEC_FIELDS:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds for one call."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def _quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.times, (0.25, 0.75))
        return float(low), float(high)

    @property
    def iqr(self) -> float:
        """The interquartile range."""
        low, high = self._quartiles
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, roughly: 1 to 5.

        From the spread of the times between the quartiles, at 90 % confidence.
        """
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        interval = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), 25e-9)
        return min(max(math.floor(math.log10(self.median / interval)), 1), 5)

    def meets_confidence(self, threshold: float = _NOISY) -> bool:
        """Whether the interquartile range is less than ``threshold`` of the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        low, high = self._quartiles
        n, threads = len(self.raw_times), self.num_threads
        lines = [
            f"<torch.utils.benchmark.utils.common.Measurement object at {id(self):#x}>",
            self.task_spec.summarize(),
            f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}",
        ]
        if n >= 4:
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low / scale:.2f} to {high / scale:.2f})")
        lines.append(
            f"  {n} measurement{'s' * (n > 1)}, {self.number_per_run} runs "
            f"{'per measurement,' if n > 1 else ','} {threads} thread{'s' * (threads > 1)}"
        )
        return "\n".join(lines + self._warning())

    def _warning(self) -> list[str]:
        if not self.has_warnings:
            return []
        spread = self.iqr / self.median * 100
        calm = self.meets_confidence(_VERY_NOISY)
        why = "could indicate system fluctuation" if calm else "suggests significant environmental influence"
        return [
            f"  WARNING: Interquartile range is {spread:.1f}% of the median measurement.",
            f"           This {why}.",
        ]

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One Measurement for each task, with the times of all that were made of it."""
        times: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            times.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, found, spec) for spec, found in times.items()]
