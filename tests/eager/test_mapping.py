"""``map_`` and ``map2_``: Python's functions called for each element."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

CALLS = {
    "map_": lambda L: L.arange(6.0).reshape(2, 3).map_(L.ones(3), lambda a, b: 2 * a + b),
    "of a view": lambda L: L.arange(6.0).reshape(2, 3).t().map_(L.ones(2), lambda a, b: a - b),
    "ints": lambda L: L.arange(3).int().map_(L.ones(1).int(), lambda a, b: a + b + 0.7),
    "map2_": lambda L: L.arange(3.0).map2_(L.ones(3), L.tensor(2.0), lambda a, b, c: a + b * c),
    "no elements": lambda L: L.ones(0).map_(L.ones(0), lambda a, b: 1 / 0),
}


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    ours, theirs = CALLS[name](jtorch), CALLS[name](torch)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), strict=True)


def test_writes_into_the_tensor_itself():
    x = jtorch.zeros(4)
    part = x[1:3]
    assert part.map_(jtorch.ones(2), lambda a, b: a + b) is part
    assert x.tolist() == [0, 1, 1, 0]


BAD = {
    "dtype": lambda L: L.ones(3).map_(L.ones(3).double(), lambda a, b: a),
    "grad": lambda L: L.ones(3, requires_grad=True).map_(L.ones(3), lambda a, b: a),
    "grad of the other": lambda L: L.ones(3).map_(L.ones(3, requires_grad=True), lambda a, b: a),
    "shape": lambda L: L.ones(1).map_(L.ones(3), lambda a, b: a),
    "number": lambda L: L.ones(3).map_(2, lambda a, b: a),
    "shape of the second": lambda L: L.ones(3).map2_(L.ones(3), L.ones(2), lambda a, b, c: a),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        BAD[name](torch)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)


def test_a_compiled_function_has_no_elements_to_call_it_for():
    with pytest.raises(CompileError, match=r"map_\(\)"):
        jtorch.compile(lambda x: x.clone().map_(x, lambda a, b: a), fullgraph=True)(jtorch.ones(2))
