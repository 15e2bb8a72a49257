"""Activations of nn.functional and their modules against PyTorch, in float64, values and gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import functional as F
from tests.ops.oracle import compare

A = np.linspace(-4.3, 4.1, 24).reshape(2, 4, 3)
B = np.linspace(-3.1, 2.9, 32).reshape(4, 4, 2)
EXACT = {"rtol": 1e-12, "atol": 1e-13}
CALLS = [
    ("relu", ()),
    ("relu6", ()),
    ("elu", (0.7,)),
    ("celu", (0.7,)),
    ("selu", ()),
    ("gelu", ()),
    ("silu", ()),
    ("mish", ()),
    ("hardtanh", (-0.5, 2.0)),
    ("hardsigmoid", ()),
    ("hardswish", ()),
    ("hardshrink", (0.8,)),
    ("softshrink", (0.8,)),
    ("tanhshrink", ()),
    ("threshold", (0.3, -2.0)),
    ("softplus", (1.5, 3.0)),
    ("softsign", ()),
    ("tanh", ()),
    ("sigmoid", ()),
    ("logsigmoid", ()),
    ("glu", (1,)),
    ("softmin", (1,)),
    ("softmax", (2,)),
    ("log_softmax", (-2,)),
    ("leaky_relu", (0.2,)),
    ("rrelu", ()),
    ("rrelu", (0.3, 0.3, True)),
]


@pytest.mark.parametrize(("name", "args"), CALLS, ids=lambda v: v if isinstance(v, str) else "")
def test_equals_pytorch(torch, name, args):
    def call(library, x):
        return getattr(library, name)(x, *args)

    # PyTorch computes the constants of these two in float32
    exact = {"rtol": 1e-7, "atol": 1e-9} if name in ("celu", "hardsigmoid") else EXACT
    compare(call, F, torch.nn.functional, [A], names=name != "rrelu", **exact)
    compare(lambda lib, x: call(lib, x.transpose(0, 2)), F, torch.nn.functional, [B], **exact)
    if name not in ("glu",):
        compare(call, F, torch.nn.functional, [A[:0]], **EXACT)


POINTS = np.array([math.nan, -3.0, 3.0, 0.0, -0.0, 0.5, -0.5, 6.0, 1.0, -1.0, math.inf])
KINKS = [
    "relu6",
    "elu",
    "celu",
    "selu",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "hardshrink",
    "softshrink",
    "leaky_relu",
    "threshold",
    "mish",
    "silu",
]


@pytest.mark.parametrize("name", KINKS)
def test_at_kinks_and_for_nan(torch, name):
    def call(library, x):
        return getattr(library, name)(x, *((0.5, 0.25) if name == "threshold" else ()))

    # PyTorch's gradients of mish and silu at inf are NaN as inf * 0; so are ours
    points = POINTS[_of_one_mind(torch, lambda x: call(torch.nn.functional, x))]
    compare(call, F, torch.nn.functional, [points], rtol=1e-7, atol=1e-12)


def _of_one_mind(torch, call):
    """Where PyTorch gives the same gradient in its vector registers as in the rest of a row, which it
    computes one by one: of elu, hardtanh and some others at NaN it does not, and which registers those are
    depends on the processor."""

    def gradients(times):
        x = torch.tensor(np.repeat(POINTS, times)).requires_grad_()
        for row in x.split(times):
            call(row).sum().backward()
        return x.grad.numpy().reshape(-1, times)

    alone, together = gradients(1)[:, 0], gradients(64)[:, 0]
    return (alone == together) | (np.isnan(alone) & np.isnan(together))


INPLACE = [
    ("relu", ()),
    ("relu6", ()),
    ("elu", (0.7,)),
    ("celu", (0.7,)),
    ("selu", ()),
    ("silu", ()),
    ("mish", ()),
    ("hardtanh", (-0.5, 2.0)),
    ("hardsigmoid", ()),
    ("hardswish", ()),
    ("threshold", (0.3, -2.0)),
    ("leaky_relu", (0.2,)),
    ("rrelu", ()),
]


@pytest.mark.parametrize(("name", "args"), INPLACE, ids=lambda v: v if isinstance(v, str) else "")
def test_inplace_overwrites_and_has_the_same_gradient(name, args):
    x = jtorch.tensor(A, requires_grad=True)
    y = x * 1.0
    address = y.data_ptr()
    out = getattr(F, name)(y, *args, inplace=True)
    expected = getattr(F, name)(jtorch.tensor(A), *args)
    assert out is y and y.data_ptr() == address
    np.testing.assert_array_equal(y.detach().numpy(), expected.numpy())
    out.sum().backward()
    other = jtorch.tensor(A, requires_grad=True)
    getattr(F, name)(other, *args).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), other.grad.numpy())


@pytest.mark.parametrize("name", ["relu_", "elu_", "celu_", "selu_", "leaky_relu_", "hardtanh_", "rrelu_"])
def test_underscored_functions_overwrite(name):
    x = jtorch.tensor(A)
    assert getattr(F, name)(x) is x
    np.testing.assert_array_equal(x.numpy(), getattr(F, name[:-1])(jtorch.tensor(A)).numpy())


def test_top_level_names(torch):
    for name in ("relu_", "celu", "celu_", "selu", "selu_", "rrelu", "threshold", "prelu", "hardshrink"):
        assert callable(getattr(jtorch, name)) and callable(getattr(torch, name))


@pytest.mark.parametrize(
    ("shape", "count"), [((2, 4, 3), 4), ((2, 4), 1), ((5,), 1), ((), 1), ((2, 3, 2, 2), 3)]
)
def test_prelu(torch, shape, count):
    x, weight = np.random.default_rng(0).standard_normal(shape), np.linspace(0.1, 0.4, count)
    compare(lambda lib, a, w: lib.prelu(a, w), F, torch.nn.functional, [np.asarray(x), weight], **EXACT)


ERRORS = [
    (lambda F, x: F.prelu(x.ones(2, 3), x.ones(2)), "Mismatch of parameter numbers and input channel size"),
    (lambda F, x: F.prelu(x.tensor(1.0), x.ones(2)), "Not allow zero-dim input tensor"),
    (lambda F, x: F.glu(x.ones(3, 3)), "Halving dimension must be even, but dimension 1 is size 3"),
    (lambda F, x: F.glu(x.tensor(1.0)), "glu does not support scalars because halving size must be even"),
    (
        lambda F, x: F.rrelu(x.ones(2), 0.5, 0.1),
        "Lower bound should be less than or equal to the upper bound",
    ),
    (lambda F, x: F.celu(x.ones(2), 0.0), "ZeroDivisionError: alpha cannot be 0 for CELU"),
    (lambda F, x: F.gelu(x.ones(2), approximate="no"), "approximate argument must be either none or tanh"),
    (lambda F, x: F.softmax(x.ones(2), 3), "Dimension out of range"),
]


@pytest.mark.parametrize(("act", "text"), ERRORS, ids=[text[:30] for _, text in ERRORS])
def test_errors(torch, act, text):
    for library in (jtorch, torch):
        with pytest.raises((RuntimeError, IndexError), match=text):
            act(library.nn.functional, library)


def test_softmax_over_nothing_and_of_a_number():
    for name in ("softmax", "log_softmax", "softmin"):
        assert getattr(F, name)(jtorch.ones(2, 0), 1).shape == (2, 0)
        assert getattr(F, name)(jtorch.ones(0, 2), 1).shape == (0, 2)
    x = jtorch.ones(0, 3, requires_grad=True)
    F.softmax(x, 0).sum().backward()
    assert x.grad.shape == (0, 3)
    assert jtorch.softmax(jtorch.tensor(3.0), 0).item() == 1.0


def test_softmax_in_another_dtype_and_with_the_implicit_dim():
    ints = jtorch.tensor([[1, 2], [3, 5]])
    assert jtorch.softmax(ints, 1, dtype=jtorch.float64).dtype is jtorch.float64
    with pytest.warns(UserWarning, match="Implicit dimension choice for log_softmax has been deprecated"):
        out = F.log_softmax(jtorch.ones(2, 4))
    np.testing.assert_allclose(out.numpy(), -math.log(4), rtol=1e-6)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert nn.Softmax()(jtorch.ones(2, 4, 3)).sum(0).tolist()[0][0] == 1.0


def test_rrelu_draws_slopes_between_its_bounds():
    jtorch.manual_seed(3)
    x = jtorch.full((500,), -1.0, requires_grad=True)
    out = F.rrelu(x, 0.1, 0.3, training=True)
    out.sum().backward()
    slopes = -out.detach().numpy()
    assert 0.1 <= slopes.min() < 0.12 and 0.28 < slopes.max() < 0.3
    np.testing.assert_array_equal(x.grad.numpy(), slopes)
    layer = nn.RReLU().eval()
    assert layer(jtorch.tensor([-3.0])).item() == pytest.approx(-3 * (1 / 8 + 1 / 3) / 2)


def test_gumbel_softmax():
    jtorch.manual_seed(0)
    logits = jtorch.zeros(2000, 3, requires_grad=True) + jtorch.tensor([0.0, 1.0, 2.0])
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(1).detach().numpy(), 1.0, rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    ones = np.round(hard.detach().numpy())
    np.testing.assert_allclose(hard.detach().numpy(), ones, atol=1e-6)
    odds = np.exp([0.0, 1.0, 2.0])
    np.testing.assert_allclose(ones.mean(0), odds / odds.sum(), atol=0.04)
    assert hard.requires_grad
    with pytest.warns(UserWarning, match="`eps` parameter is deprecated"):
        F.gumbel_softmax(logits, eps=0.1)


MODULES = [
    ("RReLU", ()),
    ("Hardtanh", ()),
    ("ReLU6", ()),
    ("Hardsigmoid", ()),
    ("Hardswish", ()),
    ("ELU", ()),
    ("CELU", ()),
    ("SELU", ()),
    ("GLU", (1,)),
    ("GELU", ()),
    ("Hardshrink", ()),
    ("LeakyReLU", ()),
    ("LogSigmoid", ()),
    ("Softplus", ()),
    ("Softshrink", ()),
    ("PReLU", ()),
    ("PReLU", (4, 0.5)),
    ("Softsign", ()),
    ("Tanhshrink", ()),
    ("Softmin", (1,)),
    ("Softmax", (1,)),
    ("Softmax2d", ()),
    ("LogSoftmax", (2,)),
    ("Mish", ()),
    ("SiLU", ()),
    ("Threshold", (1, 2)),
    ("ReLU", (True,)),
    ("SiLU", (True,)),
    ("ELU", (1.0, True)),
    ("LeakyReLU", (0.1, True)),
    ("ReLU6", (True,)),
    ("Hardtanh", (-2.0, 3.0, True)),
    ("CELU", (1.0, True)),
    ("Threshold", (1, 2, True)),
    ("Mish", (True,)),
    ("Tanh", ()),
    ("RReLU", (0.1, 0.2, True)),
    ("Sigmoid", ()),
    ("ReLU", ()),
]


@pytest.mark.parametrize(("name", "args"), MODULES, ids=lambda v: v if isinstance(v, str) else "")
def test_modules(torch, name, args):
    ours, theirs = getattr(nn, name)(*args).eval(), getattr(torch.nn, name)(*args).eval()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = A.astype(np.float32)
    expected = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(jtorch.tensor(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_hardtanh_bounds():
    with pytest.raises(AssertionError, match=r"max_val \(0\) must be greater than min_val \(1\)"):
        nn.Hardtanh(1, 0)
    with pytest.raises(ValueError, match="Softmax2d: expected input to be 3D or 4D, got 2D instead"):
        nn.Softmax2d()(jtorch.ones(2, 2))


@pytest.mark.parametrize("wrap", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 1.1, 2.3])
def test_hardshrink_of_16_bits_compares_with_the_rounded_bound(torch, bound, wrap):
    def outcome(library, wrap):
        x = library.tensor([bound, -bound, 2 * bound, 0.0]).half().requires_grad_()
        out = wrap(lambda x: library.nn.functional.hardshrink(x, bound))(x)
        out.sum().backward()
        return out.tolist(), x.grad.tolist()

    assert outcome(jtorch, wrap) == outcome(torch, lambda f: f)


def test_integers_are_counted_as_floats_or_kept():
    x = jtorch.tensor([-3, 0, 1])
    assert F.softsign(x).tolist() == [-0.75, 0.0, 0.5]
    np.testing.assert_allclose(F.tanhshrink(x).numpy(), x.numpy() - np.tanh(x.numpy()), rtol=1e-6)
    assert jtorch.threshold(x, 0.5, 9.7).tolist() == F.threshold(x, 0.5, 9.7).tolist() == [9, 9, 1]
