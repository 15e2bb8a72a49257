"""Rows are measured one after the other: an error is one line, and Ctrl-C keeps what there is."""

import json

import pytest

from benchmarks import tables
from benchmarks.costs import section


class Number:
    """The figures of a row."""

    def __init__(self, name):
        self.name = name

    def as_dict(self):
        return {"name": self.name}


def show(console, found):
    tables.show(console, "Numbers", ("row",), [[one.name] for one in found])


def fails(error):
    def measure():
        raise error

    return measure


def run(*rows, file=None, **options):
    return section.run("numbers", rows, show, None, False, file, **options)


def test_an_error_is_one_line_and_the_others_go_on(tmp_path, capsys):
    file = tmp_path / "figures.json"
    rows = (("a", fails(ValueError("no [a]"))), ("b", lambda: Number("b")))
    assert run(*rows, file=file) == 1
    printed = capsys.readouterr().out
    assert "ERROR a: ValueError: no [a]" in printed and "Numbers" in printed
    content = json.loads(file.read_text())
    assert content["rows"] == [{"name": "b"}, {"name": "a", "error": "ValueError: no [a]"}]
    assert content["settings"] == {"section": "numbers", "quick": False} and "cores" in content["machine"]


def test_ctrl_c_keeps_what_was_measured(tmp_path, capsys):
    file = tmp_path / "figures.json"
    rows = (("a", lambda: Number("a")), ("b", fails(KeyboardInterrupt())), ("c", lambda: Number("c")))
    assert run(*rows, file=file) == 130
    told = capsys.readouterr()
    assert "interrupted" in told.err and "Numbers" in told.out
    assert json.loads(file.read_text())["rows"] == [{"name": "a"}]


@pytest.mark.parametrize("failed", [True, False])
def test_figures_may_have_an_error_of_their_own(failed, capsys):
    assert run(("a", lambda: Number("a")), failed=lambda figures: failed) == failed
