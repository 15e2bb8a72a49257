import json

import pytest

from benchmarks.cli import main
from benchmarks.commands import EAGER_GROUPS
from benchmarks.eager import importing, section
from benchmarks.eager.measure import Line
from benchmarks.eager.report import cells
from benchmarks.timing import Effort, Timing


def test_the_command_line_names_every_group():
    assert section.GROUPS == EAGER_GROUPS


@pytest.mark.slow
def test_a_quick_run_prints_each_line_with_goal_and_verdict(tmp_path, capsys):
    file = tmp_path / "figures.json"
    arguments = ["eager", "ops", "chain", "import", "--quick", "--peers", "", "--json", str(file)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    for part in ("op-add", "op-mm", "op-mean", "chain", "0.25 s", "verdict"):
        assert part in printed.out
    content = json.loads(file.read_text())
    assert content["settings"] == {"section": "eager", "quick": True}
    lines = {line["name"]: line for line in content["lines"]}
    assert lines["chain"]["goal"] == 0.6 and lines["chain"]["ops_per_call"] == 110
    assert lines["import"]["goal_is_for"] == "seconds"
    assert lines["import"]["verdict"] in ("met", "within noise", "missed")
    assert len(lines["op-add"]["ours"]["samples_s"]) == 3


def test_markdown_is_one_table(capsys):
    assert main(["eager", "chain", "--quick", "--peers", "", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [9, 9, 9]
    assert lines[2].startswith("| chain | 110 multiplications")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eager", "mlp"], "no group of eager named mlp; there are ops, chain"),
        (["mlp", "eager"], "no workload named eager"),
    ],
)
def test_usage_errors_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_times_are_of_one_op():
    line = Line("a", "an op", 0.7, ops=100, ours=Timing((1e-4,), 7), theirs=Timing((2e-4,), 7))
    assert cells(line)[2:] == ["1.00 us (0.00 us)", "", "2.00 us (0.00 us)", "0.50", "0.7", "met"]


def test_an_import_that_fails_is_told(monkeypatch):
    monkeypatch.setattr(importing, "_PROGRAM", "import {module}_that_is_not_there")
    line = importing.measure(Effort(rounds=1, seconds=0.0), with_torch=False)
    assert "No module named 'jtorch_that_is_not_there'" in line.error
