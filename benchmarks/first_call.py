"""What the first call of a compiled function costs, in a process that has compiled nothing before.

``python -m benchmarks.first_call ROW`` makes that call and prints its figures as JSON. ``cold_and_warm``
runs it twice with one cache folder: empty at first, then holding the kernels, as in a user's second
process, which also tells what it compiled.
"""

from __future__ import annotations

import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

STAGES = ("trace", "passes", "fuse", "plan", "emit", "build")


@dataclass(frozen=True)
class FirstCall:
    """``seconds`` of the call and of its ``stages``, with an empty kernel cache where ``second_process`` is
    that of one with a full one. ``equations`` are those recorded, before any pass. ``document`` is what
    ``f.document()`` gives, with the times of ``f.profile()``, if it was asked for."""

    seconds: float
    stages: dict[str, float]
    second_process: float | None = None
    kernels: int | None = None
    equations: int | None = None
    document: dict[str, Any] | None = None

    @property
    def rest(self) -> float:
        """Seconds outside of the stages: imports, guards, and the run itself."""
        return self.seconds - sum(self.stages.values())

    @property
    def equations_per_ms(self) -> float:
        """Over all stages."""
        return (self.equations or 0) / (sum(self.stages.values()) * 1e3)

    def as_dict(self) -> dict[str, Any]:
        stages = {f"{name}_s": seconds for name, seconds in self.stages.items()}
        return {"first_call_s": self.seconds, "second_process_s": self.second_process, **stages}


def of_function(compiled: Any, seconds: float) -> FirstCall:
    """The latest compilation of a function in this process, whose first call took ``seconds``."""
    stages = {name: getattr(compiled.timings, name) for name in STAGES}
    latest = max((plan for some in compiled.plans.values() for plan in some), key=lambda plan: plan.number)
    equations = len(latest.capture.graph.eqns)
    return FirstCall(seconds, stages, kernels=len(compiled.kernels()), equations=equations)


def measure(row: str) -> FirstCall:
    """Measure one row in two new processes."""
    cold, warm = cold_and_warm(row, "document")
    return replace(cold, second_process=warm.seconds, document=warm.document)


def cold_and_warm(row: str, *of_second: str) -> tuple[FirstCall, FirstCall]:
    """The first calls of two new processes, the second of which gets these options; RuntimeError with its
    last words if one fails."""
    import jtorch  # here: a peer's process imports this file, and must not have two libraries' threads

    compileall.compile_dir(Path(jtorch.__file__).parent, quiet=2)  # as an installed package is
    with tempfile.TemporaryDirectory() as folder:
        return _process(row, folder), _process(row, folder, *of_second)


def _process(row: str, cache: str, *options: str) -> FirstCall:
    path = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_call", row, *options],
        env={**os.environ, "JTORCH_CACHE": cache, "PYTHONPATH": os.pathsep.join(p for p in path if p)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise RuntimeError(f"the first call in a new process: {last}")
    return FirstCall(**json.loads(done.stdout.splitlines()[-1]))  # after what a user's file prints


def _main(row: str, *options: str) -> None:
    import jtorch
    from benchmarks.contestant import COMPILED, build, workload_of

    program = build(COMPILED, workload_of(row))
    start = time.perf_counter()
    compiled = jtorch.compile(program.step)
    compiled(*program.arguments[0])
    found = of_function(compiled, time.perf_counter() - start)
    if "document" in options:
        compiled.profile()
        found = replace(found, document=compiled.document(with_reasons=True))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
