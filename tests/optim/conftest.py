from __future__ import annotations

import pytest


@pytest.fixture
def torch():
    """PyTorch, the oracle of the tests that ask for it."""
    return pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
