"""``python -m benchmarks soundness``: each case and library in a process of its own, as one table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.progress import Progress
from benchmarks.soundness import cases  # noqa: F401 - declares the cases
from benchmarks.soundness.one import programs
from benchmarks.soundness.table import CASES, Case, Verdict

TIMEOUT = 180  # seconds a case: a first torch.compile takes long
NOTES = (
    "correct: as the same library's own eager mode, which may itself be an error (41, 42) or, in JAX, clamp "
    "an index. loud error: refused, with a sentence. warned: done otherwise, with a warning. SILENT: another "
    "result and not a word. absent: cannot be asked there. jax.jit runs each case in JAX's own idioms: state "
    "goes in and comes out, flags are static; what is said of it in 1, 20 and 44 its manual tells of impure "
    "functions. torch.compile's 19 (config.fallback_random) and 21 (config.skip_nnmodule_hook_guards) are "
    "settings of its own with these defaults."
)
NAMES = {"jtorch": "jtorch.compile", "torch": "torch.compile", "jax": "jax.jit"}


def run(numbers: Sequence[int], peers: Sequence[str], json_file: Path | None = None) -> int:
    """Run the cases with these numbers (all if none) and print; 1 if jtorch breaks its contract, else 0."""
    chosen = [case for case in CASES if not numbers or case.number in numbers]
    libraries = ["jtorch", *peers]
    rows = []
    with Progress() as progress:
        for case in sorted(chosen, key=lambda c: c.name):
            progress.say(case.name)
            verdicts = {library: verdict_of(library, case) for library in libraries}
            rows.append((case, verdicts))
            told = ", ".join(f"{library} {v.kind}" for library, v in verdicts.items())
            progress.line(f"{case.name}: {told}")
    show(rows, libraries)
    if json_file is not None:
        content = [
            {"number": c.number, "title": c.title, **{k: [v.kind, v.told] for k, v in found.items()}}
            for c, found in rows
        ]
        json_file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return progress.status(any(breaks(case, found["jtorch"]) for case, found in rows))


def breaks(case: Case, verdict: Verdict) -> bool:
    """Whether the verdict is less than what DESIGN's contract promises."""
    return not (verdict.kind == "correct" or (case.may_refuse and verdict.kind in ("loud error", "warned")))


def verdict_of(library: str, case: Case) -> Verdict:
    """The verdict over one case, from a process of its own. "absent" where the library cannot say it."""
    if case.name not in programs(library):
        return Verdict("absent", "functions of arrays have no such thing")
    if library != "jtorch" and case.number in (37, 38, 40):
        return Verdict("absent", "asks jtorch's own kernel cache")
    command = [sys.executable, "-m", "benchmarks.soundness.one", library, case.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return Verdict("no answer", f"more than {TIMEOUT} s")
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return Verdict(
            "no answer", f"its process ended with status {done.returncode}: {done.stderr.strip()[-300:]}"
        )
    return Verdict(*json.loads(lines[-1]))


def show(rows: Sequence[tuple[Case, dict[str, Verdict]]], libraries: Sequence[str]) -> None:
    """Print the table, and under it what each verdict other than "correct" says."""
    console = tables.console()
    headings = ("", "case", *(NAMES[library] for library in libraries))
    cells = [[str(c.number), c.title, *(found[library].kind for library in libraries)] for c, found in rows]
    tables.show(console, "Compiled against eager", headings, cells, left=headings)
    console.print(NOTES, style="dim", markup=False)
    for case, found in rows:
        for library in libraries:
            if found[library].told and found[library].kind != "absent":
                first = found[library].told.splitlines()[0][:400]
                console.print(
                    f"{case.number} {case.title}, {NAMES[library]}: {first}", markup=False, style="dim"
                )
