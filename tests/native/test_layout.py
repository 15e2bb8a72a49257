"""Machine code reads the structs of objects only where these are laid out as it takes them to be."""

from __future__ import annotations

import logging
import sys

import pytest

from jtorch.core.op import BY_NAME
from jtorch.eager import machine
from jtorch.eager.tensor import Tensor
from jtorch.native import layout
from tests.machine_code import needs_machine_code


@pytest.fixture
def asked(monkeypatch, caplog):
    """Whether there is machine code of ``add``, and the lines of the log, where nothing is known yet."""

    def ask():
        machine._built.cache_clear()
        with caplog.at_level(logging.INFO, "jtorch"):
            found = machine.shortcut(BY_NAME["add"]) is not None
        return found, [r.getMessage() for r in caplog.records if r.name == "jtorch.shortcuts"]

    yield ask
    monkeypatch.undo()
    machine._built.cache_clear()


@needs_machine_code
def test_objects_are_laid_out_as_expected(asked):
    assert layout.unusual() == ""
    assert set(layout.slots(Tensor)) == {name for name in Tensor.__slots__ if not name.startswith("__")}
    assert asked() == (True, [])


@needs_machine_code
@pytest.mark.parametrize("name", ["ARRAY_DIMS", "ARRAY_BASE", "ARRAY_DTYPE", "TUPLE_ITEMS"])
def test_a_struct_that_is_laid_out_otherwise(monkeypatch, asked, name):
    monkeypatch.setattr(layout, name, getattr(layout, name) + 8)
    found, (line,) = asked()
    assert not found and "Python's way" in line and "laid out otherwise" in line


def test_code_that_was_written_for_another_layout_is_not_taken(monkeypatch):
    """Versions of Python share the folder, and 3.14 keeps the items of a tuple elsewhere than 3.13."""
    before = layout.facts()
    monkeypatch.setattr(layout, "TUPLE_ITEMS", layout.TUPLE_ITEMS + 8)
    assert layout.facts() != before
    assert sys.implementation.cache_tag in before


@needs_machine_code
def test_slots_that_lie_elsewhere(monkeypatch, asked):
    monkeypatch.setattr(layout, "slots", lambda cls: {})
    found, (line,) = asked()
    assert not found and "Python's way" in line and "slots lie elsewhere" in line


@needs_machine_code
def test_threads_side_by_side_take_pythons_way(monkeypatch, asked):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    found, (line,) = asked()
    assert not found and "side by side" in line


def test_slots_are_tried():
    class Moved:
        __slots__ = ("a", "b")

    assert sorted(layout.slots(Moved)) == ["a", "b"]

    class Shadowed:
        __slots__ = ("x",)

        def __setattr__(self, name, value):
            pass

    assert layout.slots(Shadowed) == {}
