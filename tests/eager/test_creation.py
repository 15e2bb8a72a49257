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
    "tensor of one-element tensors": lambda L: L.tensor([[L.tensor([1.0]), L.tensor([[2.0]])]]),
    "tensor of a tensor and numbers": lambda L: L.tensor([L.tensor([1]), 2.5]),
    "tensor of a list and a tensor": lambda L: L.tensor([[1, 2], L.tensor([3, 4])]),
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
    "zeros of a size": lambda L: L.zeros(size=(2, 1)),
    "zeros, 0-d": lambda L: L.zeros(()),
    "zeros of a tensor": lambda L: L.zeros(L.tensor(2), 3),
    "empty_like": lambda L: L.zeros_like(L.ones(2, 2), dtype=L.int8, memory_format=L.contiguous_format),
    "full of a tensor": lambda L: L.full((2,), L.tensor(2.5)),
    "full complex": lambda L: L.full((2,), 1j),
    "scalar_tensor": lambda L: L.scalar_tensor(3),
    "arange of ints from floats": lambda L: L.arange(0.5, 3, dtype=L.int64),
    "arange of int32 from floats": lambda L: L.arange(0.5, 3, dtype=L.int32),
    "arange down by two": lambda L: L.arange(5, 0, -2),
    "arange by names": lambda L: L.arange(start=1, end=7, step=3),
    "arange of bounds from tensors": lambda L: L.arange(L.tensor(3), np.float32(4.5)),
    "arange of tenths": lambda L: L.arange(0, 1, 0.1),
    "arange of doubles": lambda L: L.arange(0, 1, 0.1, dtype=L.float64),
    "arange empty": lambda L: L.arange(3, 3),
    "range": lambda L: L.range(0, 1, 0.25),
    "linspace over zero": lambda L: L.linspace(-1, 1, 7),
    "linspace of ints": lambda L: L.linspace(0, 10, 4, dtype=L.int64),
    "linspace down": lambda L: L.linspace(0, -10, 4, dtype=L.int32),
    "linspace complex": lambda L: L.linspace(1 + 1j, 2, 3),
    "linspace of one": lambda L: L.linspace(2, 5, 1),
    "linspace of none": lambda L: L.linspace(2, 5, 0),
    "linspace of tensors": lambda L: L.linspace(L.tensor(1.0), 2, steps=3),
    "logspace": lambda L: L.logspace(0, 2, 5),
    "logspace of ints": lambda L: L.logspace(0, 3, 4, base=2, dtype=L.int64),
    "eye of ints": lambda L: L.eye(2, 3, dtype=L.int64),
    "new_tensor": lambda L: L.ones(2, dtype=L.float64).new_tensor([1, 2]),
    "new_full": lambda L: L.ones(2).new_full((2, 1), 3),
    "new_zeros": lambda L: L.ones(2, dtype=L.int8).new_zeros(2, 3),
    "new_ones": lambda L: L.ones(2).new_ones((2,), dtype=L.bool),
    "new of a size": lambda L: L.zeros(2, dtype=L.float64).new([3, 2]),
    "negative in uint8": lambda L: L.tensor([-1], dtype=L.uint8),
    "large in uint64": lambda L: L.tensor(2**63, dtype=L.uint64),
    "of a range": lambda L: L.tensor(range(3)),
    "of NumPy's numbers": lambda L: L.tensor([np.float32(1.0), np.float64(2.0)]),
    "Tensor of a list": lambda L: L.Tensor([[1, 2], [3, 4]]),
    "Tensor of an array": lambda L: L.Tensor(np.ones(3)),
    "Tensor of a tensor": lambda L: L.Tensor(L.zeros(2, dtype=L.float64)),
    "Tensor of nothing": lambda L: L.Tensor(),
    "FloatTensor": lambda L: L.FloatTensor([1, 2]),
    "LongTensor": lambda L: L.LongTensor([1.5, 2]),
    "LongTensor of an array": lambda L: L.LongTensor(np.array([1.0, 2.0])),
    "ByteTensor": lambda L: L.ByteTensor([1, 255]),
    "BoolTensor": lambda L: L.BoolTensor([True, False]),
    "type of a type": lambda L: L.ones(2).type(L.LongTensor),
    "type of a name": lambda L: L.ones(2).type("torch.DoubleTensor"),
    "resize_ smaller": lambda L: L.arange(6).resize_(2, 2),
    "resize_ same": lambda L: L.arange(6).resize_((3, 2)),
    "reversed": lambda L: reversed(L.arange(3)),
}


