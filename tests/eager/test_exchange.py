"""Memory in from and out to NumPy, buffers and DLPack: shared, and never off the tape unasked."""

from __future__ import annotations

import array as arrays
import importlib
import operator

import numpy as np
import pytest
import scipy.special

import jtorch
from jtorch.core.errors import CompileError
from jtorch.utils import dlpack
from tests.ops.support import HAS_TORCH, needs_torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


# -- NumPy in ----------------------------------------------------------------------------------------------


def test_from_numpy_shares_memory():
    array = np.arange(6.0).reshape(2, 3)
    for given in (
        array,
        array.T,
        array[:, ::2],
        array[:0],
        array.astype(np.longlong),
        np.asfortranarray(array),
    ):
        x = jtorch.from_numpy(given)
        assert np.shares_memory(x.numpy(), given) or not given.size
        assert x.tolist() == given.tolist()
        assert x._data.dtype is x.dtype.numpy
    jtorch.from_numpy(array).mul_(2)
    assert array[1, 2] == 10


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (np.ones(3)[::-1], "At least one stride in the given numpy array is negative"),
        (np.ones(3, ">f4"), "given numpy array has byte order different from the native byte order"),
        (np.zeros(3, [("a", "i1"), ("b", "<f4")])["b"], "strides not a multiple of the element byte size"),
        ([1], r"expected np.ndarray \(got list\)"),
        (np.float64(3), r"expected np.ndarray \(got numpy.float64\)"),
        (np.array(["a"]), "can't convert np.ndarray of type"),
        (np.array([None]), "can't convert np.ndarray of type"),
    ],
)
def test_from_numpy_refuses_as_torch_does(given, error, torch):
    with pytest.raises((TypeError, ValueError), match=error) as ours:
        jtorch.from_numpy(given)
    with pytest.raises((TypeError, ValueError), match=error) as theirs:
        torch.from_numpy(given)
    assert ours.type is theirs.type


def test_masks_are_not_ignored():
    with pytest.raises(TypeError, match="a tensor has no mask"):
        jtorch.from_numpy(np.ma.masked_array([1, 2], [True, False]))


def test_read_only_memory_is_not_written():
    array = np.ones(3)
    array.flags.writeable = False
    x = jtorch.from_numpy(array)
    assert (x + 1).tolist() == [2.0] * 3
    with pytest.raises(ValueError, match="read-only"):
        x.add_(1)
    with pytest.raises(BufferError, match="readonly"):
        x.__dlpack__()


# -- buffers and asarray -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buffer", "options"),
    [
        (bytearray(range(8)), {}), (bytearray(range(8)), {"count": 1, "offset": 4}),
        (arrays.array("i", [1, -2]), {}), (memoryview(bytearray(range(9))), {"offset": 5}),
        (bytearray(7), {}), (bytearray(8), {"count": 3}), (bytearray(8), {"offset": 9}), (bytearray(0), {}),
        (bytearray(8), {"count": 0}), (bytearray(8), {"offset": -1}), (bytearray(8), {"offset": 2}), (3, {}),
    ],
)  # fmt: skip
def test_frombuffer(buffer, options, torch):
    try:
        theirs = torch.frombuffer(buffer, dtype=torch.int32, **options).tolist()
    except ValueError as error:
        with pytest.raises(ValueError, match="buffer") as caught:
            jtorch.frombuffer(buffer, dtype=jtorch.int32, **options)
        assert str(caught.value) == str(error)
    else:
        assert jtorch.frombuffer(buffer, dtype=jtorch.int32, **options).tolist() == theirs


