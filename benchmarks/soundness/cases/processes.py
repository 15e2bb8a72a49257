"""The cases that are about the process: forks, caches, memory, interruption: 31 and 37 to 40."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from benchmarks.soundness.cases.ingredients import grid, model_of, numbers
from benchmarks.soundness.table import case, plainly


def compiled_kernels(lib: Any) -> int:
    """How many kernels were compiled in this process; 0 where the library does not say."""
    if lib.__name__ != "jtorch":
        return 0
    from jtorch.native import cache

    return cache.counters.compiled


@case(31, "fork after capture")
def fork(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    f = wrap(lambda x: model(x).sum())
    before = float(f(grid(lib, 2, 3)))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # the same again, then another shape: replay and compile in the child
        with contextlib.suppress(BaseException):
            values = [float(f(grid(lib, n, 3))) for n in (2, 5)]
            os.write(write, repr(values).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return before, [float(v) for v in answer.strip("[]").split(",") if v], float(f(grid(lib, 2, 3)))


@case(37, "last partial batch: no kernel compiled")
def last_batch(lib: Any, wrap: Any) -> Any:
    model = model_of(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = wrap(step)
    losses = [step(grid(lib, 8, 3)) for _ in range(2)]
    before = compiled_kernels(lib)
    losses += [step(grid(lib, n, 3)) for n in (5, 1)]
    return losses, compiled_kernels(lib) - before


_SECOND = """
import jtorch
from jtorch.native import cache
f = jtorch.compile(lambda x: jtorch.tanh(x * 3).sum(0))
print(f(jtorch.ones(4, 3)).tolist(), cache.counters.compiled)
"""


@case(38, "second process: no kernel compiled", own_way=True)
def second_process(lib: Any, wrap: Any) -> Any:
    if wrap is plainly or lib.__name__ != "jtorch":
        return ["same results", "then none compiled"]
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "JTORCH_CACHE": folder}
        run = [sys.executable, "-c", _SECOND]
        done = [subprocess.run(run, env=environment, capture_output=True, text=True) for _ in range(2)]
    if any(d.returncode for d in done):
        return [d.stderr for d in done]
    first, second = (d.stdout.rsplit(" ", 1) for d in done)
    same = "same results" if first[0] == second[0] else f"{first[0]} against {second[0]}"
    return [
        same,
        "then none compiled" if int(second[1]) == 0 < int(first[1]) else f"compiled {first[1]}, {second[1]}",
    ]


@case(39, "100,000 calls: flat memory", own_way=True)
def flat_memory(lib: Any, wrap: Any) -> Any:
    f, x = wrap(lambda x: x * 2 + 1), numbers(lib, *range(256))
    calls = 1_000 if wrap is plainly else 100_000
    for _ in range(1_000):
        f(x)
    before = resident()
    for _ in range(calls):
        f(x)
    return f(x), "flat" if resident() - before < 4 << 20 else f"{resident() - before} bytes more"


def resident() -> int:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


@case(40, "Ctrl-C while compiling leaves a usable cache", own_way=True)
def interrupted(lib: Any, wrap: Any) -> Any:
    f, x, interruptions = wrap(lambda x: x.tanh().exp().sin().cos().sum(0)), grid(lib, 3, 4), 1
    with _interrupting(lib, wrap) as expected:
        try:
            f(x)
        except KeyboardInterrupt:
            interruptions = 1 if expected else 0
    return f(x), f(x), interruptions


@contextlib.contextmanager
def _interrupting(lib: Any, wrap: Any) -> Iterator[bool]:
    """The next kernel that is compiled is interrupted."""
    if lib.__name__ != "jtorch" or wrap is plainly:
        yield False
        return
    from jtorch.native import cache

    with (
        TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"JTORCH_CACHE": folder}),
        mock.patch.object(cache, "_compile", side_effect=KeyboardInterrupt),
    ):
        yield True
