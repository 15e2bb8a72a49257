"""Sample inputs for every op: what ``tests/ops/entries/`` registers, one file a family of ops."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tests.ops.sampling import Sample, samples

__all__ = ["Sample", "samples"]

for _module in pkgutil.iter_modules([str(Path(__file__).parent / "entries")]):
    importlib.import_module(f"tests.ops.entries.{_module.name}")