def test_frombuffer_shares_memory():
    buffer = bytearray(8)
    jtorch.frombuffer(buffer, dtype=jtorch.float32, requires_grad=False).add_(1)
    assert bytes(buffer) == np.ones(2, np.float32).tobytes()
    assert jtorch.frombuffer(buffer, dtype=jtorch.float32, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        jtorch.frombuffer(buffer, dtype=jtorch.int32, requires_grad=True)


def test_asarray_shares_where_it_can():
    array, x = np.ones(3), jtorch.ones(3)
    assert np.shares_memory(jtorch.asarray(array).numpy(), array) and jtorch.asarray(x) is x
    assert not np.shares_memory(jtorch.asarray(array, copy=True).numpy(), array)
    assert jtorch.asarray(x, copy=True) is not x
    assert jtorch.asarray(array[::-1], copy=True).tolist() == [1.0] * 3
    buffer = bytearray(8)
    jtorch.asarray(buffer).add_(1)
    assert bytes(buffer) == np.ones(2, np.float32).tobytes()
    assert jtorch.asarray(buffer, dtype=jtorch.int64).shape == (1,)


def test_asarray_and_the_tape():
    x = jtorch.ones(3, requires_grad=True)
    (jtorch.asarray(x) * jtorch.as_tensor(x, dtype=jtorch.float64)).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    off = jtorch.asarray(x, requires_grad=False)
    assert not off.requires_grad and x.requires_grad and off.data_ptr() == x.data_ptr()
    assert jtorch.asarray([1.0], requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "obj",
    [
        3,
        2.5,
        [1, 2.0],
        [],
        np.float64(3),
        np.float32(3),
        np.int32(1),
        True,
        ((1, 2), (3, 4)),
        [np.float64(1), 2],
        [np.float32(1), np.int8(2)],
        [np.int32(1)],
        [1, 2.5, True],
    ],
    ids=repr,
)
@pytest.mark.parametrize("function", ["asarray", "as_tensor"])
def test_dtypes_of_what_is_copied(obj, function, torch):
    ours, theirs = getattr(jtorch, function)(obj), getattr(torch, function)(obj)
    assert ours.dtype.name == str(theirs.dtype)[6:] and ours.tolist() == theirs.tolist()


def test_lists_of_typed_things_keep_their_type():
    double = jtorch.ones((), dtype=jtorch.float64)
    for given in ([np.ones(2), np.zeros(2)], [double, 1], [1, double], [[np.float64(1)], [2]]):
        assert jtorch.as_tensor(given).dtype is jtorch.float64
    assert jtorch.tensor([1.0, np.int8(2)]).dtype is jtorch.float32
    assert jtorch.zeros(1, dtype=float).dtype is jtorch.float64  # as in PyTorch: Python's float is a double


def test_asarray_without_a_copy():
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Float'"):
        jtorch.asarray(np.ones(3), dtype=jtorch.float32, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        jtorch.asarray([1], copy=False)


# -- NumPy out ---------------------------------------------------------------------------------------------


def test_numpy_of_what_requires_grad():
    x = jtorch.ones(3, requires_grad=True)
    for ask in (
        lambda: x.numpy(),
        lambda: np.asarray(x),
        lambda: np.array([x, x]),
        lambda: np.concatenate([x, x]),
    ):
        with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
            ask()
    assert np.shares_memory(x.numpy(force=True), x.detach().numpy())
    with pytest.raises(TypeError):
        x.numpy(True)


@pytest.mark.filterwarnings("ignore:__array:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize("name", ["jtorch", pytest.param("torch", marks=needs_torch)])
def test_numpy_of_what_requires_grad_where_gradients_are_off(name):
    """No tape can miss what is done with the array there."""
    library = importlib.import_module(name)
    x = library.nn.Parameter(library.ones(3))
    for mode in (library.no_grad, library.inference_mode):
        with mode():
            assert np.shares_memory(x.numpy(), x.detach().numpy())
            assert np.shares_memory(np.asarray(x), x.detach().numpy())
            assert np.array([x, x]).tolist() == [[1.0] * 3] * 2
            assert isinstance(np.exp(x), library.Tensor)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_numpy_of_a_parameter_where_gradients_are_off(wrap):
    weight = jtorch.nn.Parameter(jtorch.ones(3))

    @wrap
    def total(x):
        with jtorch.no_grad():
            norm = float(np.abs(weight.numpy()).sum())
        return x * norm

    for _ in range(4):
        expected = 3 * weight.abs().sum().item()
        assert total(jtorch.ones(3)).sum().item() == expected
        with jtorch.no_grad():
            weight.add_(1)


def test_the_array_protocol():
    x = jtorch.ones(3)
    assert np.shares_memory(np.asarray(x), x.numpy()) and np.shares_memory(
        np.asarray(x, copy=False), x.numpy()
    )
    assert not np.shares_memory(np.array(x), x.numpy()) and not np.shares_memory(
        np.asarray(x, copy=True), x.numpy()
    )
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(x, dtype=np.float32), x.numpy())
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.asarray(x, dtype=np.float64, copy=False)


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv,
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_operators_with_arrays_are_the_tensors(function):
    array, x = np.array([[1.0], [3.0]]), jtorch.tensor([2.0, 3.0], dtype=jtorch.float64)
    for ours, plain in (
        (function(array, x), function(array, x.numpy())), (function(array[::-1], x), function(array[::-1],
        x.numpy())), (function(np.float64(2), x), function(2.0, x.numpy())), (function(np.int64(2), x),
    function(2, x.numpy())), ):  # fmt: skip
        assert type(ours) is jtorch.Tensor and ours.tolist() == plain.tolist()


@pytest.mark.parametrize("function", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_comparisons_with_an_array_on_the_right(function):
    array, x = np.array([1.0, 3.0]), jtorch.tensor([1.0, 2.0])
    assert function(x, array).tolist() == function(x.numpy(), array).tolist()


def test_arrays_in_operators_stay_on_the_tape():
    x = jtorch.tensor([2.0, 3.0], dtype=jtorch.float64, requires_grad=True)
    array = np.array([5.0, 7.0])
    out = array * x + np.float64(1)
    array[:] = 0  # what the tape keeps is its own
    out.sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    weights = jtorch.ones(2, dtype=jtorch.float64, requires_grad=True)
    (np.ones((3, 2)) @ weights).sum().backward()
    assert weights.grad.tolist() == [3.0, 3.0]


def test_numbers_of_numpy_are_weak():
    assert (np.float64(2) * jtorch.ones(2)).dtype is jtorch.float32
    assert (np.float64(2) * jtorch.ones(2).int()).dtype is jtorch.float32
    assert (np.int64(2) + jtorch.ones(2, dtype=jtorch.uint8)).dtype is jtorch.uint8


BY_NUMPY = {
    "sqrt": lambda x: np.sqrt(x), "of a number": lambda x: np.sqrt(x.sum()), "two": lambda x: np.modf(x),
    "beside an array": lambda x: np.maximum(np.full(3, 2.0), x), "beside a number": lambda x: np.hypot(x, 3),
    "dtype": lambda x: np.exp(x, dtype=np.float64), "integers": lambda x: np.gcd(x.long() * 6, 4),
    "SciPy's": lambda x: scipy.special.expit(x), "reduce": lambda x: np.add.reduce(x),
    "reduce a dim": lambda x: np.maximum.reduce(x.reshape(3, 1) * x, axis=1, keepdims=True, initial=5),
    "accumulate": lambda x: np.add.accumulate(x), "reduceat": lambda x: np.add.reduceat(x, [0, 2]),
}  # fmt: skip


def _by_numpy(L, case):
    found = BY_NUMPY[case](L.tensor([1.0, 4.0, 9.0]))
    parts = found if isinstance(found, tuple) else (found,)
    assert all(isinstance(part, L.Tensor) for part in parts)
    return [(str(part.dtype).split(".")[-1], part.tolist()) for part in parts]


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
@pytest.mark.parametrize("case", BY_NUMPY)
def test_functions_of_numpy_give_tensors_where_there_is_no_gradient(case):
    assert _by_numpy(jtorch, case) == _by_numpy(pytest.importorskip("torch"), case)


INTO_ARRAYS = {
    "out": lambda x: np.add(x, x, out=np.zeros(3, np.float32)),
    "out of two": lambda x: np.modf(x, out=(np.zeros(3, np.float32), np.zeros(3, np.float32)))[1],
    "where": lambda x: np.add(x, 1, out=np.zeros(3, np.float32), where=np.array([True, False, True])),
    "where a tensor": lambda x: np.add(np.ones(3), 1, out=np.zeros(3), where=x > 2),
    "outer": lambda x: np.multiply.outer(x, x),
    "outer of an array": lambda x: np.subtract.outer(x, np.array([1.0, 2.0])),
}
ARRAYS = {
    "out": [2.0, 8.0, 18.0], "out of two": [1.0, 4.0, 9.0], "where": [2.0, 0.0, 10.0],
    "where a tensor": [0.0, 2.0, 2.0], "outer": [[1.0, 4.0, 9.0], [4.0, 16.0, 36.0], [9.0, 36.0, 81.0]],
    "outer of an array": [[0.0, -1.0], [3.0, 2.0], [8.0, 7.0]],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
@pytest.mark.parametrize("case", INTO_ARRAYS)
def test_arrays_of_out_and_outer_products_stay_arrays(case):
    for L in (jtorch, importlib.import_module("torch")) if HAS_TORCH else (jtorch,):
        found = INTO_ARRAYS[case](L.tensor([1.0, 4.0, 9.0]))
        assert type(found) is np.ndarray
        assert found.tolist() == ARRAYS[case]


def test_numpy_adds_into_an_array_and_not_into_a_tensor():
    array, x = np.zeros(3), jtorch.tensor([1.0, 2.0, 3.0])
    array += x
    np.subtract.at(array, [0, 0], x[:2])
    assert array.tolist() == [-2.0, 2.0, 3.0]
    for write in (lambda: np.add(x, 1, out=x), lambda: np.add.at(x, [0], 1), lambda: np.modf(x, out=(x, x))):
        with pytest.raises(TypeError, match=r"NumPy writes to arrays, not to a Tensor\..* tensor\.numpy\(\)"):
            write()
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_what_writes_arrays_or_reduces_is_refused_in_compiled_code():
    array = np.zeros(2)
    with pytest.raises(CompileError, match=r"np\.add needs the elements of a tensor"):
        jtorch.compile(lambda x: np.add(x, 1, out=array), fullgraph=True)(jtorch.ones(2))
    other = jtorch.ones(2)
    with pytest.raises(CompileError, match=r"np\.add\.reduce needs the elements of a tensor"):
        jtorch.compile(lambda x: x + np.add.reduce(other), fullgraph=True)(jtorch.ones(2))


def test_functions_of_numpy_in_compiled_code():
    assert _by_numpy(jtorch, "sqrt") == [("float32", [1.0, 2.0, 3.0])]
    with pytest.raises(CompileError, match=r"np\.sqrt needs the elements of a tensor"):
        jtorch.compile(lambda x: np.sqrt(x), fullgraph=True)(jtorch.ones(3))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.sin(x), "np.sin"),
        (lambda x: np.maximum(x, 2), "np.maximum"),
        (lambda x: np.add.reduce(x), r"np.add.reduce"),
        (lambda x: np.add(x, x, out=np.ones(3)), "np.add"),
        (lambda x: np.multiply(np.ones(3), x, where=np.ones(3, bool)), "np.multiply"),
        (lambda x: np.multiply(np.ones(3), 2, where=x, out=np.ones(3)), "np.multiply"),
        (lambda x: np.multiply.outer(x, x), r"np.multiply.outer"),
        (lambda x: np.ones(3).__iadd__(x), "np.add"),
    ],
)  # fmt: skip
def test_other_functions_of_numpy_teach(call, name):
    with pytest.raises(TypeError, match=rf"{name} on a Tensor: NumPy would .* gradients would be lost"):
        call(jtorch.ones(3, requires_grad=True))


# -- DLPack ------------------------------------------------------------------------------------------------

EXPORTED = {
    "matrix": lambda: jtorch.arange(6).reshape(2, 3), "transposed": lambda: jtorch.ones(2, 3).t(),
    "view": lambda: jtorch.arange(6)[2:], "bool": lambda: jtorch.tensor([True, False]),
    "scalar": lambda: jtorch.tensor(2.5), "empty": lambda: jtorch.zeros(0, 3),
    "half": lambda: jtorch.ones(2).half(),
}  # fmt: skip


@pytest.mark.parametrize("make", EXPORTED.values(), ids=EXPORTED)
def test_dlpack_with_numpy_and_torch(make, torch):
    x = make()
    for library in (np, torch):
        there = library.from_dlpack(x)
        assert there.tolist() == x.tolist() and str(there.dtype).endswith(x.dtype.name)
        back = jtorch.from_dlpack(there)
        assert back.tolist() == x.tolist() and back.dtype is x.dtype
        assert not x.numel() or back.data_ptr() == x.data_ptr()
    if x.numel():
        torch.from_dlpack(x).zero_()
        assert not x.any()


def test_dlpack_with_jax():
    jax = pytest.importorskip("jax")
    x = jtorch.arange(6).float().reshape(2, 3)
    assert np.asarray(jax.dlpack.from_dlpack(x)).tolist() == x.tolist()
    back = jtorch.from_dlpack(jax.numpy.arange(3.0))
    assert back.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):  # JAX's arrays never change
        back.add_(1)


