"""Ops of 16-bit floats as one op: one node, the bits of three, and what PyTorch keeps and gives."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.core.narrow import narrow_ops, narrowed
from jtorch.core.op import BY_NAME, TABLE
from jtorch.eager import machine
from tests.machine_code import needs_machine_code

ONE = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "cumsum",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logit",
    "mean",
    "neg",
    "prod",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "softmax",
    "sqrt",
    "square",
    "std",
    "sum",
    "tan",
    "tanh",
    "trunc",
    "var",
    "norm",
]
FUNCTIONAL = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
]
TWO = [
    "add",
    "div",
    "fmod",
    "fmax",
    "fmin",
    "logaddexp",
    "maximum",
    "minimum",
    "mul",
    "pow",
    "remainder",
    "sub",
    "xlogy",
]
COMPARISONS = ["eq", "ge", "gt", "le", "lt", "ne"]
WITH_NUMBERS = {
    "x * 2.3": lambda m, x: x * 2.3,
    "3 + x": lambda m, x: 3 + x,
    "1.1 - x": lambda m, x: 1.1 - x,
    "x / 0.3": lambda m, x: x / 0.3,
    "0.3 / x": lambda m, x: 0.3 / x,
    "x ** 2": lambda m, x: x**2,
    "x > 0.3": lambda m, x: x > 0.3,
    "clamp": lambda m, x: x.clamp(-0.3, 0.7),
    "where": lambda m, x: m.where(x > 0, x, 0.3),
}
SHAPES = [(3, 5), (72, 90)]  # NumPy computes the first, kernels the second
DTYPES = ["bfloat16", "float16"]
PLACE = 2.0  # units, of one last place, at most


def _call(m, name, tensors):
    functional = m.nn.functional
    if name in WITH_NUMBERS:
        return WITH_NUMBERS[name](m, tensors[0])
    if name in ("softmax", "cumsum"):
        return getattr(m, name)(tensors[0], -1)
    return getattr(functional if name in FUNCTIONAL else m, name)(*tensors)


def _arrays(name, shape):
    rng = np.random.default_rng(len(name))
    count = 2 if name in (*TWO, *COMPARISONS) else 1
    return [(rng.standard_normal(shape) * 1.5).astype(np.float32) for _ in range(count)]


def _run(m, name, arrays, dtype):
    """The result and the gradients: (dtype, elements in float32) of each."""
    leaves = [m.tensor(a).to(getattr(m, dtype)).requires_grad_() for a in arrays]
    out = _call(m, name, leaves)
    found = [out]
    if out.requires_grad:
        found += m.autograd.grad(out, leaves, m.full_like(out, 0.75), allow_unused=True)
    return [None if t is None else (str(t.dtype).split(".")[-1], t.detach().float().numpy()) for t in found]


def _unit(dtype):
    return 2.0**-8 if dtype == "bfloat16" else 2.0**-11


def _units(a, b, dtype):
    """By how many units of the last place they differ, at most."""
    least = 2.0 ** (-126 if dtype == "bfloat16" else -14)  # below, units are no smaller
    with np.errstate(all="ignore"):
        far = np.abs(a - b) / (np.maximum(np.maximum(np.abs(a), np.abs(b)), least) * _unit(dtype))
    return float(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, far).max())


# whose number is itself rounded to 16 bits, as PyTorch does
ROUNDED_BEFORE = {"1.1 - x", "0.3 / x", "x > 0.3", "clamp", "where"}
CALLS = [*ONE, *FUNCTIONAL, *TWO, *COMPARISONS, *WITH_NUMBERS]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_further_from_the_truth_than_in_pytorch(name, dtype, shape):
    torch = pytest.importorskip("torch")
    arrays = _arrays(name, shape)
    rounded = [jtorch.tensor(a).to(getattr(jtorch, dtype)).double().numpy() for a in arrays]
    ours, theirs = _run(jtorch, name, arrays, dtype), _run(torch, name, arrays, dtype)
    truth = _run(torch, name, rounded, "float64")
    assert [t and t[0] for t in ours] == [t and t[0] for t in theirs]
    for mine, their, (_, true) in zip(ours, theirs, truth, strict=True):
        (far, most), unit = (_worst(part[1], true, dtype) for part in (mine, their)), 1.01
        assert far <= most + unit


def _worst(found, true, dtype):
    """The largest error in units, where neither is infinite or no number; small numbers are sums of larger
    ones."""
    one = np.maximum(np.abs(true), 0.05) * _unit(dtype)
    with np.errstate(all="ignore"):
        return float(np.nan_to_num(np.abs(found - true) / one, nan=0.0, posinf=0.0).max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ROUNDED_BEFORE])
def test_the_result_is_that_in_float32_rounded_once(name, dtype, shape):
    arrays = _arrays(name, shape)
    leaves = [jtorch.tensor(a).to(getattr(jtorch, dtype)) for a in arrays]
    wide = _call(jtorch, name, [t.float() for t in leaves])
    wanted = wide.to(getattr(jtorch, dtype)).float() if wide.is_floating_point() else wide.float()
    found = _call(jtorch, name, leaves).float()
    # kernels and NumPy have functions of their own, whose last bit of float32 may round otherwise
    assert _units(found.numpy(), wanted.numpy(), dtype) <= PLACE
    assert (found == wanted).float().mean() > 0.99 or found.isnan().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_a_recording_gives_the_same(name, dtype):
    arrays = _arrays(name, SHAPES[1])
    leaves = [jtorch.tensor(a).to(getattr(jtorch, dtype)).requires_grad_() for a in arrays]

    def step(*leaves):
        for leaf in leaves:
            leaf.grad = None
        out = _call(jtorch, name, leaves)
        if out.requires_grad:
            (out.float() * 0.75).sum().backward()
        return out.detach()

    def given(function):
        out = function(*leaves).float()
        return [out, *[leaf.grad.float().clone() for leaf in leaves if leaf.grad is not None]]

    eager, compiled = given(step), given(jtorch.compile(step))
    for a, b in zip(eager, compiled, strict=True):
        assert _units(a.numpy(), b.numpy(), dtype) <= PLACE
        assert ((a == b) | a.isnan() & b.isnan()).float().mean() > 0.99


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
def test_it_is_one_node_that_keeps_16_bits(dtype):
    x = jtorch.randn(4, 6).to(dtype).requires_grad_()
    for function, saved in ((jtorch.exp, "result"), (F.gelu, "self"), (lambda t: t * 2.5, None)):
        node = function(x).grad_fn
        (below, _), *_ = node.next_functions
        assert below.variable is x
        if saved is not None:
            assert getattr(node, f"_saved_{saved}").dtype == dtype


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
@pytest.mark.parametrize("n", [8, 9000])
def test_gradients_that_meet_are_rounded_once(dtype, n):
    parts = [jtorch.randn(n).to(dtype) for _ in range(3)]
    x = jtorch.randn(n).to(dtype).requires_grad_()
    y = x * 1
    total = (y * parts[0]).float().sum() + (y * parts[1]).float().sum() + (y * parts[2]).float().sum()
    total.backward()
    sums = {
        ((a.float() + b.float()).to(dtype).float() + c.float()).to(dtype)
        for a, b, c in itertools.permutations(parts)
    }
    assert any((x.grad == each).all() for each in sums)
    held, before = x.grad, x.grad.clone()
    (x * parts[0]).float().sum().backward()
    assert x.grad is held and (held == (before.float() + parts[0].float()).to(dtype)).all()


def test_a_gradient_can_be_differentiated_again():
    x = jtorch.linspace(-1, 1, 5000).bfloat16().requires_grad_()
    (first,) = jtorch.autograd.grad(jtorch.tanh(x).float().sum(), x, create_graph=True)
    (second,) = jtorch.autograd.grad(first.float().sum(), x)
    wide = x.detach().double()
    wanted = -2 * jtorch.tanh(wide) * (1 - jtorch.tanh(wide) ** 2)
    assert first.dtype == second.dtype == jtorch.bfloat16
    assert (second.double() - wanted).abs().max() < 0.01


@needs_machine_code
def test_machine_code_of_16_bits_is_asked_for_at_the_first_call():
    fresh = machine.shortcut(BY_NAME["sub"])
    x, y = jtorch.full((2,), 3.0).half(), jtorch.ones(2).half()
    for _ in range(3):
        assert fresh(x, y).tolist() == [2.0, 2.0] and fresh(x, y).dtype == jtorch.float16
    assert fresh(x, y.bfloat16()) is None, "which Python casts"
    assert fresh(x.float(), y.float()).dtype == jtorch.float32


def test_a_watch_at_the_first_call_sees_each_call_once_and_none_after_it():
    program = """
