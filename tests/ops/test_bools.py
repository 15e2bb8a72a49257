"""Bools and bytes where PyTorch has rules of its own: powers, differences, any, all and sums."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch

CASES = {
    "power by True": lambda T, b, u: b**True,
    "power by False": lambda T, b, u: b**False,
    "power of two": lambda T, b, u: b**b,
    "power by an int": lambda T, b, u: b**2,
    "1 - mask": lambda T, b, u: 1 - b,
    "mask - 1": lambda T, b, u: b - 1,
    "mask - mask": lambda T, b, u: b - b,
    "bytes - mask": lambda T, b, u: u - b,
    "floats - mask": lambda T, b, u: T.ones(3) - b,
    "quotient cut to an integer": lambda T, b, u: T.div(b, True, rounding_mode="trunc"),
    "quotient rounded down": lambda T, b, u: T.div(b, b, rounding_mode="floor"),
    "any": lambda T, b, u: u.any(),
    "all of a dim": lambda T, b, u: T.all(u, dim=0, keepdim=True),
    "any of bools": lambda T, b, u: b.any(0),
    "sum": lambda T, b, u: u.sum(),
    "sum in bytes": lambda T, b, u: u.sum(dtype=T.uint8),
    "sum in int16": lambda T, b, u: T.sum(u, 0, dtype=T.int16),
    "lerp of bytes": lambda T, b, u: T.lerp(u, u, 0.5),
    "lerp of bytes by bytes": lambda T, b, u: T.lerp(u, u, u),
    "product in int32": lambda T, b, u: u.prod(dtype=T.int32),
    "added at places": lambda T, b, u: b.index_add(0, T.tensor([0, 0]), b[:2], alpha=2),
    "added at places in place": lambda T, b, u: b.index_add_(0, T.tensor([0, 1]), b[:2].clone(), alpha=0.5),
    "not added at places": lambda T, b, u: b.index_add(0, T.tensor([1, 1]), b[:2], alpha=0),
    "bytes added at places": lambda T, b, u: u.index_add(0, T.tensor([0, 0]), u[:2], alpha=2.5),
    "bytes added with what is no byte": lambda T, b, u: u.index_add(0, T.tensor([0, 0]), u[:2], alpha=300),
    "True added": lambda T, b, u: T.add(b, True, alpha=2),
    "False added": lambda T, b, u: T.add(b, False, alpha=True),
    "True added in place": lambda T, b, u: b.add_(True, alpha=True),
    "assigned list": lambda T, b, u: u.__setitem__(0, [1]),
    "assigned array": lambda T, b, u: u.__setitem__(0, np.array([1])),
}


def told(function, library):
    b, u = library.tensor([True, False, True]), library.tensor([1, 200, 100], dtype=library.uint8)
    try:
        found = function(library, b, u)
    except Exception as error:
        return type(error), str(error)
    return str(found.dtype).split(".")[-1], found.tolist()


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_pytorch(name):
    torch = pytest.importorskip("torch")
    assert told(CASES[name], jtorch) == told(CASES[name], torch)


@pytest.mark.parametrize("name", [name for name in CASES if "added" in name or "quotient" in name])
def test_the_answer_of_compiled_code(name):
    want = told(CASES[name], jtorch)
    got = told(lambda T, b, u: jtorch.compile(lambda b, u: CASES[name](T, b, u))(b, u), jtorch)
    assert got == want


def test_cross_entropy_of_what_is_no_probability():
    binary_cross_entropy = jtorch.nn.functional.binary_cross_entropy
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(RuntimeError, match=r"^all elements of input should be between 0 and 1$"):
            binary_cross_entropy(jtorch.tensor([0.5, wrong]), jtorch.ones(2))