def test_dlpack_capsules():
    x = jtorch.ones(3)
    for back in (
        dlpack.from_dlpack(dlpack.to_dlpack(x)),
        jtorch.from_dlpack(x.__dlpack__(max_version=(1, 0))),
    ):
        assert back.data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)
    assert jtorch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    capsule = x.__dlpack__()
    jtorch.from_dlpack(capsule)
    with pytest.raises((ValueError, RuntimeError, BufferError)):  # each can be consumed once
        jtorch.from_dlpack(capsule)


def test_dlpack_refusals():
    x = jtorch.ones(3, requires_grad=True)
    for ask in (lambda: x.__dlpack__(), lambda: np.from_dlpack(x), lambda: jtorch.from_dlpack(x)):
        with pytest.raises(
            BufferError, match=r"Can't export tensors that require gradient, use tensor.detach\(\)"
        ):
            ask()
    with pytest.raises(RuntimeError, match="from_dlpack received an invalid capsule"):
        jtorch.from_dlpack([1])
    with pytest.raises(TypeError, match="stream must be"):
        x.detach().__dlpack__(stream="s")
    with pytest.raises(BufferError):
        x.detach().__dlpack__(dl_device=(2, 0))
    with pytest.raises(RuntimeError, match="CUDA"):
        jtorch.from_dlpack(x.detach(), device="cuda")


def test_nothing_leaves_while_tracing():
    for ask in (
        lambda x: x.numpy().tolist(),
        lambda x: np.asarray(x),
        lambda x: x.__dlpack__(),
    ):

        @jtorch.compile
        def step(x, ask=ask):
            ask(x)
            return x + 1

        with pytest.raises(jtorch.errors.CompileError, match="needs the elements of a tensor"):
            step(jtorch.ones(3))
