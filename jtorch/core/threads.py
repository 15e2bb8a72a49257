"""How many threads jtorch computes on: one number for products in both modes, kernels and linear algebra.

Who says it, the first that does:

    jtorch.set_num_threads(n)   at any time; holds from the next op on, in plans that are compiled too
    JTORCH_NUM_THREADS          read when the number is first needed, as the next two
    OPENBLAS_NUM_THREADS
    OMP_NUM_THREADS
    the cores of this process   those it may run on, at most its CPU quota, rounded up

The number is the most that one op uses, and no more than the BLAS was built for: work that a second thread
would not finish sooner stays on one (see `core/pieces.py`). NumPy's own calls outside of jtorch's ops run on
as many threads as NumPy's BLAS was given when it loaded, by OPENBLAS_NUM_THREADS or OMP_NUM_THREADS: nothing
here changes that.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path

from jtorch.core import config, higher

# Where there is no pool of our own, products of fewer floating-point operations stay on one thread. Measured
# on two cores of a Xeon (AVX-512), OpenBLAS's pool asleep, as it is in a training step (ms on one thread /
# two, where other programs leave the second core free / the median where they do not):
#     64 x 784 x 256    26 MFLOP   0.21 / 0.19 / 25
#    256 x 784 x 256   103 MFLOP   0.72 / 0.50 / 22
#    512 x 512 x 512   268 MFLOP   1.80 / 1.06 / 22
#   2048 x 2048 x 256  2.1 GFLOP   15.1 / 7.7 / 9.3
# Below a millisecond there is little to gain, and as much to lose as the scheduler lets a thread wait.
PARALLEL_FLOPS = 1 << 27

FEW = 16  # every build of OpenBLAS takes as many; 64 those of the wheels
_LARGEST = 2**31 - 1  # a C int


count_cell = ctypes.c_int64(0)
"""The number in force, for machine code to read by address; 0 until it is first needed."""


def count() -> int:
    """The number in force."""
    if not count_cell.value:
        count_cell.value = _in_force(default_count())
    return count_cell.value


def set_count(number: int) -> None:
    """Let ops use `number` threads from now on, or as many as the BLAS was built for.

    Raises ValueError below 1 and for what is no C int.
    """
    if number < 1:
        raise ValueError(f"a number of threads is 1 or more, not {number}")
    if number > _LARGEST:
        raise ValueError(f"a number of threads is at most {_LARGEST}, not {number}")
    count_cell.value = _in_force(number)


def _in_force(number: int) -> int:
    """What the BLAS makes of it: the BLAS is asked, and loaded, only where there may be a difference."""
    most = higher.most_threads() if number > FEW and higher.most_threads is not None else None
    return number if most is None else min(number, most)


@functools.cache
def at_first() -> int:
    """The number before anybody set one: the same all along in a process."""
    return default_count()


def default_count() -> int:
    """What the environment says, else `cores()`. Raises ValueError where JTORCH_NUM_THREADS is no such
    number.
    """
    chosen = int(config.get("NUM_THREADS"))
    if not 0 <= chosen <= _LARGEST:
        raise ValueError(f"JTORCH_NUM_THREADS={chosen}: a number of threads is 1 or more; 0 is one per core")
    return chosen or _foreign("OPENBLAS_NUM_THREADS") or _foreign("OMP_NUM_THREADS") or cores()


def _foreign(variable: str) -> int:
    """A variable of other libraries: 0 where it is not set, or holds what they would not understand either.

    OMP_NUM_THREADS may be a list, one number for each level of nesting: the first is meant.
    """
    text = os.environ.get(variable, "").partition(",")[0].strip()
    return int(text) if text.isdecimal() and len(text) < 10 else 0


# ---- the cores of this process


def cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its control groups, rounded up."""
    return max(1, min(_affinity(), quota() or _affinity()))


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = Path("/")) -> int | None:
    """The CPU time per time that control groups allow this process, rounded up; None without a limit.

    A group's limit holds for the groups in it, so that the least on the way up counts. `root` is where
    /proc and /sys are. Source: https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max) and
    https://docs.kernel.org/scheduler/sched-bwc.html (v1).
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    found: list[int] = []
    for line in lines:  # hierarchy:controllers:path
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for folder in _groups(root, controllers, path):
            limit = _limit_v1(folder) if controllers else _limit_v2(folder)
            found += [limit] if limit else []
    return min(found, default=None)


def _groups(root: Path, controllers: str, path: str) -> list[Path]:
    """The folders of a group and of all above it. Inside a container they are mounted at the top."""
    mounts = [controllers, "cpu"] if controllers else [""]
    parts = [part for part in path.split("/") if part]
    steps = [parts[:n] for n in range(len(parts) + 1)] if ".." not in parts else [[]]
    return [root.joinpath("sys/fs/cgroup", mount, *step) for mount in mounts for step in steps]


def _limit_v2(folder: Path) -> int | None:
    """Of a file like `150000 100000`: microseconds in a period of so many; `max` is no limit."""
    allowed, _, period = _text(folder / "cpu.max").partition(" ")
    return _rounded_up(allowed, period or "100000")


def _limit_v1(folder: Path) -> int | None:
    """-1 is no limit."""
    return _rounded_up(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _rounded_up(allowed: str, period: str) -> int | None:
    if not allowed.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return max(1, -(-int(allowed) // int(period)))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