import jtorch
from jtorch.profiler import profile
x = jtorch.ones(4, 8).bfloat16()
with profile() as first:
    for _ in range(3):
        x.tanh(), x.log_softmax(-1)
with profile() as second:
    x.tanh()
print(*[(row.key, row.count) for prof in (first, second) for row in prof.key_averages()])
"""
    command = [sys.executable, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.split("(")[1:] == ["'tanh', 3) ", "'log_softmax', 3) ", "'tanh', 1)\n"]


def test_numbers_that_16_bits_do_not_hold():
    x = jtorch.ones(3, dtype=jtorch.float16)
    assert (x * 1e6).tolist() == [float("inf")] * 3
    assert (x * float("inf")).tolist() == [float("inf")] * 3
    assert (x.bfloat16() * 1e6).tolist() == [999424.0] * 3


def test_operands_in_other_orders_and_sizes():
    a = jtorch.randn(80, 90).bfloat16()
    b = jtorch.randn(90, 80).bfloat16()
    wanted = (a.float() + b.float().T).bfloat16()
    assert (a + b.T == wanted).all()
    assert (a[:, ::2] * a[:, 1::2] == (a.float()[:, ::2] * a.float()[:, 1::2]).bfloat16()).all()
    assert (a + a[0] == (a.float() + a.float()[0]).bfloat16()).all()
    assert (a.expand(3, 80, 90) + 1 == (a.float() + 1).bfloat16()).all()


def test_each_is_of_an_op_of_the_table():
    indices = [op.index for op in narrow_ops()]
    assert indices == list(range(len(TABLE), len(TABLE) + len(indices)))
    assert {"exp", "add", "softmax", "linear"} <= {op.name for op in narrowed()}
    assert all(op.vjp_function is None for op in narrow_ops() if op.narrows.vjp_function is None)
