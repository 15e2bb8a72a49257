"""A training step beside other programs: ``python -m benchmarks busy``.

Two busy processes for each core compete with the step. The *mean* is what counts: a step that waits for a
thread which the scheduler lets wait takes 20 ms now and then, which no median shows. What is fair shows in a
plain loop of Python, which uses one thread and waits for nobody: on an idle machine it takes 2.5 times as
long beside two processes a core, (4 + 1) / 2 on two cores.
"""

from __future__ import annotations

import contextlib
import json as json_format
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

import jtorch
from benchmarks import tables
from benchmarks.agree import DisagreementError, check, record
from benchmarks.machine import describe
from benchmarks.measure import COMPILED, EAGER
from benchmarks.peers import PEERS, Peer, PeerError
from benchmarks.progress import Progress
from benchmarks.report import ERROR, duration, show_machine
from benchmarks.timing import Calls, Contestant, calibrate
from benchmarks.workloads.mlp import LARGER

PROCESSES_PER_CORE = 2
GOAL = 4.0  # times slower, in both modes
LOOP = "a loop in Python"
HEADINGS = ("contestant", "alone", "beside busy processes", "times slower", "goal", "verdict")


@dataclass(frozen=True)
class Effort:
    """``rounds`` of ``seconds`` for each contestant alone, and as many beside busy processes."""

    rounds: int
    seconds: float


FULL, QUICK = Effort(rounds=5, seconds=1.0), Effort(rounds=1, seconds=0.05)


@dataclass
class Line:
    """Calls and seconds of one contestant."""

    name: str
    goal: float | None = None
    alone: list[tuple[int, float]] = field(default_factory=list)
    busy: list[tuple[int, float]] = field(default_factory=list)
    error: str | None = None

    @staticmethod
    def mean(samples: list[tuple[int, float]]) -> float:
        return sum(seconds for _, seconds in samples) / sum(calls for calls, _ in samples)

    @property
    def slower(self) -> float:
        return self.mean(self.busy) / self.mean(self.alone)

    @property
    def verdict(self) -> str:
        return "" if self.goal is None else "met" if self.slower <= self.goal else "missed"

    def cells(self) -> list[str]:
        """The texts of the line, under HEADINGS."""
        if self.error is not None:
            return [self.name, "", "", "", "", "ERROR"]
        times = [duration(self.mean(samples)) for samples in (self.alone, self.busy)]
        goal = "" if self.goal is None else f"{self.goal:g}"
        return [self.name, *times, f"{self.slower:.1f}", goal, self.verdict]

    def as_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": self.name, "goal": self.goal, "error": self.error}
        if self.error is None:
            facts |= {
                "alone_mean_s": self.mean(self.alone), "busy_mean_s": self.mean(self.busy),
                "times_slower": self.slower, "verdict": self.verdict,
            }  # fmt: skip
        samples = {"alone_calls_and_s": self.alone, "busy_calls_and_s": self.busy}
        return facts | samples


