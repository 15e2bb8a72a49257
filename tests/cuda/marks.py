"""Marks of more than one file."""

import importlib.util

import pytest

compiles = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda, which compiles kernels, is not there",
)
