"""Machine code of eager ops only where objects are laid out, and counted, as it takes them to be."""

from __future__ import annotations

import logging
import sys

import pytest

from jtorch.eager.machine import layout
from jtorch.eager.tensor import Tensor
from tests.machine_code import needs_machine_code


def _lines(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "jtorch.shortcuts"]


@needs_machine_code
def test_the_known_version_has_places(caplog):
    with caplog.at_level(logging.INFO, "jtorch"):
        places = layout.places()
    assert places is not None
    assert set(places.tensor) == {name for name in Tensor.__slots__ if not name.startswith("__")}
    assert _lines(caplog) == []


@pytest.mark.parametrize("version", [(3, 10), (3, 12), (3, 13), (3, 14), (3, 15), (3, 16), (4, 0)])
def test_another_version_takes_pythons_way_and_says_so_once(monkeypatch, caplog, version):
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    with caplog.at_level(logging.INFO, "jtorch"):
        assert layout.places() is None
    (line,) = _lines(caplog)
    assert "Python's way" in line
    assert f"{version[0]}.{version[1]}" in line


@needs_machine_code
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ARRAY_DIMS", layout.ARRAY_DIMS + 8, "laid out otherwise"),
        ("ARRAY_BASE", layout.ARRAY_BASE + 8, "laid out otherwise"),
        ("_slots", lambda cls: {}, "Tensor, Node, Context lie elsewhere"),
    ],
)
def test_a_probe_that_fails_takes_pythons_way(monkeypatch, caplog, name, value, said):
    monkeypatch.setattr(layout, name, value)
    with caplog.at_level(logging.INFO, "jtorch"):
        assert layout.places() is None
    (line,) = _lines(caplog)
    assert said in line


@needs_machine_code
def test_threads_side_by_side_take_pythons_way(monkeypatch, caplog):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with caplog.at_level(logging.INFO, "jtorch"):
        assert layout.places() is None
    assert "side by side" in _lines(caplog)[0]
