"""The programs of other tests under ``dynamic=True``: what they are about must hold with symbols, too."""

from __future__ import annotations

import functools
import warnings

import pytest

import jtorch
from benchmarks.soundness import cases  # noqa: F401 - declares the cases
from benchmarks.soundness.table import CASES, judge
from tests.compile import test_aliasing, test_between_calls, test_silent_programs
from tests.compile.record import (
    test_detached,
    test_flags_set,
    test_gradients_over_memory,
)

ANY_SIZE = functools.partial(jtorch.compile, dynamic=True)


@pytest.fixture(autouse=True)
def _seeded():
    jtorch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_contract(case):
    verdict = judge(case.program, jtorch, ANY_SIZE)
    assert verdict.kind == "correct" or (case.may_refuse and verdict.kind != "SILENT"), verdict


@pytest.mark.parametrize("name", test_silent_programs.PROGRAMS)
def test_programs_that_went_wrong(name):
    make, plainly = test_silent_programs.PROGRAMS[name], test_silent_programs.plainly
    assert repr(plainly(make(ANY_SIZE))) == repr(plainly(make(lambda f: f)))


@pytest.mark.parametrize("name", test_between_calls.PROGRAMS)
def test_what_changes_between_calls(name):
    make, plainly = test_between_calls.PROGRAMS[name], test_between_calls.plainly
    expected = plainly(make(lambda f: f))
    jtorch.manual_seed(0)
    assert repr(plainly(make(ANY_SIZE))) == repr(expected)


@pytest.mark.parametrize("name", test_aliasing.PROGRAMS)
def test_memory_that_is_shared(name):
    make = test_aliasing.PROGRAMS[name]
    test_aliasing.assert_equal(make(ANY_SIZE), make(lambda f: f))


@pytest.mark.parametrize("tests", [test_detached, test_flags_set], ids=lambda tests: tests.__name__)
def test_flags_and_graphs(tests):
    def rounded(value):
        if isinstance(value, (list, tuple)):
            return [*map(rounded, value)]
        return round(value, 4) if isinstance(value, float) else value

    for name, make in tests.PROGRAMS.items():
        for found, expected in zip(make(ANY_SIZE), make(lambda f: f), strict=True):
            assert rounded(found) == rounded(expected), name


@pytest.mark.parametrize("view", test_gradients_over_memory.VIEWS)
def test_gradients_over_memory_of_others(view):
    chosen = test_gradients_over_memory.VIEWS[view]
    for name, make in test_gradients_over_memory.PROGRAMS.items():
        for found, expected in zip(make(ANY_SIZE, chosen), make(lambda f: f, chosen), strict=True):
            assert found == expected, name
