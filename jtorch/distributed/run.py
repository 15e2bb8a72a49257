"""Start several processes of one script: ``python -m jtorch.distributed.run --nproc-per-node 2 train.py``

Calls ``mpiexec`` with torchrun's arguments, and sets its variables in each process: RANK, LOCAL_RANK,
WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and those of TORCHELASTIC. A script written for
PyTorch:
``python -m jtorch.distributed.run --nproc-per-node 2 -m jtorch.as_torch train.py``.

Source: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jtorch.core.command import run

GRACE = 5.0  # seconds that processes have after SIGTERM or SIGINT before they are killed


def parser() -> argparse.ArgumentParser:
    """torchrun's arguments, as far as they mean something here."""
    made = argparse.ArgumentParser("python -m jtorch.distributed.run", description=__doc__.split("\n\n")[0])
    add = made.add_argument
    add("--nproc-per-node", "--nproc_per_node", default="1", help="how many processes, or cpu: one per core")
    add("--nnodes", default="1", help="1, or 1:1; on several hosts call mpiexec --host itself")
    add("--node-rank", "--node_rank", type=int, default=0, help="0")
    add("--standalone", action="store_true", help="accepted: one host is all there is")
    add("--max-restarts", "--max_restarts", type=int, default=0, help="how often to start all again")
    add("--master-addr", "--master_addr", default="127.0.0.1", help="what MASTER_ADDR says")
    add("--master-port", "--master_port", default="29500", help="what MASTER_PORT says")
    add("--rdzv-id", "--rdzv_id", default="none", help="what TORCHELASTIC_RUN_ID says")
    for name in ("backend", "endpoint", "conf"):
        add(f"--rdzv-{name}", f"--rdzv_{name}", default="", help="accepted: MPI needs none")
    add("--mpiexec", default="", help="the mpiexec to call; the one beside this Python, or on the PATH")
    add("-m", "--module", action="store_true", help="script is a module, as of python -m")
    add("script", help="the script, followed by its arguments")
    add("arguments", nargs=argparse.REMAINDER)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script in all processes; the exit status of the first that failed, else 0."""
    asked = parser().parse_args(arguments)
    if asked.nnodes not in ("1", "1:1") or asked.node_rank:
        print(
            f"jtorch.distributed.run: --nnodes {asked.nnodes} --node-rank {asked.node_rank}: it starts the "
            "processes of one host. On several, call mpiexec --host a,b -n N python script.py",
            file=sys.stderr,
        )
        return 2
    count = _count(asked.nproc_per_node)
    if not asked.module and not Path(asked.script).is_file():  # or each process would say so
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), asked.script)
    command = [*mpiexec(asked.mpiexec, count), sys.executable, "-u", "-m", "jtorch.distributed.worker"]
    command += ["-m"] * asked.module + [asked.script, *asked.arguments]
    for restart in range(asked.max_restarts + 1):
        status, stopped = _run(command, _environment(asked, count, restart))
        if status == 0 or stopped:
            return 128 + stopped if stopped else 0
        left = asked.max_restarts - restart
        print(
            f"jtorch.distributed.run: the processes ended with status {status}; "
            + (f"starting them again, {left} more time{'s' * (left > 1)} at most" if left else "giving up"),
            file=sys.stderr,
        )
    return status if status > 0 else 128 - status


def _run(command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Run ``command`` to its end: its exit status, and the signal that ended this launcher's wait, or 0.

    The signal goes on to all of the command's processes, and what is left of them later is killed.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        started = subprocess.Popen(command, env=environment, start_new_session=True)
        while not came and not _ended(started, 0.1):
            pass
        if came and not _ended(started, 0):
            _end(started, came[0])
        return started.wait(), came[0] if came else 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(started: subprocess.Popen, seconds: float) -> bool:
    """Whether it ends within ``seconds``."""
    try:
        started.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(started: subprocess.Popen, number: int) -> None:
    """Send the signal to all processes of the group, and kill what has not ended then."""
    for one in (number, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(started.pid, one)
        if _ended(started, GRACE):
            return


def _count(text: str) -> int:
    if text in ("auto", "cpu"):
        return _cores()
    if not text.isdigit() or int(text) < 1:
        raise SystemExit(f"jtorch.distributed.run: --nproc-per-node {text!r}: a number, or cpu")
    return int(text)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def mpiexec(chosen: str, count: int) -> list[str]:
    """The command that starts ``count`` processes, with what Open MPI asks for in containers."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = chosen or (str(beside) if beside.exists() else shutil.which("mpiexec"))
    if not found:
        raise SystemExit(
            "jtorch.distributed.run: no mpiexec, neither beside this Python nor on the PATH: "
            "python -m pip install 'jtorch-compile[mpi]'"
        )
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    command = [found, "-n", str(count)]
    if "Open MPI" in version or "PRTE" in version.upper():
        command += ["--allow-run-as-root"] * (hasattr(os, "geteuid") and os.geteuid() == 0)
        command += ["--oversubscribe"] * (count > _cores())
    return command


def _environment(asked: argparse.Namespace, count: int, restart: int) -> dict[str, str]:
    """What all processes get; their ranks are known to ``worker.py`` alone."""
    added = {
        "MASTER_ADDR": asked.master_addr, "MASTER_PORT": str(asked.master_port),
        "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": asked.rdzv_id, "TORCHELASTIC_RESTART_COUNT": str(restart),
        "TORCHELASTIC_MAX_RESTARTS": str(asked.max_restarts),
    }  # fmt: skip
    threads = {"OMP_NUM_THREADS": str(max(_cores() // count, 1))}
    return {**threads, **os.environ, **added}


if __name__ == "__main__":
    sys.exit(run(main, "python -m jtorch.distributed.run"))
