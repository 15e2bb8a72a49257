"""``python -m benchmarks ddp [ROW...]``: what data-parallel training costs, here and over networks."""

from __future__ import annotations

import contextlib
import json as json_format
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.ddp import costs, measure, predict, report
from benchmarks.ddp.hosts import Hosts, HostsError, Link
from benchmarks.ddp.job import Job
from benchmarks.ddp.worker import COMPILED as COMPILED_MODE
from benchmarks.machine import describe, thread_variables
from benchmarks.measure import COMPILED
from benchmarks.models.rows import MODELS
from benchmarks.peers import PeerError
from benchmarks.progress import Progress
from benchmarks.timing import Effort
from jtorch.distributed import mpi
from jtorch.distributed.run import mpiexec

RANKS, MORE = 2, 4  # processes measured and fitted to; hosts that are only predicted
ROWS = ("mlp-512", "lenet-64", "gpt", "nano-gpt")
QUICK_ROWS = ("mlp-64",)
LINKS = (Link(1e9, 50e-6), Link(10e9, 10e-6))
KB = 1024
# bytes; below and above what is added in the order of ranks (512 KB), each its own algorithm
FITTED = (1 * KB, 8 * KB, 64 * KB, 256 * KB, 1024 * KB, 4096 * KB)
HELD_OUT = (2 * KB, 32 * KB, 128 * KB, 768 * KB, 2048 * KB, 8192 * KB)
IN_MORE = (8 * KB, 128 * KB, 1024 * KB, 4096 * KB)
ADDED = (256 * KB, 1024 * KB, 4096 * KB)
FULL = Effort(rounds=15, seconds=0.08)
QUICK = Effort(rounds=2, seconds=0.004)


@dataclass
class Setting:
    """What was measured in one network, and what the model says of it."""

    name: str
    rows: list[measure.Row]
    network: costs.Network
    fitted: list[predict.Prediction]
    held_out: list[predict.Prediction]
    steps: list[predict.Prediction] = field(default_factory=list)
    more: list[predict.Prediction] = field(default_factory=list)  # in MORE hosts
    remark: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "ranks": RANKS, "remark": self.remark, "constants": self.network.as_dict(),
            "rows": [row.as_dict() for row in self.rows],
            "fitted": [p.as_dict() for p in self.fitted], "held_out": [p.as_dict() for p in self.held_out],
            "steps": [p.as_dict() for p in self.steps],
            f"in_{MORE}_hosts": [p.as_dict() for p in self.more],
        }  # fmt: skip


@dataclass
class Result:
    """All settings, this host first; why others are missing; steps in more processes than there are."""

    settings: list[Setting] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    scales: dict[tuple[str, str], list[predict.Scale]] = field(default_factory=dict)

    @property
    def has_errors(self) -> bool:
        return any(row.errors for setting in self.settings for row in setting.rows)


def run(
    names: Sequence[str], with_torch: bool, quick: bool = False, as_markdown: bool = False,
    json: Path | None = None,
) -> int:  # fmt: skip
    """Measure and print; 0 if every row has its figures, 1 otherwise; 0 with a sentence without mpi4py.

    130 after Ctrl-C, which leaves the figures of those networks of hosts that were measured whole.
    """
    if not mpi.is_installed():
        print('ddp skipped: it needs mpi4py and MPI: python -m pip install -e ".[mpi]"')
        return 0
    machine, effort = describe(1), QUICK if quick else FULL
    chosen = list(names) or list(QUICK_ROWS if quick else ROWS)
    result = Result()
    if not with_torch:
        result.skipped.append("PyTorch's DistributedDataParallel: PyTorch is not installed, or not asked for")
    with Progress() as progress:
        _measure(result, chosen, with_torch, effort, LINKS[: 1 if quick else None], progress)
    if result.settings:
        _extrapolate(result)
    report.show(result, machine, as_markdown)
    if quick:
        print("--quick: samples are too short for figures", file=sys.stderr)
    if json is not None:
        json.write_text(json_format.dumps(_content(result, machine, quick, chosen), indent=1) + "\n")
    return progress.status(result.has_errors)