@needs_torch
@pytest.mark.filterwarnings("ignore:.*torch.range is deprecated")
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
        draws.append([t.tolist() for t in (jtorch.rand(3), jtorch.randn(2, 2), jtorch.randint(0, 9, (4,)))])
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
    with pytest.raises(ValueError, match=r"dropout probability has to be between 0 and 1, but got 1\.5"):
        dropout(x, 1.5)


def test_errors():
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        jtorch.tensor([jtorch.ones(2), jtorch.ones(2)])  # torch.stack is what makes one of them
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


ERRORS = {
    "zeros of nothing": lambda L: L.zeros(),
    "zeros of a float": lambda L: L.zeros(2.5),
    "zeros of a text": lambda L: L.zeros("a"),
    "pinned": lambda L: L.zeros(2, pin_memory=True),
    "full of an int": lambda L: L.full(2, 3),
    "arange step": lambda L: L.arange(0, 3, 0),
    "arange sign": lambda L: L.arange(3, 0),
    "arange nan": lambda L: L.arange(0, float("nan")),
    "arange bool": lambda L: L.arange(3, dtype=L.bool),
    "linspace steps": lambda L: L.linspace(0, 1, -1),
    "eye": lambda L: L.eye(2, -1),
    "overflow": lambda L: L.tensor([300], dtype=L.uint8),
    "nan as int": lambda L: L.tensor(float("nan"), dtype=L.int64),
    "too large": lambda L: L.tensor(2**63),
    "complex as float": lambda L: L.tensor(1j, dtype=L.float32),
    "ragged": lambda L: L.tensor([[1, 2], [3]]),
    "text": lambda L: L.tensor("a"),
    "texts": lambda L: L.tensor(["a"]),
    "None": lambda L: L.tensor(None),
    "dict": lambda L: L.tensor({}),
    "Tensor of a float": lambda L: L.Tensor(2.5),
    "Tensor of None": lambda L: L.Tensor(None),
    "Tensor of sizes": lambda L: L.Tensor(1, 2.5),
    "Tensor of a negative size": lambda L: L.Tensor(-1),
    "ByteTensor overflow": lambda L: L.ByteTensor([300]),
    "cuda.FloatTensor": lambda L: L.cuda.FloatTensor(2),
    "no such dim": lambda L: L.zeros(2, 3).size(5),
    "contains": lambda L: "a" in L.zeros(2),
    "format": lambda L: f"{L.ones(2):.2f}",
}


@needs_torch
@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    import torch

    with pytest.raises(Exception) as theirs:
        ERRORS[name](torch)
    with pytest.raises(theirs.type) as ours:
        ERRORS[name](jtorch)
    assert str(ours.value) == str(theirs.value)


def test_early_types():
    x = jtorch.zeros(2)
    assert jtorch.Tensor(2, 3).shape == jtorch.FloatTensor(jtorch.Size([2, 3])).shape == (2, 3)
    assert isinstance(x, jtorch.FloatTensor)
    assert not isinstance(x, (jtorch.LongTensor, jtorch.cuda.FloatTensor))
    assert repr(jtorch.cuda.LongTensor) == "<class 'torch.cuda.LongTensor'>"
    with pytest.raises(RuntimeError, match="not compiled with CUDA"):
        x.type(jtorch.cuda.FloatTensor)
    alias = jtorch.Tensor(x)
    alias.fill_(3)
    assert x.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="expected a tensor of type Long"):
        jtorch.LongTensor(x)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        jtorch.ones(2, requires_grad=True).resize_(3)
    assert jtorch.arange(2).resize_(2, 2).tolist() == [[0, 1], [0, 0]]


def test_default_tensor_type():
    with pytest.warns(UserWarning, match="deprecated"):
        jtorch.set_default_tensor_type(jtorch.DoubleTensor)
    try:
        assert jtorch.ones(1).dtype is jtorch.Tensor(1).dtype is jtorch.float64
    finally:
        with pytest.warns(UserWarning, match="deprecated"):
            jtorch.set_default_tensor_type("torch.FloatTensor")
    refused = pytest.raises(TypeError, match=r"type torch.cuda.FloatTensor not available")
    with pytest.warns(UserWarning, match="deprecated"), refused:
        jtorch.set_default_tensor_type(jtorch.cuda.FloatTensor)


