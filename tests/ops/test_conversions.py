"""Floats as integers: cut towards zero, one rule for what does not fit, whatever the tensor's size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.native import exact

EDGES = [0.0, 1.9, 127.5, 128.0, 255.9, 256.0, 300.0, 32767.5, 32768.0, 65504.0, 65536.0, 1e6, 2.0**31,
         2.0**31 - 128, 2.0**31 + 256, 4e9, 2.0**32, 1e12, 9.2e18, 9.3e18, 1.8e19, 1.9e19,
         1e20, 1e30, math.inf, math.nan, 0.5, 2.0**31 - 0.5, 2.0**31 + 0.5, 4e38]  # fmt: skip
VALUES = np.array([*EDGES, *(-v for v in EDGES)])
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
FLOATS = ["float32", "float64", "float16"]
SIZES = (1, 3, 4, 7, 8, 15, 16, 33, 62, 70)


def rows(source):
    """Every value alone, repeated and among others: vectors of a kernel and what is left of them."""
    with np.errstate(over="ignore"):
        values = VALUES.astype(source)
    for size in SIZES:
        yield np.resize(values, size)
        yield np.resize(np.roll(values, 13), size)
        yield np.resize(values[::-1].copy(), size)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_compiled_cuts_as_eager(source, target):
    dtype = getattr(jtorch, target)
    compiled = jtorch.compile(lambda x: (x.to(dtype), (x * 2).to(dtype)))
    each = {}
    for row in rows(source):
        x = jtorch.from_numpy(row)
        found, doubled = compiled(x)
        assert found.tolist() == x.to(dtype).tolist()
        assert doubled.tolist() == (x * 2).to(dtype).tolist()
        for value, cut in zip(row.tolist(), found.tolist(), strict=True):
            assert each.setdefault(repr(value), cut) == cut


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("target", [t for t in INTEGERS if t != "uint32"])  # its vectors and tails differ
@pytest.mark.parametrize("source", FLOATS)
def test_eager_cuts_as_pytorch(source, target):
    torch = pytest.importorskip("torch")
    for row in rows(source):
        expected = torch.from_numpy(row).to(getattr(torch, target)).tolist()
        assert jtorch.from_numpy(row).to(getattr(jtorch, target)).tolist() == expected


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_the_twins_cut_as_numpy(source):
    kind = {"float32": "f32", "float64": "f64"}[source]
    for row in rows(source):
        for wide in ("i32", "i64", "u64"):
            cut = exact.FUNCTIONS[f"cut_{wide}_{kind}"]
            target = {"i32": np.int32, "i64": np.int64, "u64": np.uint64}[wide]
            with np.errstate(invalid="ignore"):
                assert [int(cut(v)) for v in row] == row.astype(target).tolist()
