"""The row beside busy processes: its figures are of calls that were made, and no process is left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import busy
from benchmarks.busy import Line, busy_processes
from benchmarks.cli import main

TINY = busy.Effort(rounds=2, seconds=0.01)


def test_the_processes_work_and_end():
    with busy_processes(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode is not None for process in processes)


def test_an_error_leaves_none():
    seen = []
    with pytest.raises(ZeroDivisionError), busy_processes(2) as processes:
        seen += processes
        raise ZeroDivisionError
    assert len(seen) == 2 and all(process.returncode is not None for process in seen)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_none_outlives_a_parent_that_was_killed():
    program = """
import os, signal
from benchmarks.busy import busy_processes
with busy_processes(2) as processes:
    print(*(process.pid for process in processes), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == -9, done.stderr
    pids, end = [int(pid) for pid in done.stdout.split()], time.monotonic() + 30
    assert len(pids) == 2

    def is_running(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_running, pids))


def test_means_are_of_all_calls():
    line = Line("x", 4.0, alone=[(2, 1.0), (6, 3.0)], busy=[(1, 1.0), (1, 3.0)])
    assert (line.mean(line.alone), line.mean(line.busy), line.slower) == (0.5, 2.0, 4.0)
    assert line.verdict == "met" and line.cells()[3:] == ["4.0", "4", "met"]
    line.busy.append((1, 3.0))
    assert line.verdict == "missed"


@pytest.mark.slow
def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(busy, "QUICK", TINY)
    file = tmp_path / "figures.json"
    assert main(["busy", "--quick", "--peers", "", "--json", str(file)]) == 0
    content = json.loads(file.read_text())
    assert content["machine"]["threads"] is None
    names = ["jtorch eager", "jtorch compiled", "a loop in Python"]
    assert [line["name"] for line in content["lines"]] == names
    for line in content["lines"]:
        assert len(line["alone_calls_and_s"]) == len(line["busy_calls_and_s"]) == TINY.rounds
        assert all(calls >= 1 and seconds > 0 for calls, seconds in line["busy_calls_and_s"])
        assert line["times_slower"] == pytest.approx(line["busy_mean_s"] / line["alone_mean_s"])
    printed = capsys.readouterr().out
    assert "default threads for everyone" in printed and "busy processes" in printed


@pytest.mark.slow
def test_markdown(capsys, monkeypatch):
    monkeypatch.setattr(busy, "QUICK", busy.Effort(rounds=1, seconds=0.01))
    assert main(["busy", "--quick", "--peers", "", "--markdown", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [7] * 5


@pytest.mark.slow
def test_a_mode_that_computes_something_else_has_no_figures(capsys, monkeypatch):
    monkeypatch.setattr(busy, "QUICK", TINY)
    wrong = lambda step: lambda *arguments: step(*arguments) + 1  # noqa: E731
    assert main(["busy", "--quick", "--peers", "", "--markdown"], compiler=wrong) == 1
    printed = capsys.readouterr()
    assert "| jtorch compiled |  |  |  |  | ERROR |" in printed.out
    assert "the result of step 0" in printed.err


def test_there_is_nothing_to_choose(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["busy", "mlp"])
    assert stopped.value.code == 2 and "unrecognized arguments: mlp" in capsys.readouterr().err
