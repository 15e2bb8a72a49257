"""One number of threads: where it comes from, the cores of a process, and that nothing else moves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jtorch
from jtorch import nn
from jtorch.core import threads

ROOT = Path(__file__).parents[2]
VARIABLES = ("JTORCH_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def run(program: str, **variables: str) -> str:
    """What a program prints in a process that has these variables and no others of threads."""
    environment = {k: v for k, v in os.environ.items() if k not in VARIABLES} | variables
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- which number ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"JTORCH_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "5"}, 3),
        ({"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "5"}, 4),
        ({"JTORCH_NUM_THREADS": "0", "OMP_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": " 6,2"}, 6),  # a number for each level of nesting
        ({"OPENBLAS_NUM_THREADS": str(2**64), "OMP_NUM_THREADS": str(2**63)}, None),
        ({"OPENBLAS_NUM_THREADS": "all", "OMP_NUM_THREADS": "-1"}, None),  # not understood elsewhere either
        ({}, None),
    ],
)
def test_the_environment_in_its_order(monkeypatch, variables, expected):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert threads.default_count() == (expected or threads.cores())


@pytest.mark.parametrize("text", ["-2", "many", "1.5", "4294967296"])
def test_a_setting_that_is_no_number_of_threads_is_an_error(monkeypatch, text):
    monkeypatch.setenv("JTORCH_NUM_THREADS", text)
    with pytest.raises(ValueError, match=f"JTORCH_NUM_THREADS='?{text}"):
        threads.default_count()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "ours", "numpys"),
    [
        ({"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, 2, 2),
        ({"OMP_NUM_THREADS": "1"}, 1, 1),
        ({"JTORCH_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}, 2, 1),
        ({"JTORCH_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2"}, 1, 2),
    ],
    ids=str,
)
def test_in_a_process_of_its_own(variables, ours, numpys):
    """The variables of other libraries keep their meaning for NumPy's own calls, whatever ours says."""
    program = """
import numpy
from jtorch.core import library_threads
import jtorch
x = jtorch.randn(300, 300)
(x @ x).sum(), jtorch.linalg.inv(x)
print(jtorch.get_num_threads(), *{library.get() for library in library_threads.found(False)})
"""
    found = run(program, **variables).split()
    assert found[0] == str(ours)
    if found[1:]:  # NumPy may be built without a BLAS that has threads
        assert found[1:] == [str(min(numpys, threads.cores()))]


def test_what_was_set_is_in_force_at_once(number):
    jtorch.set_num_threads(3)
    assert jtorch.get_num_threads() == threads.count() == threads.count_cell.value == 3
    with pytest.raises(ValueError, match="1 or more, not 0"):
        threads.set_count(0)
    with pytest.raises(ValueError, match=f"at most 2147483647, not {2**32}"):
        threads.set_count(2**32)
    assert threads.count() == 3


def test_the_number_in_force_is_what_the_blas_takes(number):
    from jtorch.native import blas

    most = blas.most_threads()
    if most is None:
        pytest.skip("no private copy of OpenBLAS")
    handle = blas._library().handle
    for asked in (threads.FEW, most, most + 1, 2**31 - 1):
        jtorch.set_num_threads(asked)
        assert jtorch.get_num_threads() == threads.count_cell.value == min(asked, most)
    try:
        handle.scipy_openblas_set_num_threads(most + 1)
        assert handle.scipy_openblas_get_num_threads() == most
    finally:
        handle.scipy_openblas_set_num_threads(1)


# -- what the number does --------------------------------------------------------------------------------

OTHERS = """
import os, sys, time
import numpy as np
import jtorch
from jtorch import nn

def others():  # (how many threads there are beside this one, their time so far in ticks)
    found = [open(f"/proc/self/task/{t}/stat").read().rpartition(")")[2].split()
             for t in os.listdir("/proc/self/task") if int(t) != os.getpid()]
    return len(found), sum(int(f[11]) + int(f[12]) for f in found)
"""

