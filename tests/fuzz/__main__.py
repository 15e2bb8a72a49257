"""``python -m tests.fuzz --seeds 0:5000``: random training programs, eager mode against compiled.

``--torch`` compares eager mode with PyTorch, too; ``--only torch`` does nothing else. ``--mode interpret``
and ``unjitted`` run recordings without kernels, ``dynamic`` with sizes as symbols, ``breaks`` with a line
that cannot be recorded, where calls may run eagerly. ``--show 17`` prints a
program. A worker runs the programs in a process of its own, started again where memory grows; the program
that kills it counts as a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import defaultdict

from tests.fuzz.generate import program
from tests.fuzz.report import of_seed, small

LARGEST = 3 << 20  # KiB of a worker
LIMIT = 120  # seconds for a program


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="first:last+1")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--only", choices=("compiled", "torch"))
    parser.add_argument("--mode", choices=("interpret", "unjitted", "dynamic", "breaks"))
    parser.add_argument("--show", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--each", type=int, default=1, help="how many failures of a class are made small")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _pairs(options: argparse.Namespace) -> tuple[str, ...]:
    return (options.only,) if options.only else ("compiled", "torch") if options.torch else ("compiled",)


def _worker(options: argparse.Namespace) -> None:
    """Checks seeds from first on; one JSON line before and after each."""
    mode = None if options.mode == "unjitted" else options.mode
    first, last = map(int, options.seeds.split(":"))
    seen: dict[str, int] = defaultdict(int)
    signal.signal(signal.SIGALRM, _too_long)
    for seed in range(first, last):
        _tell({"seed": seed})
        signal.alarm(LIMIT)
        try:
            failures = of_seed(seed, _pairs(options), mode)
            signal.alarm(0)
            for failure in failures:
                seen[str(failure.label)] += 1
                signal.alarm(2 * LIMIT)
                if seen[str(failure.label)] <= options.each and failure.kind != "refused":  # has its line
                    failure = small(failure, mode)
                signal.alarm(0)
                _tell(
                    {
                        "seed": seed,
                        "label": failure.label,
                        "text": failure.text,
                        "program": failure.program.script(),
                    }
                )
        except TimeoutError:
            _tell({"seed": seed, "label": ("all", "slow", f"more than {LIMIT} s"), "text": "", "program": ""})
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > LARGEST:
            break
    _tell({"seed": seed, "done": True})


def _too_long(*_: object) -> None:
    raise TimeoutError


def _tell(fact: dict) -> None:
    print(json.dumps(fact), flush=True)


def _run(options: argparse.Namespace) -> int:
    """Runs workers until all seeds are done; prints each class when it is met first, and a table."""
    first, last = map(int, options.seeds.split(":"))
    counts: dict[tuple[str, ...], list[int]] = defaultdict(list)
    start, seed = time.monotonic(), first
    while seed < last and time.monotonic() - start < options.seconds:
        seed = _one_worker(options, seed, last, counts, start) + 1
    took, failed = time.monotonic() - start, sum(map(len, counts.values()))
    print(f"\n{seed - first} programs, {took:.0f} s, {failed} failures")
    for label, seeds in sorted(counts.items(), key=lambda kv: -len(kv[1])):
        print(f"{len(seeds):5d}  {' | '.join(label)}  seeds {seeds[:4]}")
    return 1 if counts else 0


def _one_worker(options: argparse.Namespace, seed: int, last: int, counts: dict, start: float) -> int:
    """The last seed that it dealt with."""
    # what argparse sees last counts
    command = [sys.executable, "-m", "tests.fuzz", *sys.argv[1:], "--worker", f"--seeds={seed}:{last}"]
    jit = {"JTORCH_JIT": "0"} if options.mode == "unjitted" else {}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | jit)
    assert worker.stdout
    done = False
    for line in worker.stdout:
        if not line.startswith("{"):
            continue  # what a program printed
        fact = json.loads(line)
        seed, done = fact["seed"], "done" in fact
        if "label" in fact:
            _met(counts, tuple(fact["label"]), seed, fact)
        if time.monotonic() - start > options.seconds:
            worker.terminate()
            return seed
    if worker.wait() != 0 and not done:
        label = ("all", "crash", f"the process ended with {worker.returncode}")
        _met(counts, label, seed, {"text": "", "program": program(seed).script()})
    return seed


def _met(counts: dict, label: tuple[str, ...], seed: int, fact: dict) -> None:
    counts[label].append(seed)
    if len(counts[label]) == 1:
        print(f"=== {' | '.join(label)}\nseed {seed}: {fact['text']}", fact["program"], sep="\n", flush=True)


if __name__ == "__main__":
    _arguments = _options()
    if _arguments.show is not None:
        print(program(_arguments.show))
    elif _arguments.worker:
        _worker(_arguments)
    else:
        sys.exit(_run(_arguments))
