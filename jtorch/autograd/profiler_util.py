"""Recorded events as lists, sums by name, and tables. Times are in microseconds.

Source: https://docs.pytorch.org/docs/stable/autograd.html#profiler
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jtorch.eager.profiling import Event


def _time(us: float) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if us >= scale:
            return f"{us / scale:.3f}{unit}"
    return f"{us:.3f}us"


class Interval(NamedTuple):
    """Microseconds on the clock of ``time.perf_counter``."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


class _Times:
    """The parts that one event and a sum of several have alike. No device but the CPU is timed."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time = device_time_total = self_device_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    cpu_time_str = property(lambda self: _time(self.cpu_time))
    cpu_time_total_str = property(lambda self: _time(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: _time(self.self_cpu_time_total))


class FunctionEvent(_Times):
    """One op, gradient or named block: when, inside what, and around what."""

    count = 1

    def __init__(self, number: int, event: Event) -> None:
        self.id = number
        numbered = event.name.startswith("ProfilerStep#")
        self.name = self.key = "ProfilerStep*" if numbered else event.name
        self.thread = event.thread
        self.input_shapes = event.shapes or []
        self.time_range = Interval(event.start / 1e3, event.end / 1e3)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(_Times):
    """The sums of events of one name."""

    def __init__(self, key: str = "Total", input_shapes: Any = "") -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.count = 0
        self.cpu_time_total = 0.0
        self.self_cpu_time_total = 0.0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> None:
        self.count += other.count
        self.self_cpu_time_total += other.self_cpu_time_total
        if not _inside_itself(other):  # its time is part of that around it
            self.cpu_time_total += other.cpu_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"
        )


def _inside_itself(event: Any) -> bool:
    outer = getattr(event, "cpu_parent", None)
    while outer is not None:
        if outer.key == event.key:
            return True
        outer = outer.cpu_parent
    return False


class EventList(list):
    """FunctionEvents in the order they began, or sums of them."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> EventList:
        made = {event: FunctionEvent(number, event) for number, event in enumerate(events)}
        for event, shown in made.items():
            shown.cpu_parent = made.get(event.parent) if event.parent else None
            shown.cpu_children = [made[child] for child in event.children if child in made]
        return cls(made.values())

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Sums of the events of one name, or of one name and one list of shapes."""
        if group_by_stack_n:
            raise NotImplementedError("key_averages: group_by_stack_n: stacks are not recorded")
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else ""
            sums.setdefault((event.key, str(shapes)), FunctionEventAvg(event.key, shapes)).add(event)
        return EventList(sums.values())

    def total_average(self) -> FunctionEventAvg:
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text, the largest ``sort_by`` ("self_cpu_time_total", "count"...) first.

        Raises AttributeError for a key that is not recorded, as memory is not.
        """
        rows = [e for e in self if not (top_level_events_only and getattr(e, "cpu_parent", None))]
        if sort_by is not None:
            key = sort_by.replace("cuda", "device").replace("xpu", "device")
            rows.sort(key=lambda event: getattr(event, key), reverse=True)
        return _table(
            rows[:row_limit] if row_limit >= 0 else rows,
            self.self_cpu_time_total, max_name_column_width, max_shapes_column_width, header,
        )  # fmt: skip

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON for chrome://tracing and Perfetto."""
        events = [
            {
                "name": event.name, "ph": "X", "pid": os.getpid(), "tid": event.thread,
                "ts": event.time_range.start, "dur": event.cpu_time_total,
                "args": {"Input Dims": event.input_shapes},
            }
            for event in self
        ]  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events}))

    def __str__(self) -> str:
        return self.table()


_HEADS = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")


def _table(rows: list, total: float, name_width: int, shapes_width: int, header: str | None) -> str:
    def percent(us: float) -> str:
        return f"{us / total * 100:.2f}%" if total else "NaN"

    shapes = any(row.input_shapes for row in rows)
    lines = [["Name", *_HEADS, "Input Shapes"]] + [
        [
            row.key, percent(row.self_cpu_time_total), row.self_cpu_time_total_str,
            percent(row.cpu_time_total), row.cpu_time_total_str, row.cpu_time_str, str(row.count),
            str(row.input_shapes),
        ]
        for row in rows
    ]  # fmt: skip
    limits = [name_width, *([14] * len(_HEADS)), shapes_width]
    if not shapes:
        lines, limits = [line[:-1] for line in lines], limits[:-1]
    lines = [[_short(t, n) for t, n in zip(line, limits, strict=True)] for line in lines]
    widths = [max(len(line[k]) for line in lines) for k in range(len(limits))]
    rule = "  ".join("-" * width for width in widths)
    text = ["  ".join(t.rjust(width) for t, width in zip(line, widths, strict=True)) for line in lines]
    top = [rule, header] if header is not None else []
    return "\n".join([*top, rule, text[0], rule, *text[1:], rule, f"Self CPU time total: {_time(total)}", ""])


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
