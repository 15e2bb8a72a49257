"""A document as a trace: its steps in time, as ``profile`` measured them, and the stages of making it.

Source: the Trace Event Format, which https://ui.perfetto.dev opens.
"""

from __future__ import annotations

from typing import Any


def trace_events(document: dict[str, Any]) -> dict[str, Any]:
    """The trace. Steps that were not measured are not in it: see ``f.profile()``."""
    events: list[dict[str, Any]] = [_named(1, "stages of compiling"), _named(2, "steps of a call")]
    at = 0.0
    for stage, seconds in document["times"]["stages"].items():
        events.append(_piece(stage, at, seconds * 1e6, 1, {}))
        at += seconds * 1e6
    program = document["programs"][0]
    steps = {step["id"]: step for step in program["steps"]}
    lines = {line["id"]: line for line in document["lines"]}
    at = 0.0
    for time in (document["measured"] or {"times": []})["times"]:
        step = steps[time["steps"][0]]
        line = lines.get(step["line"])
        facts = {"kind": step["kind"], "steps": len(time["steps"]), "limit_us": time["limit_us"]}
        if line is not None:
            facts["line"] = f"{line['file']}:{line['line']}"
        events.append(_piece(step["name"], at, time["us"], 2, facts))
        at += time["us"]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"function": document["function"]}}


def _named(thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}}


def _piece(name: str, begin: float, us: float, thread: int, facts: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": us, "args": facts}
