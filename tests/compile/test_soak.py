"""Long runs whose memory must stay flat: left out unless asked for with ``-m soak``.

What leaks grows with the number of calls, so each run is sampled: after a warm-up neither the resident memory
nor the number of objects that the garbage collector knows may grow from one sample to the last. Each has
a process of its own (``python -m tests.compile.test_soak NAME``): where other tests left fragments,
allocators gain some megabytes more before they level off.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jtorch
from jtorch import nn, optim
from jtorch.native import workers
from jtorch.nn import functional as F

pytestmark = pytest.mark.soak

MEGABYTES = 4  # of resident memory that a run may gain after its warm-up: allocators round up
OBJECTS = 200


def resident() -> float:
    """Megabytes of memory of this process that lie in RAM."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("resident memory is read from /proc")
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def assert_flat(call: Callable[[int], Any], count: int, warm: int, objects: int = OBJECTS) -> None:
    """``call(k)`` ``count`` times, with five samples after the first ``warm`` calls."""
    for k in range(warm):
        call(k)
    samples = []
    for part in range(5):
        for k in range(warm + part * count // 5, warm + (part + 1) * count // 5):
            call(k)
        gc.collect()
        samples.append((resident(), len(gc.get_objects())))
    print(f"{count} calls: " + ", ".join(f"{m:.1f} MB {n} objects" for m, n in samples))
    assert samples[-1][0] - samples[0][0] < MEGABYTES, samples
    assert samples[-1][1] - samples[0][1] < objects, samples


def training(width: int = 32) -> tuple[Callable, Callable[[int], Any]]:
    """The step of a small network with Adam, and a batch of so many rows."""
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, width), nn.Tanh(), nn.Dropout(0.1), nn.Linear(width, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def batch(rows: int) -> Any:
        x = jtorch.from_numpy(rng.normal(size=(rows, 16)).astype(np.float32))
        return x, jtorch.from_numpy(rng.integers(0, 4, rows))

    return step, batch


def compiled_steps():
    step, batch = training()
    step, batches = jtorch.compile(step), [batch(8) for _ in range(10)]
    assert_flat(lambda k: step(*batches[k % 10]), 100_000, 1_000)


def compiled_steps_on_two_threads():
    """So large that kernels are cut into pieces, which a worker shares."""
    jtorch.set_num_threads(2)
    step, batch = training(width=1024)
    step, batches = jtorch.compile(step), [batch(128) for _ in range(10)]
    assert_flat(lambda k: step(*batches[k % 10]), 100_000, 1_000)
    record, places = workers._POOL, workers._PLACES
    assert record is None or record[places["ROUND"]] > 100_000, "nothing was shared"


def eager_steps():
    step, batch = training()
    batches = [batch(8) for _ in range(10)]
    assert_flat(lambda k: step(*batches[k % 10]), 20_000, 1_000)


def calls_that_change_between_branches():
    """Four ways through two branches, in turn."""

    @jtorch.compile
    def function(x):
        y = x * 2.0 if x.sum() > 0 else x - 1.0
        return y.tanh() if y.amax() > 1.0 else y + x

    inputs = [jtorch.tensor([a, b]) for a, b in ((1.0, 2.0), (0.1, 0.2), (-1.0, 0.5), (-4.0, 2.5))]
    with jtorch.no_grad():
        assert_flat(lambda k: function(inputs[k % 4]), 10_000, 500)


def retraces():
    """More shapes in turn than plans are kept: each call records again, and a plan is dropped.

    The allocator's pools fill within some 900 calls, by 5 MB; the next 700 added nothing.
    """
    step, batch = training()
    step = jtorch.compile(step, dynamic=False)

    def call(k: int) -> None:
        step(*batch(100 + k % 130))
        assert len(step.retraces) == (k > 0)
        step.retraces.clear()  # it keeps up to 1,000: see test_ledger.py

    assert_flat(call, 500, 800)


RUNS = {
    f.__name__: f
    for f in (
        compiled_steps, compiled_steps_on_two_threads, eager_steps, calls_that_change_between_branches,
        retraces,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_memory_stays_flat(name):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.compile.test_soak", name]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    print(done.stdout)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    RUNS[sys.argv[1]]()
