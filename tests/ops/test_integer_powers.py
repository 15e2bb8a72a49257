"""Negative powers of integers have no integer result: PyTorch's sentence, eager and compiled."""

from __future__ import annotations

import pytest

import jtorch

TEXT = "Integers to negative integer powers are not allowed."
WAYS = {
    "operator": lambda m, x: x**-1, "function": lambda m, x: m.pow(x, -2), "method": lambda m, x: x.pow(-1),
    "in place": lambda m, x: x.pow_(-1),
}  # fmt: skip


@pytest.mark.parametrize("values", [[1, 2], [], 3], ids=["vector", "empty", "0-d"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_refused(name, way, values):
    with pytest.raises(RuntimeError, match=TEXT):
        WAYS[way](jtorch, jtorch.tensor(values, dtype=getattr(jtorch, name)))


@pytest.mark.parametrize("values", [[1, 2], []])
@pytest.mark.parametrize("name", ["uint8", "int32", "int64"])
def test_refused_in_compiled_code(name, values):
    step = jtorch.compile(lambda x: x**-1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=TEXT):
            step(jtorch.tensor(values, dtype=getattr(jtorch, name)))


@pytest.mark.parametrize("name", ["uint8", "int64"])
def test_as_torch(name):
    torch = pytest.importorskip("torch")
    for way in WAYS.values():
        with pytest.raises(RuntimeError, match=TEXT):
            way(torch, torch.tensor([1, 2], dtype=getattr(torch, name)))
    for library in (torch, jtorch):  # a float as the power makes floats
        x = library.tensor([1, 2], dtype=getattr(library, name))
        assert (x**-1.0).tolist() == [1.0, 0.5] and (x**2).tolist() == [1, 4]
