"""``jtorch.testing.assert_close``: what is close, what the error says, and that PyTorch says the same."""

import warnings

import numpy as np
import pytest

import jtorch
from jtorch.testing import assert_allclose, assert_close

nan, inf = float("nan"), float("inf")
PAIRS = {
    "floats": lambda T: (T.tensor([1.0, 2.0]), T.tensor([1.0, 3.5])),
    "nearly": lambda T: (T.tensor([1.0, 2.0]), T.tensor([1.0, 2.000001])),
    "doubles": lambda T: (T.tensor([1.0], dtype=T.float64), T.tensor([1.000001], dtype=T.float64)),
    "halves": lambda T: (T.tensor([2.0], dtype=T.float16), T.tensor([2.001], dtype=T.float16)),
    "integers": lambda T: (T.tensor([1, 2]), T.tensor([1, 4])),
    "large integers": lambda T: (T.tensor([2**62 + 1]), T.tensor([2**62])),
    "bools": lambda T: (T.tensor([True]), T.tensor([False])),
    "complex": lambda T: (T.tensor([1 + 2j]), T.tensor([1 + 2j])),
    "without dims": lambda T: (T.tensor(1), T.tensor(2)),
    "numbers": lambda T: (1.0, 1.5),
    "an int and a float": lambda T: (1, 1.0),
    "Python bools": lambda T: (True, False),
    "NumPy's numbers": lambda T: (np.float32(1), np.float32(2)),
    "shapes": lambda T: (T.tensor([1.0]), T.tensor([1.0, 2.0])),
    "sequences": lambda T: ([T.tensor([1.0]), 2], (T.tensor([1.0]), 3)),
    "mappings": lambda T: ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 4}]}),
    "nothing": lambda T: (None, 1),
    "nothing twice": lambda T: (None, None),
    "NaNs": lambda T: (T.tensor([nan]), T.tensor([nan])),
    "infinities": lambda T: (T.tensor([inf, -inf]), T.tensor([inf, -inf])),
    "an infinity": lambda T: (T.tensor([inf]), T.tensor([1.0])),
    "no elements": lambda T: (T.zeros(0), T.zeros(0)),
    "arrays": lambda T: (np.array([1.0, 2.0]), np.array([1.0, 4.0])),
    "a matrix": lambda T: (T.tensor([[1.0, 2.0], [3.0, 4.0]]), T.tensor([[1.0, 2.0], [8.0, 4.0]])),
    "an array and a tensor": lambda T: (np.array([1.0]), T.tensor([1.0])),
}
OPTIONS = [
    {}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 0.5, "atol": 0.1}, {"equal_nan": True}, {"check_dtype": False},
]  # fmt: skip


def verdict(T, name, **options):
    try:
        T.testing.assert_close(*PAIRS[name](T), **options)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error), str(error)
    return "close", ""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_pytorch_says_the_same(name, options):
    torch = pytest.importorskip("torch.testing") and pytest.importorskip("torch")

    (ours, said), (theirs, expected) = verdict(jtorch, name, **options), verdict(torch, name, **options)
    assert ours == theirs
    lines, expected_lines = said.splitlines(), expected.splitlines()
    if ours is not TypeError:  # which names the class of a tensor
        assert len(lines) == len(expected_lines)
        for line, other in zip(lines, expected_lines, strict=True):
            assert line.split(":")[0] == other.split(":")[0]


def test_the_error_says_where_and_how_much():
    with pytest.raises(AssertionError) as error:
        assert_close({"w": jtorch.tensor([1.0, 2.0])}, {"w": jtorch.tensor([1.0, 4.0])})
    assert str(error.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 2.0 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.5 at index (1,) (up to 1.3e-06 allowed)\n\n"
        "The failure occurred for item ['w']"
    )


def test_the_message_may_be_replaced_or_extended():
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"^step 3: Scalars are not equal!"):
        assert_close(1, 2, msg=lambda text: f"step 3: {text}")


@pytest.mark.parametrize("options", [{"rtol": 1e-3}, {"atol": 1e-3}], ids=str)
def test_one_tolerance_alone_is_an_error(options):
    with pytest.raises(ValueError, match="must be either specified or omitted"):
        assert_close(1.0, 1.0, **options)


def test_strides_are_compared_where_asked():
    x = jtorch.ones(2, 3)
    y = jtorch.ones(3, 2).t()
    assert_close(x, y)
    with pytest.raises(AssertionError, match=r"attribute 'stride\(\)' do not match"):
        assert_close(x, y, check_stride=True)


def test_bfloat16_and_gradients_are_compared():
    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    assert_close(x.to(jtorch.bfloat16), (x * 1.01).to(jtorch.bfloat16))
    assert_close(x * 1.0, x)


def test_allclose_lets_dtypes_differ():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_allclose(jtorch.tensor([1.0, nan]), [1.0, nan])
        assert_allclose(jtorch.tensor([1.0]), jtorch.tensor([1.0], dtype=jtorch.float64))
        with pytest.raises(AssertionError, match="not close"):
            assert_allclose(jtorch.tensor(1.0), 2.0, rtol=1e-3, atol=0.0)
