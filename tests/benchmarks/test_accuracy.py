"""The accuracy table: its lines, its verdicts, its command."""

import json
import math

import numpy as np
import pytest

from benchmarks.accuracy import section
from benchmarks.accuracy.cases import CASES
from benchmarks.accuracy.section import Line, error, measure
from benchmarks.cli import main


def test_the_command(tmp_path, capsys):
    file = tmp_path / "errors.json"
    assert main(["accuracy", "sum", "dot", "--quick", "--peers", "", "--json", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in printed[2:]] == [
        ["sum", "float32"], ["sum", "float16"], ["sum", "bfloat16"], ["dot", "float32"],
    ]  # fmt: skip
    lines = json.loads(file.read_text())["lines"]
    assert [line["compiled"] is None for line in lines] == [False, False, True, False]
    assert all(line["eager"] <= 1.0 and line["torch"] is None for line in lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_runs_in_every_mode(case):
    for dtype in case.dtypes:
        line = measure(case, 4000, dtype, with_torch=False)
        most = 200.0 if case.name == "batch-norm-far-from-0" else 8.0  # PyTorch: 90 and more
        assert line.eager < most  # of so few elements a partial is the whole sum
        assert (line.compiled is None) == (dtype == "bfloat16")
        assert line.compiled is None or line.compiled < most


def test_an_error_beyond_the_bound_makes_the_exit_status_1(monkeypatch, capsys):
    far = Line("sum", "float32", 10**6, 0.5, 9.0, 1.0, 4.0)
    monkeypatch.setattr(section, "measure", lambda *_: far)
    assert section.run([section.BY_NAME["sum"]], quick=True, with_torch=True) == 1
    assert "beyond 4 times" in capsys.readouterr().out


def test_what_is_beyond():
    def line(own, torch, n=10**6):
        return Line("sum", "float32", n, own, None, torch, 4.0)

    assert line(4.1, 1.0).beyond and not line(3.9, 1.0).beyond
    assert not line(0.9, 0.0).beyond and line(1.1, 0.0).beyond  # one unit in the last place is no fault
    assert not line(9.0, None).beyond and not line(9.0, 1.0, n=10**5).beyond


def test_units():
    one = np.array([1.0])
    assert error(one + 2.0**-23, one, "float32") == 1.0
    assert error(one + 2.0**-10, one, "float16") == 1.0 and error(one + 2.0**-7, one, "bfloat16") == 1.0
    assert error(np.array([math.nan]), one, "float32") == math.inf


def test_a_name_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["accuracy", "product"])
    assert "no case named product; there are sum, mean" in capsys.readouterr().err
