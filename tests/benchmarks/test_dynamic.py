"""The benchmark of moving sizes."""

from __future__ import annotations

import jtorch
from benchmarks import dynamic
from benchmarks.cli import main


def test_a_quick_run_prints_a_row_for_each_workload(capsys):
    assert main(["dynamic", "--quick", "--peers", "", "batches", "serving"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["eager", "us"]
    assert [row.split()[0] for row in rows] == ["batches", "serving,"]


def test_what_computes_something_else_is_an_error(monkeypatch, capsys):
    def wrong(function, dynamic):
        return lambda *batch: function(*batch) + 1

    monkeypatch.setattr(jtorch, "compile", wrong)
    assert dynamic.report(["batches"], dynamic.QUICK_SIZES) == 1
    assert "off by" in capsys.readouterr().out
