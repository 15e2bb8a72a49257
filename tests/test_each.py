"""Loops of cases lose none of them, and say which fail."""

import pytest

PROGRAM = """
import pytest
from tests.each import each

seen = []

@each("n", range(40), parts=2)
@each("word, slow", [("a", 1), pytest.param("b", 2, id="second", marks=pytest.mark.slow)])
def test_pairs(n, word, slow, tmp_path):
    assert tmp_path.exists()
    seen.append((n, word, slow))

def test_all_were_seen():
    assert sorted(seen) == [(n, *rest) for n in range(40) for rest in (("a", 1), ("b", 2))]

@each("n", [3, 4, 5])
def test_failing(n):
    if n == 4:
        pytest.skip("four")
    assert n < 2, f"the number is {n}"

@each("n", [1, 2])
def test_skipped(n):
    pytest.skip("always")
"""

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester, monkeypatch):
    pytester.makepyfile(test_program=PROGRAM)
    pytester.makeconftest("from tests.conftest import pytest_addoption, pytest_collection_modifyitems")
    pytester.makeini("[pytest]\nmarkers =\n    slow\n    soak")
    return lambda *arguments: pytester.inline_run("-p", "no:xdist", "-p", "no:cacheprovider", *arguments)


def test_every_case_runs_and_every_failure_is_named(run):
    ended = run()
    passed, skipped, failed = ended.listoutcomes()
    assert [r.nodeid.partition("::")[2] for r in passed] == [
        "test_pairs[some]",
        "test_pairs[others 1 of 2]",
        "test_pairs[others 2 of 2]",
        "test_all_were_seen",
    ]
    assert len(skipped) == len(failed) == 1
    said = str(failed[0].longrepr)
    assert "2 of 3 cases fail" in said and "    3: AssertionError: the number is 3" in said
    assert "    5: AssertionError: the number is 5" in said and "def test_failing(n)" in said


def test_the_quick_part_has_some_of_them(run):
    ended = run("-m", "not slow", "-k", "pairs")
    (passed,) = ended.listoutcomes()[0]
    assert passed.nodeid.endswith("test_pairs[some]")


def test_cases_are_chosen_by_their_names(run):
    _, _, failed = (ended := run("--case", "5")).listoutcomes()
    assert "1 of 1 cases fail" in str(failed[0].longrepr)
    names = {r.nodeid.partition("::")[2] for r in ended.getreports("pytest_runtest_logreport")}
    assert names >= {"test_failing[some]"} and not names & {"test_skipped[some]", "test_all_were_seen"}


def test_two_cases_of_one_name_are_refused():
    from tests.each import each

    with pytest.raises(AssertionError, match="two cases have one name"):
        each("n", [1, 1] * 20)(lambda n: None)