# A process that works until its parent is gone, however that ended: nobody might be left to kill it.
_SPIN = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen]]:
    """That many processes which do nothing but work, pinned to no core; none is left afterwards."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            process = subprocess.Popen([sys.executable, "-c", _SPIN, str(os.getpid())])
            stack.callback(process.wait)
            stack.callback(process.kill)  # before the wait: callbacks run backwards
            found.append(process)
        time.sleep(0.2)  # they have started, and the scheduler has seen them work
        yield found


def loop() -> None:
    """About a third of a millisecond."""
    for _ in range(20_000):
        pass


def run(
    with_torch: bool,
    threads: int | None,
    effort: Effort,
    as_markdown: bool = False,
    json: Path | None = None,
    compiler: Callable | None = None,
) -> int:
    """Measure and print; 0 if every line has its figures (a missed goal is no error), 1 otherwise, 130 after
    Ctrl-C.

    ``compiler`` stands in for ``jtorch.compile`` in tests.
    """
    machine = describe(threads)
    lines: list[Line] = []
    with Progress() as progress, contextlib.ExitStack() as stack:
        torch = stack.enter_context(Peer("torch", threads)) if with_torch else None
        lines, contestants = _contestants(torch, compiler or jtorch.compile)
        measure(lines, contestants, PROCESSES_PER_CORE * machine["cores"], effort, progress)
    lines = [line for line in lines if line.error is not None or (line.alone and line.busy)]
    _show(lines, machine, as_markdown)
    if effort == QUICK:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        facts = {"machine": machine, "settings": {"section": "busy", "quick": effort == QUICK}}
        json.write_text(json_format.dumps(facts | {"lines": [line.as_dict() for line in lines]}, indent=1))
    return progress.status(any(line.error is not None for line in lines))


def _contestants(torch: Peer | None, compiler: Callable) -> tuple[list[Line], dict[str, Contestant]]:
    """The lines, and what runs those that compute what eager mode computes."""
    eager, compiled = (LARGER.torch_like(jtorch) for _ in range(2))
    step = compiler(compiled.step)
    expected = record(eager, eager.step, 3)
    makers: dict[str, Callable[[], tuple[Any, Contestant]]] = {
        COMPILED: lambda: (
            record(compiled, step, 3), Calls(step, compiled.arguments, compiled.reset)
        ),
    }  # fmt: skip
    if torch is not None:
        makers[PEERS["torch"]] = lambda: (torch.prepare(LARGER.name, 3), torch)
    lines = [Line(EAGER, GOAL)]
    found: dict[str, Contestant] = {EAGER: Calls(eager.step, eager.arguments, eager.reset)}
    for name, make in makers.items():
        lines.append(Line(name, GOAL if name == COMPILED else None))
        try:
            other, contestant = make()
            check(other, expected, LARGER.tolerance, name)
            found[name] = contestant
        except (PeerError, DisagreementError) as error:
            lines[-1].error = str(error)
    return [*lines, Line(LOOP)], found | {LOOP: Calls(loop, [()])}


def measure(
    lines: list[Line],
    contestants: Mapping[str, Contestant],
    processes: int,
    effort: Effort,
    progress: Progress,
) -> None:
    """Fill in the samples: in each round all contestants alone, then all beside the processes."""
    calls = {name: calibrate(c, min(0.05, effort.seconds)) for name, c in contestants.items()}
    running = [line for line in lines if line.error is None]
    for turn in range(effort.rounds):
        progress.say(f"alone and beside {processes} busy processes, {turn + 1} of {effort.rounds}")
        for line in running:
            line.alone.append(_sample(contestants[line.name], calls[line.name], effort.seconds))
        with busy_processes(processes):
            for line in running:
                line.busy.append(_sample(contestants[line.name], calls[line.name], effort.seconds))


def _sample(contestant: Contestant, calls: int, seconds: float) -> tuple[int, float]:
    """(calls, seconds) of blocks of ``calls``, until about ``seconds`` have passed."""
    done, took, end = 0, 0.0, time.perf_counter() + seconds
    while not done or time.perf_counter() < end:
        took += contestant.run(calls)
        done += calls
    return done, took


def _show(lines: list[Line], machine: dict[str, Any], as_markdown: bool) -> None:
    if as_markdown:
        rows = [list(HEADINGS), ["---", *["---:"] * 4, "---"], *(line.cells() for line in lines)]
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    else:
        console = tables.console()
        show_machine(console, machine)
        count = PROCESSES_PER_CORE * machine["cores"]
        title = f"{LARGER.what}: mean step alone and beside {count} busy processes"
        tables.show(console, title, HEADINGS, [line.cells() for line in lines], ("contestant", "verdict"))
    for line in lines:
        if line.error is not None:
            Console(stderr=True).print(f"{ERROR} {line.name}: {line.error}")
