"""Numbers that the tape saves and only a replay knows: float arguments, counters, what ``.item()`` gives."""

from __future__ import annotations

import types
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.utils.checkpoint import checkpoint

INTERPRETED = {"mode": "interpret"}  # what is recorded is at stake here, not its kernels

OPS = {
    "multiply": lambda x, s: x**3 * s,
    "divide": lambda x, s: x**3 / s,
    "divided": lambda x, s: s / x,
    "power": lambda x, s: x**s,
    "base": lambda x, s: s**x,
    "clamp": lambda x, s: (x * x).clamp(-s, s),
    "alpha": lambda x, s: jtorch.add(x, x * x, alpha=s),
    "lerp": lambda x, s: jtorch.lerp(x, x * x, s),
    "leaky_relu": lambda x, s: F.leaky_relu(-x * x, s),
    "elu": lambda x, s: F.elu(-x * x, s),
    "celu": lambda x, s: F.celu(-x * x, s),
    "softplus": lambda x, s: F.softplus(x, s),
    "huber_loss": lambda x, s: F.huber_loss(x * x, x, delta=s),
    "smooth_l1_loss": lambda x, s: F.smooth_l1_loss(x * x, x, beta=s),
    "where": lambda x, s: jtorch.where(x > 1, x * x, s) * x,
    "addcmul": lambda x, s: jtorch.addcmul(x, x, x, value=s),
    "addcdiv": lambda x, s: jtorch.addcdiv(x, x, x * x + 1, value=s),
    "addmv": lambda x, s: jtorch.addmv(x, jtorch.outer(x, x), x, alpha=s, beta=s),
    "xlogy": lambda x, s: jtorch.xlogy(x * x, s) * x,
    "logarithm of the number": lambda x, s: jtorch.xlogy(s, x) * x,
    "threshold": lambda x, s: F.threshold(x * x, s, 0.5),
    "hardtanh": lambda x, s: F.hardtanh(x * x, -s, s),
    "in place": lambda x, s: (x * x).mul_(s),
    "masked": lambda x, s: (x * x).masked_fill(x > 1, s) * x,
    "norm": lambda x, s: (x * x).norm(p=s + 1),
    "dropout": lambda x, s: F.dropout(x * x, 0.3 / s),
    "arithmetic": lambda x, s: x ** (s + 1) * s**2 / (s + 0.5),
}


def _inside(op, x, s):
    op(x, s).sum().backward()
    return x.grad


