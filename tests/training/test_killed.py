"""Runs whose process is killed, by SIGKILL at random moments, end with the bits of one that never was."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.distributed.conftest import missing
from tests.machine_code import needs_kernels
from tests.training import tasks
from tests.training.tasks import Run, assert_same

TOGETHER = 2  # processes
MODES = [pytest.param(False, id="eager"), pytest.param(True, id="compiled", marks=needs_kernels)]


together = pytest.mark.skipif(bool(missing()), reason=missing() or "MPI is there")


def start(run):
    """A process that makes all objects anew and goes on from the newest checkpoint."""
    command = [sys.executable]
    if run.distributed:
        command += ["-m", "jtorch.distributed.run", "--nproc-per-node", str(TOGETHER)]
        for file in Path(run.folder).glob("process-*"):
            file.unlink()
    command += [tasks.__file__, json.dumps(asdict(run))]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def kill(process, run, moments):
    """Where there are several, one of them: what started them then ends the others."""
    victim = process.pid
    if run.distributed:
        rank = moments.randrange(TOGETHER)
        file, begun = Path(run.folder) / f"process-{rank}", time.monotonic()
        while not (file.exists() and file.read_text()):
            if process.poll() is not None:
                return
            assert time.monotonic() - begun < 60, "no process within a minute"
            time.sleep(0.002)
        victim = int(file.read_text())
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(victim, signal.SIGKILL)


def wait_for_progress(process, folder):
    """Until it has logged a line more: then it has a step behind it, and writes checkpoints."""
    log = Path(folder) / "metrics.jsonl"
    before, begun = log.stat().st_mtime_ns if log.exists() else 0, time.monotonic()
    while process.poll() is None and (not log.exists() or log.stat().st_mtime_ns == before):
        assert time.monotonic() - begun < 60, "no step within a minute"
        time.sleep(0.002)


def killed(run, times, seed):
    """How often it was killed before it came to its end; most of the moments are among its steps."""
    moments, kills = random.Random(seed), 0
    while kills < times:
        process = start(run)
        if moments.random() < 0.9:
            wait_for_progress(process, run.folder)
        time.sleep(moments.uniform(0, 0.3))
        kill(process, run, moments)
        told = process.communicate(timeout=60)[1]
        if process.returncode == 0:
            break
        if run.distributed:
            assert process.returncode == 128 + signal.SIGKILL or "signal 9" in told, told
        else:
            assert process.returncode == -signal.SIGKILL, told
        kills += 1
    return kills


def finish(run):
    process = start(run)
    told = process.communicate(timeout=170)[1]
    assert process.returncode == 0, told


def survives(tmp_path, times, seed, **options):
    options = {"accumulate": 4, "every": 3, "patience": 10**6, **options}
    whole = Run(str(tmp_path / "whole"), **options)
    run = Run(str(tmp_path / "killed"), pause=0.001, **options)
    assert killed(run, times, seed) == times
    finish(run)
    finish(whole)
    assert_same(whole.folder, run.folder)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("compile", MODES)
def test_a_few_kills(compile, tmp_path):
    survives(tmp_path, 4, seed=1, compile=compile, epochs=60)


@pytest.mark.slow
def test_a_few_kills_with_workers(tmp_path):
    survives(tmp_path, 4, seed=2, workers=2, epochs=60)


@pytest.mark.soak
@pytest.mark.parametrize("compile", MODES)
def test_fifty_kills(compile, tmp_path):
    survives(tmp_path, 50, seed=3, compile=compile, epochs=400, mixed=True)


@together
@pytest.mark.slow
@pytest.mark.parametrize("compile", MODES)
def test_a_few_kills_of_one_of_two_processes(compile, tmp_path):
    survives(tmp_path, 2, seed=4, compile=compile, epochs=30, distributed=True)


@pytest.mark.soak
@together
@pytest.mark.parametrize("compile", MODES)
def test_fifty_kills_of_one_of_two_processes(compile, tmp_path):
    survives(tmp_path, 50, seed=5, compile=compile, epochs=400, distributed=True)
