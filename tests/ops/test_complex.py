"""Complex tensors: values, dtypes and gradients are PyTorch's; compiled code refuses them by name."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

_rng = np.random.default_rng(0)


def _numbers(*shape):
    return _rng.standard_normal(shape) + 1j * _rng.standard_normal(shape)


Z, W, ROW = _numbers(3, 4), _numbers(3, 4), _numbers(4)
X = _rng.standard_normal((3, 4))
CALLS = {
    "add": (lambda L, x, y: x + y, [Z, ROW]),
    "add real": (lambda L, x, y: x + y, [Z, X]),
    "logsumexp": (lambda L, x: x.logsumexp(1), [3 * Z]),
    "logsumexp of all": (lambda L, x: x.logsumexp((0, 1), keepdim=True), [Z]),
    "powers": (lambda L, x: L.linalg.vander(x, N=3), [Z]),
    "sub": (lambda L, x, y: x - y, [X, W]),
    "mul": (lambda L, x, y: x * y, [Z, W]),
    "mul real": (lambda L, x, y: x * y, [X, W]),
    "mul number": (lambda L, x: x * (2 - 1j), [X]),
    "number mul": (lambda L, x: 1j * x, [Z]),
    "div": (lambda L, x, y: x / y, [Z, W]),
    "div real": (lambda L, x, y: x / y, [X, W]),
    "neg": (lambda L, x: -x, [Z]),
    "acosh": (lambda L, x: x.acosh(), [Z]),
    "sigmoid": (lambda L, x: x.sigmoid(), [Z]),
    "var": (lambda L, x: x.var(), [Z]),
    "var of rows": (lambda L, x: x.var(1, correction=0, keepdim=True), [Z]),
    "std": (lambda L, x: x.std(0), [Z]),
    "var and mean": (lambda L, x: L.var_mean(x, 1), [Z]),
    "std and mean": (lambda L, x: L.std_mean(x), [Z]),
    "logaddexp": (lambda L, x, y: L.logaddexp(x, y), [3 * Z, 3 * W]),
    "logcumsumexp": (lambda L, x: x.logcumsumexp(1), [3 * Z]),
    "logcumsumexp of columns": (lambda L, x: x.logcumsumexp(0), [Z]),
    "softsign": (lambda L, x: L.nn.functional.softsign(x), [Z]),
    "square": (lambda L, x: x**2, [Z]),
    "exp": (lambda L, x: x.exp(), [Z]),
    "log": (lambda L, x: x.log(), [Z]),
    "sqrt": (lambda L, x: x.sqrt(), [Z]),
    "sin": (lambda L, x: x.sin(), [Z]),
    "cos": (lambda L, x: x.cos(), [Z]),
    "tanh": (lambda L, x: x.tanh(), [Z]),
    "conj": (lambda L, x: x.conj() * x, [Z]),
    "real": (lambda L, x: x.real, [Z]),
    "imag": (lambda L, x: x.imag, [Z]),
    "abs": (lambda L, x: x.abs(), [Z]),
    "angle": (lambda L, x: x.angle(), [Z]),
    "angle real": (lambda L, x: x.angle(), [X]),
    "sum": (lambda L, x: x.sum(1), [Z]),
    "mean": (lambda L, x: x.mean(), [Z]),
    "prod": (lambda L, x: x.prod(1), [Z]),
    "matmul": (lambda L, x, y: x @ y.T, [Z, W]),
    "matmul batch": (lambda L, x, y: x[None] @ y.T[None], [Z, W]),
    "reshape": (lambda L, x: x.reshape(4, 3), [Z]),
    "index": (lambda L, x: x[1:, 2], [Z]),
    "polar": (lambda L, x: L.polar(x.abs(), x * 2), [X]),
    "complex": (lambda L, x, y: L.complex(x, y), [X, X * 3]),
    "view_as_real": (lambda L, x: L.view_as_real(x), [Z]),
    "view_as_complex": (lambda L, x: L.view_as_complex(x), [X.reshape(3, 2, 2).copy()]),
    "eq": (lambda L, x, y: x == y, [Z, Z]),
    "to complex": (lambda L, x: x.to(L.complex128), [X]),
    "energy": (lambda L, x: (x * x.conj()).real.sum(), [Z]),
}


@needs_torch
@pytest.mark.parametrize("narrow", [False, True], ids=["double", "single"])
@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name, narrow):
    call, arrays = CALLS[name]
    if narrow:
        arrays = [a.astype(np.complex64 if a.dtype.kind == "c" else np.float32) for a in arrays]
    close = {"rtol": 1e-4, "atol": 1e-5} if narrow else {"rtol": 1e-11, "atol": 1e-12}
    compare(call, jtorch, torch, arrays, **close)


def test_real_and_imag_are_views():
    z = jtorch.tensor([1 + 2j, 3 - 1j])
    z.real.zero_()
    z.imag.mul_(2)
    assert z.tolist() == [4j, -2j]


def test_gradient_through_a_write_to_the_real_part():
    x = jtorch.tensor([1.0 + 2j, 3.0 - 1j], requires_grad=True)
    z = x * 1
    z.real.mul_(3.0)
    (z * z.conj()).real.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [2 * 9 * 1 + 2 * 2j, 2 * 9 * 3 - 2j])


def test_backward_of_a_complex_result_needs_a_gradient():
    z = jtorch.tensor([1 + 1j], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs"):
        (z * z).sum().backward()


def test_what_has_no_order_is_refused():
    z = jtorch.tensor([[1j]])
    with pytest.raises(NotImplementedError, match="no order"):
        jtorch.logaddexp2(z, z)


def test_spread_is_that_of_both_parts():
    z = jtorch.tensor([1 + 1j, 3 - 1j], requires_grad=True)
    z.var().backward()
    assert z.var().dtype is jtorch.float32
    assert z.var().item() == 4.0 and z.std(correction=0).item() == pytest.approx(2**0.5)
    assert z.grad.tolist() == [-2 + 2j, 2 - 2j]


PARTS = [complex(a, b) for a in (0.0, np.inf, np.nan) for b in (1.0, -np.inf, np.nan)]


def test_infinite_and_no_numbers_are_told_by_their_parts():
    z = jtorch.tensor(PARTS)
    assert z.isinf().tolist() == [np.inf in (abs(p.real), abs(p.imag)) for p in PARTS]
    small = {"nan": 5.0, "posinf": 7.0, "neginf": -7.0}
    found = jtorch.nan_to_num(z, **small)
    assert found.real.tolist() == [0.0] * 3 + [7.0] * 3 + [5.0] * 3
    assert found.imag.tolist() == [1.0, -7.0, 5.0] * 3
    most = float(np.finfo(np.float32).max)
    assert jtorch.nan_to_num(z)[4].item() == complex(most, -most)


def test_no_numbers_are_close_where_asked():
    x, y = jtorch.tensor([complex(np.nan, 1), 2j]), jtorch.tensor([complex(1, np.nan), 2j])
    assert jtorch.isclose(x, y).tolist() == [False, True]
    assert jtorch.isclose(x, y, equal_nan=True).tolist() == [True, True]


@needs_torch
def test_infinite_and_no_numbers_are_those_of_pytorch():
    ours, theirs = jtorch.tensor(PARTS), torch.tensor(PARTS)
    for f in ("isinf", "isnan", "isfinite", "nan_to_num"):
        found, wanted = getattr(ours, f)(), getattr(theirs, f)()
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_sums_of_exponentials_of_infinite_parts():
    low = complex(-np.inf, 1)
    found = jtorch.logcumsumexp(jtorch.tensor([low, low, 2 + 3j, low]), 0)
    assert found.tolist() == [low, low, 2 + 3j, 2 + 3j]
    assert jtorch.logaddexp(jtorch.tensor(low), jtorch.tensor(1j)).item() == 1j
    assert jtorch.logcumsumexp(jtorch.zeros(0, 2, dtype=jtorch.complex64), 0).shape == (0, 2)


def test_comparison_has_no_order():
    with pytest.raises(NotImplementedError, match="no order"):
        _ = jtorch.tensor([1j]) < jtorch.tensor([2j])


def test_compiled_code_refuses():
    with pytest.raises(CompileError, match="complex"):
        jtorch.compile(lambda z: z * z)(jtorch.tensor([1j]))


def test_the_conjugate_transpose_of_one_number_is_its_conjugate() -> None:
    assert jtorch.tensor(1 + 2j).H.item() == 1 - 2j
    assert jtorch.tensor([[1 + 2j]]).H.tolist() == jtorch.tensor([[1 + 2j]]).mH.tolist() == [[1 - 2j]]
    assert jtorch.tensor(3.0).H.item() == 3


ORDERED = {
    "relu": lambda L, z: L.relu(z),
    "clamp": lambda L, z: L.clamp(z, 0, 1),
    "sign": lambda L, z: L.sign(z),
    "round": lambda L, z: L.round(z),
    "heaviside": lambda L, z: L.heaviside(z, z),
    "isposinf": lambda L, z: L.isposinf(z),
    "softmax": lambda L, z: L.softmax(z, 0),
    "log_softmax": lambda L, z: L.log_softmax(z, 0),
    "leaky_relu": lambda L, z: L.nn.functional.leaky_relu(z),
    "elu": lambda L, z: L.nn.functional.elu(z),
    "gelu": lambda L, z: L.nn.functional.gelu(z),
    "softplus": lambda L, z: L.nn.functional.softplus(z),
    "hardtanh": lambda L, z: L.nn.functional.hardtanh(z),
    "hardswish": lambda L, z: L.nn.functional.hardswish(z),
    "softshrink": lambda L, z: L.nn.functional.softshrink(z),
    "smooth_l1_loss": lambda L, z: L.nn.functional.smooth_l1_loss(z, z),
    "huber_loss": lambda L, z: L.nn.functional.huber_loss(z, z),
    "max_pool1d": lambda L, z: L.nn.functional.max_pool1d(z[None], 2),
    "erf": lambda L, z: L.erf(z),
    "max": lambda L, z: L.max(z),
    "max along a dim": lambda L, z: L.max(z, 0),
    "amin": lambda L, z: L.amin(z, 0),
    "argmax": lambda L, z: L.argmax(z),
    "sort": lambda L, z: L.sort(z),
    "topk": lambda L, z: L.topk(z, 2),
    "median": lambda L, z: L.median(z),
    "kthvalue": lambda L, z: L.kthvalue(z, 1),
    "cummax": lambda L, z: L.cummax(z, 0),
}


@pytest.mark.parametrize("name", ORDERED)
def test_what_orders_numbers_refuses_complex_ones(name):
    """NumPy orders them by their real parts; PyTorch has no such kernels."""
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        ORDERED[name](jtorch, jtorch.tensor([3 + 1j, 1 - 2j, 2 + 0j]))


@needs_torch
@pytest.mark.parametrize("name", ORDERED)
def test_pytorch_refuses_them_too(name):
    with pytest.raises(RuntimeError):
        ORDERED[name](torch, torch.tensor([3 + 1j, 1 - 2j, 2 + 0j]))