def _twice(op, x, s):
    (g,) = jtorch.autograd.grad(op(x, s).sum() + (x**3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    return x.grad


def _checkpointed(op, x, s):
    checkpoint(lambda v: op(v, s), x, use_reentrant=False).sum().backward()
    return x.grad


def _through_hooks(op, x, s):
    with jtorch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = op(x, s)
    y.sum().backward()
    return x.grad


def _hessian(op, x, s):
    return jtorch.func.hessian(lambda v: op(v, s).sum() + (v**3).sum())(x.detach())


def _jacobian(op, x, s):
    return jtorch.func.jacrev(lambda v: op(v, s))(x.detach())


WAYS = {
    "backward": _inside,
    "create_graph": _twice,
    "checkpoint": _checkpointed,
    "saved_tensors_hooks": _through_hooks,
    "hessian": _hessian,
    "jacrev": _jacobian,
}


def _results(f, numbers):
    found = []
    for s in numbers:
        jtorch.manual_seed(3)
        found.append(f(jtorch.tensor([0.7, 1.3, 1.9], requires_grad=True), s).numpy())
    return found


def _assert_equal(f, g, numbers, what):
    for a, b in zip(_results(f, numbers), _results(g, numbers), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=what)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_float_argument(way):
    for name, op in OPS.items():
        compiled = jtorch.compile(lambda x, s, op=op: WAYS[way](op, x, s), **INTERPRETED)
        _assert_equal(compiled, lambda x, s, op=op: WAYS[way](op, x, s), [2.0, 3.0, 2.5], f"{way} of {name}")


@pytest.mark.parametrize("way", ["create_graph", "checkpoint", "saved_tensors_hooks"])
def test_a_number_of_item(way):
    numbers = [jtorch.tensor(s) for s in (2.0, 3.0)]
    for name in ("multiply", "divide", "alpha", "lerp", "leaky_relu", "addcmul", "clamp"):
        op = OPS[name]

        def f(x, s, op=op):
            return WAYS[way](op, x, s.item())

        _assert_equal(jtorch.compile(f, **INTERPRETED), f, numbers, f"{way} of {name}")


@pytest.mark.parametrize("first", [1, 1.0])
def test_a_counter(first):
    for name in ("multiply", "divide", "alpha", "addcmul"):

        def counting(op=OPS[name]):
            counter = types.SimpleNamespace(n=first)

            def f(x, s):
                counter.n += 1
                return _twice(op, x, counter.n)

            return f

        _assert_equal(jtorch.compile(counting()), counting(), [0.0] * 3, name)


def test_a_gradient_penalty_is_recorded_once():
    @jtorch.compile
    def penalty(x, weight):
        y = (x**3 * weight).sum()
        (g,) = jtorch.autograd.grad(y, x, create_graph=True)
        return ((g.norm() - 1) ** 2).item()

    for weight in (2.0, 3.0, 4.0):
        assert penalty(jtorch.ones(1, requires_grad=True), weight) == (3 * weight - 1) ** 2
    assert not penalty.retraces


BASES = [2.0, 2, 0.0, 0, -1.5, -2, 0.5, 1, 3.1]
POWERS = {
    "operator": lambda base, x: base**x,
    "pow": lambda base, x: jtorch.pow(base, x),
    "float_power": lambda base, x: jtorch.float_power(base, x),
    "xlogy": lambda base, x: jtorch.xlogy(x, base),
}
TOLERANCES = {jtorch.float16: 2e-2, jtorch.float32: 2e-5, jtorch.float64: 1e-10}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_the_gradient_of_a_number_to_the_power_of_a_tensor(dtype):
    torch = pytest.importorskip("torch")
    exponents = [0.0, 0.75, -1.25, 1.0, 2.5]

    def gradients(library, power, base, x):
        y = power(base, x)
        (g,) = library.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = library.autograd.grad((g * g).sum(), x)
        return g.detach(), second

    theirs = {
        "operator": lambda base, x: base**x, "pow": torch.pow, "float_power": torch.float_power,
        "xlogy": lambda base, x: torch.xlogy(x, base),
    }  # fmt: skip
    for name, power in POWERS.items():
        for base in BASES:
            x = jtorch.tensor(exponents, dtype=dtype, requires_grad=True)
            t = torch.tensor(exponents, dtype=getattr(torch, str(dtype).split(".")[1]), requires_grad=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                compiled = jtorch.compile(
                    lambda x, p=power, b=base: gradients(jtorch, p, b, x), **INTERPRETED
                )(x)
                eager = gradients(jtorch, power, base, x)
            expected = gradients(torch, theirs[name], base, t)
            for a, b, c in zip(compiled, eager, expected, strict=True):
                assert a.dtype is b.dtype is dtype
                limits = {"rtol": TOLERANCES[dtype], "atol": TOLERANCES[dtype], "err_msg": f"{base} {name}"}
                np.testing.assert_allclose(a.numpy(), b.numpy(), **limits)
                np.testing.assert_allclose(b.numpy(), c.numpy(), **limits)


def test_the_gradient_of_ldexp():
    def f(x, n):
        jtorch.ldexp(x, n).sum().backward()
        return x.grad, n.grad

    def arguments():
        return (jtorch.tensor([1.0, 3.0], requires_grad=True), jtorch.tensor([2.0, 3.0], requires_grad=True))

    for a, b in zip(f(*arguments()), jtorch.compile(f)(*arguments()), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