def test_subclasses():
    class Named(jtorch.Tensor):
        def __init__(self, *args):
            self.name = "x"

    made = Named([1.0, 2.0])
    assert type(made) is Named
    assert repr(made) == "Named([1., 2.])"
    assert (made.name, made.sum().item()) == ("x", 3.0)
    x = jtorch.ones(2, requires_grad=True)
    (x * 2).as_subclass(Named).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_out_is_written():
    out = jtorch.zeros(3)
    assert jtorch.ones(3, out=out) is out
    assert out.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"dtype Long does not match dtype of out tensor \(Float\)"):
        jtorch.zeros(3, dtype=jtorch.int64, out=out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, 2.5, 3), [1, 10, 100]), ((0.9, 2, 3), [1, 10, 100]), ((0, 3, 4, 2), [1, 2, 4, 8]),
        ((0, 3, 3), [1, 31, 1000]),
    ],
)  # fmt: skip
def test_the_exponents_of_integers_end_at_integers(arguments: tuple, expected: list) -> None:
    assert jtorch.logspace(*arguments, dtype=jtorch.int64).tolist() == expected


@pytest.mark.parametrize("name", ["arange", "linspace", "logspace"])
def test_as_many_numbers_as_out_has_elements_fill_it_in_its_shape(name: str) -> None:
    arguments = {"arange": (4,), "linspace": (0, 3, 4), "logspace": (0, 3, 4, 2)}[name]
    x = jtorch.zeros(2, 2)
    flat = x.view(-1)
    getattr(jtorch, name)(*arguments, out=x)
    assert x.shape == (2, 2)
    assert flat.tolist() == ([1, 2, 4, 8] if name == "logspace" else [0, 1, 2, 3])


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_that_shrinks_keeps_its_memory() -> None:
    x = jtorch.zeros(2, 3)
    flat = x.view(-1)
    jtorch.add(jtorch.arange(4.0), 1, out=x)
    assert x.tolist() == [1, 2, 3, 4] and flat.tolist() == [1, 2, 3, 4, 0, 0]


def subclass(L):
    class Named(L.Tensor):
        pass

    return Named


def as_subclass_programs(L, where):
    """{what is done: the gradient of x, and whether it is a leaf}"""
    found = {}
    for name in ("leaf", "made", "written", "whole written", "part written"):
        x = L.tensor([1.0, 2.0, 3.0], requires_grad=True)

        def program(x, name=name):
            y = x if name == "leaf" else x * 3
            part = y[:2] if name == "part written" else y
            named = part.as_subclass(where)
            if name in ("written", "part written"):
                named.mul_(5)
            if name == "whole written":
                y.mul_(5)
            return (named * 2).as_subclass(L.Tensor).sum() + (y * 7).sum()

        program(x).backward()
        found[name] = x.grad.tolist()
    return found


AS_SUBCLASS = {
    "leaf": [9.0] * 3, "made": [27.0] * 3, "written": [135.0] * 3, "whole written": [135.0] * 3,
    "part written": [135.0, 135.0, 21.0],
}  # fmt: skip


def test_gradients_flow_through_as_subclass():
    assert as_subclass_programs(jtorch, subclass(jtorch)) == AS_SUBCLASS


@needs_torch
def test_gradients_flow_through_as_subclass_as_in_pytorch():
    import torch

    assert as_subclass_programs(torch, subclass(torch)) == AS_SUBCLASS


def test_gradients_flow_through_as_subclass_in_compiled_code():
    kind = subclass(jtorch)

    @jtorch.compile(fullgraph=True)
    def f(x):
        y = x * 3
        named = y[:2].as_subclass(kind)
        named.mul_(5)
        return (named * 2).as_subclass(jtorch.Tensor).sum() + (y * 7).sum()

    for _ in range(2):
        x = jtorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == AS_SUBCLASS["part written"]


@pytest.mark.parametrize("name", ["__torch_function__", "__torch_dispatch__"])
def test_a_subclass_whose_protocol_no_op_would_ask_is_refused(name):
    mine = type(jtorch.Tensor)("Mine", (jtorch.Tensor,), {name: classmethod(lambda cls, *args: None)})
    inner = type(mine)("Inner", (mine,), {})
    for make in (mine, inner, jtorch.ones(2).as_subclass):
        with pytest.raises(NotImplementedError, match=f"class Mine: {name} of a subclass of Tensor would"):
            make(mine if make not in (mine, inner) else [1.0])


def test_of_another_class_made_of_numbers_is_a_leaf_of_its_own():
    made = subclass(jtorch)([1.0, 2.0]).requires_grad_()
    (made * 2).sum().backward()
    assert made.is_leaf and made._base is None
    assert made.grad.tolist() == [2.0, 2.0]
