"""Where PyTorch takes tensors only, a number is its TypeError, which names the argument."""

import numpy as np
import pytest

import jtorch

TENSORS_ONLY = (
    "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "nextafter", "logaddexp", "logaddexp2", "gcd",
    "lcm", "logical_and", "logical_or", "logical_xor", "dist", "ldexp", "igamma", "igammac", "isclose",
    "allclose", "equal", "cross", "dot", "vdot", "inner", "outer", "mv", "mm", "bmm", "kron", "heaviside",
)  # fmt: skip
INTEGERS = ("gcd", "lcm")
ALSO_IN_PLACE = ("logical_and", "logical_or", "logical_xor", "atan2", "hypot", "nextafter", "ldexp")


def tensor_for(name):
    return jtorch.tensor([1, 2, 3]) if name in INTEGERS else jtorch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("number", [2, 2.5, True], ids=str)
@pytest.mark.parametrize("name", TENSORS_ONLY)
def test_a_number_beside_a_tensor_is_an_error(name, number):
    x = tensor_for(name)
    function = getattr(jtorch, name)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' \(position 2\) must be Tensor, not "):
        function(x, number)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not "):
        function(number, x)
    if hasattr(x, name):
        with pytest.raises(TypeError, match=rf"{name}\(\): argument .* must be Tensor, not "):
            getattr(x, name)(number)


@pytest.mark.parametrize("name", ALSO_IN_PLACE)
def test_in_place_it_is_an_error_that_changes_nothing(name):
    x = tensor_for(name)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        getattr(x, f"{name}_")(2)
    assert x.tolist() == tensor_for(name).tolist()
    assert x._version == 0


@pytest.mark.parametrize("name", ["maximum", "logical_and", "dot", "isclose"])
def test_in_compiled_mode_it_is_the_same_error(name):
    step = jtorch.compile(lambda x: getattr(jtorch, name)(x, 2))
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '\w+' \(position 2\) must be Tensor"):
        step(tensor_for(name))


@pytest.mark.parametrize("name", TENSORS_ONLY)
def test_pytorch_says_the_same(name):
    torch = pytest.importorskip("torch")
    x = tensor_for(name)
    with pytest.raises(TypeError) as theirs:
        getattr(torch, name)(torch.tensor(x.tolist()), 2)
    with pytest.raises(TypeError) as ours:
        getattr(jtorch, name)(x, 2)
    assert str(ours.value) == str(theirs.value)


LOSSES = (
    "kl_div", "poisson_nll_loss", "hinge_embedding_loss", "soft_margin_loss", "multi_margin_loss",
    "multilabel_margin_loss",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LOSSES)
def test_a_number_is_no_target_of_a_loss(name):
    loss, x = getattr(jtorch.nn.functional, name), tensor_for(name)
    for function in (loss, jtorch.compile(lambda a, b: loss(a, b))):
        with pytest.raises(
            TypeError, match=rf"{name}\(\): argument 'target' \(position 2\) must be Tensor, not"
        ):
            function(x, 0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_nan_to_num_takes_the_numbers_that_tensors_hold(dtype):
    """Of no axes and without a gradient; their dtype is none of the result's."""
    torch = pytest.importorskip("torch")
    for make in (
        lambda T: T.tensor(2.5, dtype=T.float64),
        lambda T: T.tensor(3),
        lambda T: np.float32(1.5),
        lambda T: T.tensor([3.0]),
        lambda T: T.tensor(3.0, requires_grad=True),
        lambda T: "a",
    ):
        found = []
        for T in (jtorch, torch):
            x = T.tensor([float("nan"), 1.0], dtype=getattr(T, dtype))
            try:
                found.append((T.nan_to_num(x, make(T)).tolist(), str(x.dtype).rpartition(".")[2]))
            except TypeError as error:
                found.append(str(error))
        assert found[0] == found[1]
