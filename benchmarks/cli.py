"""The command line of the benchmark. Nothing here imports NumPy before the threads are set."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import describe, thread_variables

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.peers import Peer
    from benchmarks.program import Workload
    from benchmarks.timing import Effort

NAMES = ("call", "toy", "rnn_cell", "mlp", "lenet", "rnn", "width")
SOUNDNESS, GUARDS, BUSY, ACCURACY = "soundness", "guards", "busy", "accuracy"
MODELS, DDP, DYNAMIC = "compiled", "ddp", "dynamic"
EAGER, EAGER_GROUPS = "eager", ("ops", "chain", "steps", "arrays", "small", "convolutions", "import")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time jtorch eager against compiled, in interleaved runs of the same program. "
        "A row whose modes compute different numbers is an error, and the exit status is 1. "
        f"'{EAGER} [GROUP...]' times eager mode alone against PyTorch and NumPy, with a goal for each "
        f"line; the groups are {', '.join(EAGER_GROUPS)}. '{SOUNDNESS} [NUMBER...]' runs the cases in which "
        "compiled code could differ from eager code, and gives each library's verdicts. "
        f"'{GUARDS}' gives what the checks before a compiled call cost, by reads and by parameters. "
        f"'{BUSY}' times a training step alone, and beside two busy processes a core. "
        f"'{DYNAMIC}' gives what sizes cost that were never seen before. "
        f"'{MODELS} [NETWORK...]' times training steps of fifteen networks of ordinary size. "
        f"'{ACCURACY} [CASE...]' gives how far sums are off in both modes, beside PyTorch. "
        f"'{DDP} [NETWORK...]' gives what averaging gradients costs in two processes, what a model says of "
        "it, and, for root on Linux, both over networks of 1 and 10 Gbit/s made of namespaces.",
    )
    p.add_argument(
        "workloads",
        nargs="*",
        metavar="WORKLOAD",
        help=f"of {', '.join(NAMES)}; default: all; or {EAGER}, then groups of it",
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write machine, settings and all samples here")
    p.add_argument("--markdown", action="store_true", help="print one table, as docs/figures.md has it")
    p.add_argument("--quick", action="store_true", help="few short samples: shows that it works, no figures")
    p.add_argument("--peers", metavar="NAMES", help="comma list of torch, jax; default: those installed")
    p.add_argument(
        "--threads", type=int, metavar="N", help="for every library; default: each library's own default"
    )
    return p


def main(arguments: Sequence[str] | None = None, compiler: Any = None) -> int:
    """Run the benchmark; 0 if every row has its figures, 1 if one is an error."""
    os.environ["JTORCH_FULLGRAPH"] = "1"  # or a step that runs eagerly would be shown as a compiled one
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == [DYNAMIC]:  # which has options of its own
        from benchmarks import dynamic

        return dynamic.main(given[1:])
    p = parser()
    options = p.parse_args(arguments)
    if options.workloads[:1] == [GUARDS]:
        from benchmarks import guards

        return guards.main(["--quick"] if options.quick else [])
    if options.workloads[:1] == [SOUNDNESS]:
        return _run_soundness(p, options)
    if options.threads is not None and options.threads < 1:
        p.error(f"--threads takes a number from 1, not {options.threads}")
    if options.workloads[:1] == [BUSY]:
        if options.workloads[1:]:
            p.error(f"{BUSY} is one row, there is nothing to choose")
        _needs_rich(p)
        with _environment(thread_variables(options.threads)):
            return _run_busy(p, options, compiler)
    if options.workloads[:1] == [ACCURACY]:
        return _run_accuracy(p, options)
    if options.workloads[:1] == [MODELS]:
        return _run_models(p, options)
    if options.workloads[:1] == [DDP]:
        return _run_ddp(p, options)
    options.eager = options.workloads[:1] == [EAGER]
    known = EAGER_GROUPS if options.eager else NAMES
    unknown = [name for name in options.workloads[options.eager :] if name not in known]
    if unknown:
        kind = f"group of {EAGER}" if options.eager else "workload"
        p.error(f"no {kind} named {', '.join(unknown)}; there are {', '.join(known)}")
    _needs_rich(p)
    with _environment(thread_variables(options.threads)):
        return _run_eager(p, options) if options.eager else _run(p, options, compiler)


def _needs_rich(p: argparse.ArgumentParser) -> None:
    try:
        import rich  # noqa: F401 - asked for early, so that its absence is told before the work
    except ModuleNotFoundError:
        p.error('the tables need rich: python -m pip install -e ".[bench]"')


def _run_busy(p: argparse.ArgumentParser, options: argparse.Namespace, compiler: Any) -> int:
    from benchmarks import busy

    with_torch = "torch" in _peer_names(p, options.peers)
    effort = busy.QUICK if options.quick else busy.FULL
    return busy.run(with_torch, options.threads, effort, options.markdown, options.json, compiler)


def _run_soundness(p: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from benchmarks.soundness.section import run

    numbers = options.workloads[1:]
    if not all(n.isdecimal() and 1 <= int(n) <= 44 for n in numbers):
        p.error(f"{SOUNDNESS} takes numbers from 1 to 44, not {' '.join(numbers)}")
    return run([int(n) for n in numbers], _peer_names(p, options.peers), options.json)


def _run_accuracy(p: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    peers = _peer_names(p, options.peers)
    if options.peers is not None and set(peers) - {"torch"}:
        p.error(f"{ACCURACY} is measured against PyTorch alone: --peers torch")
    with _environment(thread_variables(options.threads)), _empty_cache():
        from benchmarks.accuracy.section import chosen, run

        try:
            cases = chosen(options.workloads[1:])
        except ValueError as unknown:
            p.error(str(unknown))
        return run(cases, options.quick, "torch" in peers, options.json, options.threads)


def _run_models(p: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    _needs_rich(p)
    with _environment(thread_variables(options.threads)), _empty_cache():
        from benchmarks.models import rows
        from benchmarks.models.section import known_peers, run
        from benchmarks.peers import installed

        unknown = [name for name in options.workloads[1:] if name not in rows.MODELS]
        if unknown:
            p.error(f"no network named {', '.join(unknown)}; there are {', '.join(rows.MODELS)}")
        wanted = options.peers or "torch,channels_last"
        peers = [name for name in wanted.split(",") if name]
        strange = [name for name in peers if name not in known_peers()]
        if strange:
            p.error(f"no peer named {', '.join(strange)}; there are {', '.join(known_peers())}")
        here = installed()
        absent = [name for name in peers if ("jax" if name == "jax" else "torch") not in here]
        if absent and options.peers is not None:
            p.error(f"{', '.join(absent)}: not installed in this environment")
        peers = [name for name in peers if name not in absent]
        return run(
            options.workloads[1:], peers, options.threads, options.quick, options.markdown, options.json
        )


def _run_ddp(p: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    _needs_rich(p)
    if options.threads not in (None, 1):
        p.error(f"{DDP} gives each process one thread, so that two have no more cores each than one")
    peers = _peer_names(p, options.peers)
    if options.peers is not None and set(peers) - {"torch"}:
        p.error(f"{DDP} is measured against PyTorch alone: --peers torch")
    with _environment(thread_variables(1)):
        from benchmarks.ddp.section import run
        from benchmarks.models.rows import MODELS

        unknown = [name for name in options.workloads[1:] if name not in MODELS]
        if unknown:
            p.error(f"no network named {', '.join(unknown)}; there are {', '.join(MODELS)}")
        return run(options.workloads[1:], "torch" in peers, options.quick, options.markdown, options.json)


def _run_eager(p: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from benchmarks.eager.section import run

    peers = _peer_names(p, options.peers)
    if options.peers is not None and set(peers) - {"torch"}:
        p.error(f"{EAGER} is measured against PyTorch alone: --peers torch")
    groups = options.workloads[1:] or EAGER_GROUPS
    with_torch = "torch" in peers
    return run(groups, with_torch, options.threads, options.quick, options.markdown, options.json)


def _run(p: argparse.ArgumentParser, options: argparse.Namespace, compiler: Any) -> int:
    from rich.console import Console

    from benchmarks import markdown, report
    from benchmarks.timing import FULL, QUICK
    from benchmarks.workloads import WORKLOADS

    chosen = [row for name in options.workloads or NAMES for row in WORKLOADS[name]]
    peers = _peer_names(p, options.peers)
    console = Console(width=None if sys.stdout.isatty() else 150)
    machine = describe(options.threads)
    rows = _measure_all(chosen, options, peers, QUICK if options.quick else FULL, compiler)
    if options.markdown:
        print(markdown.table(rows, peers))
        report.show_errors(Console(stderr=True), rows)
    else:
        report.show(console, machine, rows, peers)
    if options.quick:
        print("--quick: samples are too short for figures; first calls share kernels", file=sys.stderr)
    if options.json:
        settings = {"quick": options.quick, "workloads": [w.name for w in chosen], "peers": peers}
        report.write_json(options.json, machine, rows, settings)
    return 1 if any(row.errors for row in rows) else 0


def _peer_names(p: argparse.ArgumentParser, asked: str | None) -> list[str]:
    from benchmarks.peers import PEERS, installed

    here = installed()
    if asked is None:
        return list(here)
    names = [name for name in asked.split(",") if name]
    for name in names:
        if name not in PEERS:
            p.error(f"no peer named {name!r}; there are {', '.join(PEERS)}")
        if name not in here:
            p.error(f"{name} is not installed in this environment: python -m pip install {name}")
    return names


def _measure_all(
    chosen: Sequence[Workload],
    options: argparse.Namespace,
    peers: list[str],
    effort: Effort,
    compiler: Any,
) -> list[Row]:
    from benchmarks.measure import measure
    from benchmarks.report import one_line

    rows = []
    with _peers(peers, options.threads) as processes, _empty_cache():
        for workload in chosen:
            start = time.perf_counter()
            row = measure(workload, effort, processes, compiler, own_process=not options.quick)
            rows.append(row)
            print(one_line(row, time.perf_counter() - start), file=sys.stderr, flush=True)
    return rows


@contextlib.contextmanager
def _peers(names: list[str], threads: int | None) -> Iterator[dict[str, Peer]]:
    from benchmarks.peers import Peer

    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(Peer(name, threads)) for name in names}


@contextlib.contextmanager
def _empty_cache() -> Iterator[None]:
    """A kernel cache of this run's own: compiling is measured, not a cache from before."""
    with tempfile.TemporaryDirectory() as folder, _environment({"JTORCH_CACHE": folder}):
        yield


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
