"""Generators that are left early: what their ``finally`` does while they are closed."""

from __future__ import annotations

import sys
import types

import pytest

import jtorch
from jtorch.core.errors import CompileError


def first_of(rows):
    for row in rows:
        return row
    return None


def test_nothing_is_printed_of_what_a_recording_finds_out_there(capfd):
    s = types.SimpleNamespace(n=0)

    def rows(x):
        try:
            yield x
            yield x * 2
        finally:
            s.n += 1

    @jtorch.compile
    def first(x):
        return first_of(rows(x)) * s.n

    assert [first(jtorch.ones(2)).tolist()[0] for _ in range(4)] == [1, 2, 3, 4] and s.n == 4
    assert len(first.retraces) == 0
    assert capfd.readouterr() == ("", "")


def test_a_refusal_there_is_raised_and_not_printed(capfd):
    def rows(x):
        try:
            yield x
        finally:
            round(x.sum().item())

    @jtorch.compile
    def first(x):
        return first_of(rows(x)) * 2

    with pytest.raises(CompileError, match=r"test_unraisable.py:\d+"):
        first(jtorch.ones(2))
    assert capfd.readouterr() == ("", "")


def test_what_the_program_raises_there_is_printed_as_ever():
    told, before = [], sys.unraisablehook
    sys.unraisablehook = told.append
    try:

        def rows(x):
            try:
                yield x
            finally:
                raise KeyError("mine")

        @jtorch.compile
        def first(x):
            return first_of(rows(x)) * 2

        assert first(jtorch.ones(2)).tolist() == [2, 2]
    finally:
        sys.unraisablehook = before
    assert [type(what.exc_value) for what in told] == [KeyError]
