"""Fixtures that several tests of loaders use."""

from __future__ import annotations

import multiprocessing

import pytest


@pytest.fixture(scope="module")
def forked():
    """Workers by fork, not by default since Python 3.14: they start soon, and know local functions."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("fork", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)
