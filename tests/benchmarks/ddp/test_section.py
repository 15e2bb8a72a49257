"""``python -m benchmarks ddp``: its parts, its report, and its errors."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.agree import DisagreementError, Record
from benchmarks.cli import main
from benchmarks.ddp import measure, report, section
from benchmarks.ddp.job import Job
from benchmarks.ddp.worker import APART, AVERAGED
from benchmarks.models.rows import MODELS
from benchmarks.peers import PeerError

HERE = importlib.util.find_spec("mpi4py") is not None and (
    (Path(sys.executable).parent / "mpiexec").exists() or shutil.which("mpiexec") is not None
)
needs_mpi = pytest.mark.skipif(not HERE, reason="mpi4py or mpiexec is not installed")


@needs_mpi
@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    """All of it on this host, as a user gives it: in less than 20 seconds on two cores."""
    file, begin = tmp_path / "figures.json", time.monotonic()
    assert main(["ddp", "--quick", "--peers", "", "--json", str(file)]) == 0
    assert time.monotonic() - begin < 60  # three times that: other tests run beside it
    printed = capsys.readouterr().out
    assert "weak scaling" in printed and "EXTRAPOLATION" in printed and "PyTorch" in printed
    content = json.loads(file.read_text())
    assert content["machine"]["threads"] == 1 and "numpy" in content["machine"]["versions"]
    here = content["measured"][0]
    (row,) = here["rows"]
    assert row["bytes_per_step"] == 4 * (64 * 64 + 64 + 64 * 10 + 10) == sum(row["bucket_bytes"])
    assert set(row["costs"]) == {"jtorch eager", "jtorch compiled"} and not row["errors"]
    for cost in row["costs"].values():
        assert cost["weak_efficiency"] == cost["alone"]["median_s"] / cost["averaged"]["median_s"]
        pairs = zip(cost["averaged"]["samples_s"], cost["apart"]["samples_s"], strict=True)
        assert cost["exposed"]["samples_s"] == [a - b for a, b in pairs]
    assert len(here["fitted"]) == len(section.FITTED) and len(here["held_out"]) == len(section.HELD_OUT)
    assert len(content["measured"]) + len(content["skipped"]) == 1 + 1 + 1  # here, one link, PyTorch
    scales = content["EXTRAPOLATION"]["scales"]
    assert [s["ranks"] for s in scales[0]["ranks"]] == [8, 64, 512, 4096]


@pytest.mark.slow
@needs_mpi
def test_processes_that_do_not_average_differ_and_that_is_an_error():
    """The comparison of parameters sees what is not averaged: each process has batches of its own."""
    with section._on_this_host(2, False) as jobs:
        jobs["jtorch"].ask("prepare", "mlp-64", ["eager"])
        records = {how: jobs["jtorch"].ask("record", f"eager {how}", 3) for how in (AVERAGED, APART)}
        measure.check_equal(records[AVERAGED], "eager")
        with pytest.raises(DisagreementError, match="of rank 1 is not that of rank 0"):
            measure.check_equal(records[APART], "eager")


@pytest.mark.slow
@needs_mpi
def test_a_failure_in_a_process_ends_the_job_with_its_words():
    with section._on_this_host(2, False) as jobs:
        with pytest.raises(PeerError, match="KeyError: 'no such network'"):
            jobs["jtorch"].ask("prepare", "no such network", ["eager"])
        with pytest.raises(PeerError, match="has ended"):
            jobs["jtorch"].ask("record", "eager averaged", 1)


def test_processes_that_do_not_come_are_an_error_with_what_they_printed():
    job = Job("a program", [([sys.executable, "-c", "raise SystemExit('out of paper')"], {})], 1)
    with pytest.raises(PeerError, match="a program did not start: out of paper"), job:
        pass


def test_one_bit_is_a_difference():
    values = np.array([1.0, 0.0], np.float32)
    first = Record([], {}, {"w": values})
    measure.check_equal([first, replace(first, parameters={"w": values.copy()})], "x")
    with pytest.raises(DisagreementError, match="w of rank 1"):
        measure.check_equal([first, replace(first, parameters={"w": np.array([1.0, -0.0], np.float32)})], "x")


class Fake:
    """A job whose processes end with ``parameters``, one array for each rank."""

    count = 2

    def __init__(self, *parameters):
        self.parameters = parameters

    def ask(self, question, *arguments):
        if question == "prepare":
            return [{"buckets": [8], "buffers": []}] * self.count
        if question == "record":
            return [Record([np.float32(1)], {}, {"w": p}) for p in self.parameters]
        return [0.01 * (1 + rank) for rank in range(self.count)]  # of a run: the slowest rank counts


def test_a_row_whose_ranks_differ_is_an_error_without_figures():
    same, other = np.full(2, 2.0, np.float32), np.ones(2, np.float32)
    effort = replace(section.QUICK, rounds=2)
    jobs = {"jtorch": Fake(same, same), "torch": Fake(same, other)}
    row = measure.measure(MODELS["mlp-64"], {}, jobs, effort)
    assert set(row.costs) == {"jtorch eager", "jtorch compiled"}
    assert row.costs["jtorch eager"].averaged.median == pytest.approx(0.02)
    assert row.errors == {"PyTorch eager": "PyTorch eager: after 3 steps w of rank 1 is not that of rank 0"}
    lines = report.step_lines([row])
    assert [line[5] for line in lines] == ["", "", "ERROR"]
    assert section.Result([section.Setting("x", [row], None, [], [])]).has_errors


def test_without_mpi_it_is_skipped_with_a_reason(monkeypatch, capsys):
    monkeypatch.setattr(section.mpi, "is_installed", lambda: False)
    assert section.run([], False) == 0
    assert "ddp skipped: it needs mpi4py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ddp", "vgg"], "no network named vgg; there are mlp-64"),
        (["ddp", "--threads", "2"], "ddp gives each process one thread"),
    ],
)
def test_usage_errors_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


def test_a_rate_is_in_bits():
    assert report.rate(8e-9) == "1.0 Gbit/s" and report.rate(0.0) == "no limit"