def _measure(
    result: Result, chosen: Sequence[str], with_torch: bool, effort: Effort, links: Sequence[Link],
    progress: Progress,
) -> None:  # fmt: skip
    progress.say("starting processes")
    with _on_this_host(1, with_torch) as alone, _on_this_host(RANKS, with_torch) as several:
        rows = []
        for name in chosen:
            progress.say(f"one process and {RANKS}: {name}")
            start = time.perf_counter()
            rows.append(measure.measure(MODELS[name], alone, several, effort))
            progress.line(report.one_line(rows[-1], time.perf_counter() - start))
        progress.say("collectives")
        (call,) = measure.all_reduces(alone["jtorch"], FITTED[:1], effort)
        gamma = measure.adding(several["jtorch"], ADDED, effort)
        result.settings.append(
            _setting("this host's memory", rows, several["jtorch"], call.seconds, gamma, effort)
        )
    for link in links:
        progress.say(f"hosts at {link}")
        try:
            result.settings.append(_over(link, chosen, call.seconds, gamma, effort))
        except (HostsError, PeerError) as error:
            result.skipped.append(f"hosts at {link}: {error}")


def _setting(
    name: str, rows: list[measure.Row], job: Job, call: float, gamma: float, effort: Effort
) -> Setting:
    """Fit the model to measured points, and ask it about others and the rows."""
    found = {p.nbytes: p for p in measure.all_reduces(job, sorted(FITTED + HELD_OUT), effort)}
    network = costs.fit(name, [found[n] for n in FITTED], call, gamma)
    fitted, held_out = (predict.points(network, [found[n] for n in sizes]) for sizes in (FITTED, HELD_OUT))
    return Setting(name, rows, network, fitted, held_out, predict.of_rows(network, rows, COMPILED, RANKS))


def _over(link: Link, chosen: Sequence[str], call: float, gamma: float, effort: Effort) -> Setting:
    """Compiled steps in two hosts of their own, with this link between them, and in one process here."""
    with Hosts(RANKS, link) as hosts, _on_hosts(hosts) as job, _on_this_host(1, False) as alone:
        jobs, modes = {"jtorch": job}, (COMPILED_MODE,)
        rows = [measure.measure(MODELS[name], alone, jobs, effort, modes) for name in chosen]
        setting = _setting(f"hosts at {link}", rows, job, call, gamma, effort)
    if not hosts.delays:
        setting.remark = "this kernel has no netem, so the speed is shaped, and the delay is the bridge's own"
    with Hosts(MORE, link) as hosts, _on_hosts(hosts) as job:
        setting.more = predict.points(setting.network, measure.all_reduces(job, IN_MORE, effort))
    return setting


def _on_hosts(hosts: Hosts) -> Job:
    """One process on each."""
    command = hosts.command([sys.executable, "-m", "benchmarks.ddp.worker", "jtorch"])
    return Job(f"jtorch on {hosts.count} hosts", [(command, thread_variables(1))], hosts.count)


@contextlib.contextmanager
def _on_this_host(count: int, with_torch: bool) -> Iterator[Mapping[str, Job]]:
    """Jobs of so many processes, by library; none is pinned, since some of the others could not be."""
    program = [sys.executable, "-m", "benchmarks.ddp.worker"]
    ours = [*mpiexec("", count), "--bind-to", "none", *program, "jtorch"]
    with contextlib.ExitStack() as stack:
        jobs = {"jtorch": Job(f"jtorch in {count} processes", [(ours, thread_variables(1))], count)}
        if with_torch:
            world = {**thread_variables(1), "WORLD_SIZE": str(count), **_LOOPBACK}
            theirs = [([*program, "torch"], {**world, "RANK": str(rank)}) for rank in range(count)]
            jobs["torch"] = Job(f"PyTorch in {count} processes", theirs, count)
        yield {name: stack.enter_context(job) for name, job in jobs.items()}


# gloo looks for the address of the host's name otherwise, which in containers leads nowhere
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}


def _extrapolate(result: Result) -> None:
    """Compiled steps as this host takes them alone, over each of the networks."""
    for row in result.settings[0].rows:
        cost = row.costs.get(COMPILED)
        if cost is None or cost.alone is None:
            continue
        for setting in result.settings[1:] or result.settings:
            key = (row.workload.what, setting.network.name)
            result.scales[key] = predict.extrapolated(setting.network, row, cost.alone.median)


def _content(
    result: Result, machine: Mapping[str, Any], quick: bool, chosen: Sequence[str]
) -> dict[str, Any]:
    scales = [
        {"row": row, "network": network, "ranks": [s.as_dict() for s in found]}
        for (row, network), found in result.scales.items()
    ]
    return {
        "machine": machine, "settings": {"section": "ddp", "quick": quick, "rows": list(chosen)},
        "measured": [s.as_dict() for s in result.settings], "skipped": result.skipped,
        "EXTRAPOLATION": {"assumptions": report.ASSUMPTIONS, "scales": scales},
    }  # fmt: skip