STEPS = (
    OTHERS
    + """
model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
optimizer = jtorch.optim.Adam(model.parameters(), lr=1e-3)
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
if MODE == "compiled":
    step = jtorch.compile(step)
x, y = jtorch.randn(64, INPUTS), jtorch.randint(0, 10, (64,))
convolution, images = nn.Conv2d(16, 16, 3), jtorch.randn(2, 16, 12, 12)

def turn():
    step(x, y)
    if MODE == "eager":
        convolution(images).sum().backward()
        jtorch.linalg.solve(x[:, :64], x[:, :5]), x.flatten().dot(x.flatten())

turn()  # compiles what no cache holds: that imports SciPy, whose BLAS has a thread of its own
time.sleep(0.2)  # what a thread does when it begins
before, began = others(), time.perf_counter()
for _ in range(STEPS):
    turn()
lasted = time.perf_counter() - began
after = others()
time.sleep(0.2)
lasted *= os.sysconf("SC_CLK_TCK")
print(after[0] - before[0], after[1] - before[1], others()[1] - after[1], round(lasted))
"""
)

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are looked up in /proc")


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("mode, inputs, hidden, steps", [("eager", 256, 64, 60), ("compiled", 64, 32, 3000)])
def test_small_ops_wake_no_thread(mode, inputs, hidden, steps):
    """An MLP's training step, convolutions, a solver: nothing that another thread works or spins for."""
    sizes = f"MODE, INPUTS, HIDDEN, STEPS = {mode!r}, {inputs}, {hidden}, {steps}"
    added, ticks, later, _ = map(int, run(f"{sizes}\n{STEPS}", OPENBLAS_NUM_THREADS="2").split())
    assert added == 0
    assert ticks + later <= 2  # hundredths of a second; NumPy's BLAS spins for three after each product


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_a_large_step_takes_the_others_no_longer_than_it_lasts(mode):
    """Products of 300 us are worth a second thread, which sleeps again when the last step has ended."""
    program = f"MODE, INPUTS, HIDDEN, STEPS = {mode!r}, 784, 256, 300\n{STEPS}"
    added, ticks, later, lasted = map(int, run(program, JTORCH_NUM_THREADS="2").split())
    assert added <= 1
    assert ticks <= lasted + 1
    assert later <= 1


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_large_products_use_the_threads_and_let_them_sleep(mode):
    pytest.importorskip("scipy_openblas32")
    program = (
        OTHERS
        + f"""
product = lambda x, y: x @ y
if {mode!r} == "compiled":
    product = jtorch.compile(product)
x = jtorch.ones(800, 800)  # random ones would have been drawn on threads
seen = []
for count in (1, 3, 1):
    jtorch.set_num_threads(count)
    product(x, x)
    time.sleep(0.05)
    before = others()
    product(x, x)
    worked, idle = others()[1] - before[1], 0
    for _ in range(10):
        product(x, x)
        done = others()[1]
        time.sleep(0.06)
        idle += others()[1] - done
    seen.append((before[0], worked, idle))
first, more, again = seen
print(more[0] - first[0], again[1], sum(idle for _, _, idle in seen))
"""
    )
    created, afterwards, idle = map(int, run(program, OPENBLAS_NUM_THREADS="2").split())
    assert created == 2  # three threads: two beside the caller
    assert afterwards == 0  # back to one, in the plan that was compiled before, too
    assert idle <= 2  # hundredths of a second; with OpenBLAS's own patience three after each product


def _products(mode):
    def step(x, w):
        h = (x @ w).relu()
        loss = (h @ w.t()).square().mean()
        loss.backward()
        return loss

    x, w = jtorch.randn(300, 784), jtorch.randn(784, 256, requires_grad=True)
    loss = (jtorch.compile(step) if mode == "compiled" else step)(x, w)
    return loss, w.grad


def _convolutions(mode):
    layers = nn.Sequential(
        nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 24, 3, groups=24),
        nn.ReLU(), nn.Conv2d(24, 40, 3, stride=2), nn.Flatten(), nn.Linear(40 * 36, 10),
    )  # fmt: skip
    optimizer = jtorch.optim.Adam(layers.parameters(), lr=1e-3, fused=True)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(layers(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if mode == "compiled":
        step = jtorch.compile(step)
    x, y = jtorch.randn(16, 3, 32, 32), jtorch.randint(0, 10, (16,))
    losses = [step(x, y) for _ in range(3)]
    return *losses, *layers.parameters()


def _decompositions(mode):
    x = jtorch.randn(300, 300)
    spd = x @ x.t() + 300 * jtorch.eye(300)
    return (
        jtorch.linalg.inv(spd), jtorch.linalg.cholesky(spd), *jtorch.linalg.svd(x),
        jtorch.linalg.solve(spd, x), jtorch.complex(x, x) @ jtorch.complex(x, x),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("program", [_products, _convolutions, _decompositions])
def test_bits_do_not_depend_on_the_number(mode, program, number):
    from jtorch.native import workers

    if not workers.pool():
        pytest.skip("OpenBLAS's own threads share out large products here")
    found = set()
    for count in (1, 2, 3, 7):
        jtorch.set_num_threads(count)
        jtorch.manual_seed(0)
        found.add(b"".join(t.detach().numpy().tobytes() for t in program(mode)))
    assert len(found) == 1


# -- the cores of a process ------------------------------------------------------------------------------


def files(root: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1 = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/init.scope\n"
QUOTAS = {
    "no cgroups": ({}, None),
    "v2": ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 2),
    "v2 above": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
            "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
        },
        3,
    ),
    "v2 least counts": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "800000 100000\n",
            "sys/fs/cgroup/a/cpu.max": "50000 100000\n",
        },
        1,
    ),
    "v2 in a container": ({"proc/self/cgroup": "0::/../x\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
    "v2 without a limit": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
    "v1": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        },
        3,
    ),
    "v1 in a container": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "v1 without a limit": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "nonsense": ({"proc/self/cgroup": "0::/\nx\n", "sys/fs/cgroup/cpu.max": "a lot\n"}, None),
    "period zero": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "5 0\n"}, None),
}


@pytest.mark.parametrize("name", QUOTAS)
def test_quotas_of_control_groups_are_rounded_up(tmp_path, name):
    contents, expected = QUOTAS[name]
    assert threads.quota(files(tmp_path, contents)) == expected


def test_cores_are_the_affinity_and_at_most_the_quota(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    for limit, expected in ((None, 3), (2, 2), (8, 3)):
        monkeypatch.setattr(threads, "quota", lambda limit=limit: limit)
        assert threads.cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_of_a_process():
    program = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jtorch
print(jtorch.get_num_threads())
"""
    assert run(program) == "1"
