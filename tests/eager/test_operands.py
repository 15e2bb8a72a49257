"""What is no operand is refused in both modes; NumPy's numbers are as Python's; complex ones are not cut."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from tests.ops.support import HAS_TORCH

if HAS_TORCH:
    import torch

X = jtorch.tensor([3.0, -1.0])
TENSORS = {"float32": X, "float16": X.half(), "bfloat16": X.bfloat16()}
OPERATIONS = {
    "over": lambda x, v: v / x, "remainder": lambda x, v: x % v, "floor": lambda x, v: x // v,
    "sum": lambda x, v: x + v, "product": lambda x, v: x * v, "eq": lambda x, v: x.eq(v),
    "fmod": lambda x, v: x.fmod(v), "where": lambda x, v: jtorch.where(x > 0, v, x),
    "where of numbers": lambda x, v: jtorch.where(x > 0, v, 0),
}  # fmt: skip


NO_OPERANDS = [None, "a", (1,), Decimal(2)]
ASKED = [(v, mode) for v in NO_OPERANDS for mode in ("eager", "compiled")]
ASKED += [(np.array("a"), "eager"), (np.array(None), "eager")]


@pytest.mark.parametrize("operand, mode", ASKED, ids=repr)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", TENSORS)
def test_no_operand(dtype, name, operand, mode):
    """bfloat16 of a text was a segmentation fault."""
    x = TENSORS[dtype]
    function = lambda: OPERATIONS[name](x, operand)  # noqa: E731
    with pytest.raises(TypeError):
        (function if mode == "eager" else jtorch.compile(function))()


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda x: x.clone().fill_(1 + 2j), RuntimeError),
        (lambda x: x.long().fill_(1 + 2j), RuntimeError),
        (lambda x: x.index_fill(0, jtorch.tensor([0]), 1 + 2j), RuntimeError),
        (lambda x: x.masked_fill(x > 0, 1 + 2j), RuntimeError),
        (lambda x: F.pad(x, (1, 0), value=1 + 2j), TypeError),
        (lambda x: x.add(x, alpha=1j), RuntimeError),
        (lambda x: jtorch.addcmul(x, x, x, value=1j), RuntimeError),
        (lambda x: x.half() * 1j, NotImplementedError),
        (lambda x: x.half() % (1 + 2j), NotImplementedError),
        (lambda x: (1 + 2j) % x.bfloat16(), NotImplementedError),
    ],
)
def test_a_complex_number_is_not_cut_to_its_real_part(call, kind):
    with pytest.raises(kind):
        call(X)


def test_bfloat16_beside_a_complex_number():
    found = (1 + 2j) / TENSORS["bfloat16"]
    assert found.dtype is jtorch.complex64
    np.testing.assert_allclose(found.numpy(), (1 + 2j) / np.array([3, -1]), rtol=1e-6)


def test_numbers_of_numpy():
    """PyTorch 2.13's values."""
    mask, whole = jtorch.tensor([True, False]), jtorch.tensor([5, 5])
    for function in (numbers_of_numpy, jtorch.compile(numbers_of_numpy, fullgraph=True)):
        one, two, three, four = function(mask, whole)
        assert (one.dtype, one.tolist()) == (jtorch.int64, [3, 0])
        assert (two.dtype, two.tolist()) == (jtorch.int64, [3, 0])
        assert (three.dtype, three.tolist()) == (jtorch.int64, [0, 5])
        assert (four.dtype, four.tolist()) == (jtorch.int64, [2, 5])


def numbers_of_numpy(mask, whole):
    return (
        jtorch.where(mask, np.int64(3), 0), jtorch.where(mask, np.int64(3), jtorch.tensor(0)),
        whole.masked_fill(mask, np.float32(0.1)), whole.masked_fill(mask, np.float64(2)),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits_are_compared_with_what_they_hold(dtype):
    x = jtorch.tensor([0.1], dtype=getattr(jtorch, dtype))
    for number in (0.1, np.float32(0.1), np.float64(0.1)):
        assert (x == number).item() and not (x < number).item() and (x >= number).item()


def test_padding_keeps_the_sign_of_zero():
    assert F.pad(jtorch.ones(1), (1, 1), value=-0.0).signbit().tolist() == [True, False, True]
    assert F.pad(jtorch.ones(1), (1, 1)).signbit().tolist() == [False] * 3
    compiled = jtorch.compile(lambda x, v: F.pad(x, (1, 1), value=v), fullgraph=True)
    for value in (1.0, 0.0, -0.0):
        found = compiled(jtorch.ones(1), value)
        assert found.tolist() == [value, 1.0, value] and found[0].signbit().item() == (str(value)[0] == "-")


@pytest.mark.parametrize("shape", [(2.5, -1), (False, -1), (-1, 2.0), ((2.5, -1),), (2, 2.5)], ids=repr)
def test_reshape_takes_integers(shape):
    with pytest.raises(TypeError):
        jtorch.ones(4).reshape(*shape)


def test_what_need_not_be_there_beside_other_dtypes():
    """An optional argument is no operand."""
    x, whole = jtorch.ones(2), jtorch.ones(2, 2, dtype=jtorch.int64)
    assert F.linear(whole, whole).tolist() == [[2, 2], [2, 2]]
    found = F.binary_cross_entropy_with_logits(x, x, pos_weight=jtorch.tensor(2))
    assert found.item() == pytest.approx(0.6265, abs=1e-4)
    found = F.binary_cross_entropy_with_logits(x, x, weight=jtorch.tensor([1.0, 2.0]).double())
    assert found.item() == pytest.approx(0.4699, abs=1e-4)


def test_division_under_python_2_s_names():
    for L in (jtorch, torch) if HAS_TORCH else (jtorch,):
        x, n = L.tensor([2.0, 4.0]), L.tensor([2, 4])
        assert x.__rdiv__(8.0).tolist() == n.__rdiv__(8).tolist() == [4.0, 2.0]
        assert x.__div__(8.0).tolist() == [0.25, 0.5]
        assert x.__rdiv__(L.ones(2)).tolist() == [0.5, 0.25]
        assert x.__idiv__(2.0) is x
        assert x.tolist() == [1.0, 2.0]
    assert jtorch.compile(lambda x: x.__rdiv__(8.0))(jtorch.tensor([2.0])).tolist() == [4.0]
