"""The table of ``python -m benchmarks soundness``. Its cases are tested by tests/compile/test_contract.py."""

import json
import re

import pytest

from benchmarks.cli import main
from benchmarks.soundness.one import programs, run
from benchmarks.soundness.section import breaks
from benchmarks.soundness.table import CASES, Verdict


@pytest.mark.slow
def test_some_cases_in_processes_of_their_own(tmp_path, capsys):
    file = tmp_path / "verdicts.json"
    assert main(["soundness", "16", "36", "43", "44", "--peers", "", "--json", str(file)]) == 0
    printed = capsys.readouterr()
    assert "no tensor op at all" in printed.out and "jtorch.compile" in printed.out
    assert re.search(r"36 .*, jtorch.compile: CompileError: ", printed.out)
    found = [(row["number"], row["jtorch"][0]) for row in json.loads(file.read_text())]
    right = "correct"
    assert found == [(16, right), (36, "loud error"), (43, right), (43, right), (44, right), (44, right)]


def test_numbers_that_are_no_case(capsys):
    with pytest.raises(SystemExit):
        main(["soundness", "45"])
    assert "numbers from 1 to 44" in capsys.readouterr().err


def test_a_case_in_this_process():
    assert run("jtorch", "16 no_op") == Verdict("correct")


def test_what_breaks_the_contract():
    strict = next(case for case in CASES if not case.may_refuse)
    lenient = next(case for case in CASES if case.may_refuse)
    for kind in ("SILENT", "no answer"):
        assert breaks(strict, Verdict(kind)) and breaks(lenient, Verdict(kind))
    for kind in ("loud error", "warned"):
        assert breaks(strict, Verdict(kind)) and not breaks(lenient, Verdict(kind))
    assert not breaks(strict, Verdict("correct"))


def test_what_jax_can_say_is_among_the_cases():
    assert set(programs("jax")) <= set(programs("torch")) == {case.name for case in CASES}
