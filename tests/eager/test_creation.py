"""Factories: shapes, dtypes, values, memory, and random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.ops.support import needs_torch

CALLS = {
    "tensor floats": lambda L: L.tensor([1.0, 2.0]),
    "tensor ints": lambda L: L.tensor([[1, 2], [3, 4]]),
    "tensor mixed": lambda L: L.tensor([1, 2.5]),
    "tensor bools": lambda L: L.tensor([True, False]),
    "tensor empty": lambda L: L.tensor([]),
    "tensor scalar": lambda L: L.tensor(3),
    "tensor of dtype": lambda L: L.tensor([1, 2], dtype=L.float64),
    "tensor of double array": lambda L: L.tensor(np.ones(2)),
    "tensor of tensors": lambda L: L.tensor([L.tensor(1.0), L.tensor(2.0)]),
    "zeros": lambda L: L.zeros(2, 3),
    "ones": lambda L: L.ones((2, 3), dtype=L.int64),
    "full": lambda L: L.full((2,), 7),
    "full float": lambda L: L.full((2, 1), 0.5),
    "full bool": lambda L: L.full((2,), True),
    "zeros_like": lambda L: L.zeros_like(L.ones(2, dtype=L.int32)),
    "ones_like": lambda L: L.ones_like(L.zeros(2, 2), dtype=L.float64),
    "full_like": lambda L: L.full_like(L.zeros(2), 3),
    "arange": lambda L: L.arange(5),
    "arange float": lambda L: L.arange(0.5, 3, 0.5),
    "arange down": lambda L: L.arange(5, 0, -2),
    "arange of dtype": lambda L: L.arange(3, dtype=L.float32),
    "linspace": lambda L: L.linspace(0, 1, 5),
    "eye": lambda L: L.eye(3),
    "eye wide": lambda L: L.eye(2, 3, dtype=L.int64),
    "as_tensor": lambda L: L.as_tensor([1.5]),
    "from_numpy": lambda L: L.from_numpy(np.arange(3)),
    "scalar": lambda L: L.zeros(()),
    "nothing": lambda L: L.ones(0, 2),
}


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    import torch

    ours, theirs = CALLS[name](jtorch), CALLS[name](torch)
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_default_dtype():
    jtorch.set_default_dtype(jtorch.float64)
    try:
        assert jtorch.tensor([1.0]).dtype is jtorch.zeros(1).dtype is jtorch.float64
        assert repr(jtorch.ones(1)) == "tensor([1.])"
    finally:
        jtorch.set_default_dtype(jtorch.float32)
    with pytest.raises(TypeError, match="only floating-point types"):
        jtorch.set_default_dtype(jtorch.int64)


def test_memory_is_shared_or_not():
    array = np.ones(3, np.float32)
    assert np.shares_memory(jtorch.from_numpy(array).numpy(), array)
    assert np.shares_memory(jtorch.as_tensor(array).numpy(), array)
    assert not np.shares_memory(jtorch.tensor(array).numpy(), array)
    assert np.shares_memory(np.from_dlpack(jtorch.from_numpy(array)), array)


def test_random_numbers_repeat_with_the_seed():
    draws = []
    for _ in range(2):
        jtorch.manual_seed(3)
        draws.append(
            [t.tolist() for t in (jtorch.rand(3), jtorch.randn(2, 2), jtorch.randint(0, 9, (4,)))]
        )
    assert draws[0] == draws[1]
    assert jtorch.rand(3).tolist() != jtorch.rand(3).tolist()


def test_random_numbers_are_distributed_as_they_say():
    jtorch.manual_seed(0)
    uniform, normal = jtorch.rand(20_000).numpy(), jtorch.randn(20_000).numpy()
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    counts = np.bincount(jtorch.randint(2, 6, (20_000,)).numpy(), minlength=6)
    assert counts[:2].sum() == 0
    assert counts[2:].min() > 4700
    assert sorted(jtorch.randperm(50).tolist()) == list(range(50))


def test_dropout():
    dropout = jtorch.nn.functional.dropout
    jtorch.manual_seed(0)
    x = jtorch.ones(10_000, requires_grad=True)
    y = dropout(x, 0.25)
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.02
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 1.0).detach().sum().item() == 0.0
    with pytest.raises(
        ValueError, match=r"dropout probability has to be between 0 and 1, but got 1\.5"
    ):
        dropout(x, 1.5)


def test_errors():
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        jtorch.from_numpy(np.array(["a"]))
    with pytest.raises(RuntimeError, match="negative dimension"):
        jtorch.zeros(2, -1)
    with pytest.raises(RuntimeError, match="Torch not compiled with CUDA enabled"):
        jtorch.zeros(2, device="cuda")
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        jtorch.tensor(["a"])


@pytest.mark.parametrize("divide", [lambda a, b: a // b, lambda a, b: a % b], ids=["//", "%"])
def test_an_integer_divided_by_zero_is_an_error(divide):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(jtorch.tensor([2, 3]), jtorch.tensor([1, 0]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(jtorch.tensor([2, 3]), 0)
    assert divide(jtorch.tensor([2.0]), 0.0).isfinite().tolist() == [False]
