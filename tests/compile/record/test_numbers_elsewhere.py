"""Numbers that change from call to call in code that is not jtorch's, and as parameters of distributions."""

from __future__ import annotations

import decimal
import json
import math
import statistics
import types

import numpy as np
import pytest

import jtorch
import jtorch.distributions as D
from jtorch.core.errors import CompileError

INTERPRETED = {"mode": "interpret"}  # what is recorded is at stake here, not its kernels


def _item_set(s):
    array = np.ones(2)
    array[0] = s
    return array


NUMPYS = {
    "sqrt": lambda x, s: x * np.sqrt(s),
    "power": lambda x, s: x * np.power(s, 2),
    "add": lambda x, s: x * np.add(s, 1),
    "maximum": lambda x, s: x * np.maximum(s, 2.5),
    "clip": lambda x, s: x * np.clip(s, 0.0, 2.5),
    "round": lambda x, s: x * np.round(s),
    "isfinite": lambda x, s: x if np.isfinite(s) else x * 2,
    "float32": lambda x, s: x * np.float32(s),
    "float64": lambda x, s: np.float64(2) * s * x,
    "array": lambda x, s: x * jtorch.tensor(np.array([s, 1.0])),
    "full": lambda x, s: x * jtorch.from_numpy(np.full(2, s)),
    "linspace": lambda x, s: x * jtorch.from_numpy(np.linspace(0, s, 2)),
    "mean": lambda x, s: x * np.mean([s, 1.0]),
    "item set": lambda x, s: x * jtorch.from_numpy(_item_set(s)),
    "array times": lambda x, s: x * (np.arange(2.0) * s),
    "array as a tensor": lambda x, s: x * jtorch.from_numpy(np.arange(2.0) * s),
    "divided by an array": lambda x, s: x * jtorch.as_tensor(s / np.full(2, 2.0)),
    "array compared": lambda x, s: x * jtorch.from_numpy(np.full(2, 2.5) > s),
    "math": lambda x, s: x * math.sqrt(s) * math.fsum([s, s]),
}
DISTRIBUTIONS = {
    "normal": lambda x, s: D.Normal(x, s).log_prob(x + 1),
    "numbers alone": lambda x, s: D.Normal(s, s).log_prob(x),
    "sample": lambda x, s: D.Normal(x, s).rsample(),
    "entropy": lambda x, s: x * D.Normal(0.0, s).entropy(),
    "divergence": lambda x, s: D.kl_divergence(D.Normal(x, s), D.Normal(0.0, 1.0)),
    "exponential": lambda x, s: D.Exponential(s).log_prob(x),
    "bernoulli": lambda x, s: x * D.Bernoulli(probs=s / 10).log_prob(jtorch.ones(2)),
    "gamma": lambda x, s: D.Gamma(s, 1.0).log_prob(x),
    "independent": lambda x, s: x * D.Independent(D.Normal(x, s), 1).log_prob(x + 1),
}


def _results(f, numbers):
    found = []
    for s in numbers:
        jtorch.manual_seed(0)
        x = jtorch.tensor([0.7, 1.3], requires_grad=True)
        y = f(x, s)
        y.sum().backward()
        found.append((y.detach().numpy(), x.grad.numpy()))
    return found


@pytest.mark.parametrize("programs", [NUMPYS, DISTRIBUTIONS], ids=["numpy", "distributions"])
def test_a_float_argument(programs):
    for name, f in programs.items():
        numbers = [2.0, 3.0, 2.0]
        pairs = zip(_results(jtorch.compile(f, **INTERPRETED), numbers), _results(f, numbers), strict=True)
        for compiled, eager in pairs:
            for a, b in zip(compiled, eager, strict=True):
                assert a.dtype == b.dtype, name
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_counter():
    for name in ("sqrt", "float32", "mean", "array times"):

        def counting(f=NUMPYS[name]):
            counter = types.SimpleNamespace(n=1)

            def step(x, s):
                counter.n += 1
                return f(x, counter.n)

            return step

        compiled = _results(jtorch.compile(counting(), **INTERPRETED), [0.0] * 3)
        for a, b in zip(compiled, _results(counting(), [0.0] * 3), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)


def test_a_parameter_of_a_distribution_is_read_at_each_call():
    f = jtorch.compile(lambda x, s: D.Normal(x, s, validate_args=False).log_prob(x), **INTERPRETED)
    for s in (1.0, 2.0, 3.0):
        expected = -math.log(s) - math.log(math.sqrt(2 * math.pi))
        assert f(jtorch.ones(1), s).item() == pytest.approx(expected, rel=1e-6)
    assert not f.retraces


REFUSED = {
    "a function of NumPy": (lambda x, s: x * np.arctan(np.ones(2) * s)[0], r"np\.arctan\(\) of what"),
    "decimal": (lambda x, s: x * float(decimal.Decimal(x.sum().item())), "stands for it"),
    "json": (lambda x, s: (x, json.dumps([x.sum().item()])), "stands for it"),
    "item": (lambda x, s: x * np.cbrt(x.sum().item()), "keep it a tensor|Keep it a tensor"),
}


def test_what_takes_no_stand_in_is_refused_with_the_line():
    for name, (f, told) in REFUSED.items():
        with pytest.raises(CompileError, match=told) as caught:
            jtorch.compile(f)(jtorch.ones(2), 2.0)
        assert f"{__file__}:{f.__code__.co_firstlineno} in" in str(caught.value), name


PLAIN = {
    "decimal": lambda x, s: x * float(decimal.Decimal(s)),
    "statistics": lambda x, s: x * statistics.mean([s, s]),
}


def test_a_number_that_was_passed_is_a_plain_one_to_what_takes_no_stand_in():
    for name, f in PLAIN.items():
        compiled = jtorch.compile(f, **INTERPRETED)
        for s in (2.0, 0.5, 2.0):
            assert compiled(jtorch.ones(2), s).tolist() == f(jtorch.ones(2), s).tolist(), name
        assert len(compiled.retraces) == 1, name


def test_an_array_computed_with_a_number_that_was_passed():
    compiled = jtorch.compile(lambda x, s: x * jtorch.tensor(np.ones(2) * s), **INTERPRETED)
    for s in (2.0, 0.5, 2.0):
        assert compiled(jtorch.ones(2), s).tolist() == [s, s]
    assert not compiled.retraces


class Item:
    """A class of the user's."""


def _raises(x):
    raise ValueError("Item is missing")


def test_an_error_of_the_users_that_names_a_stand_in_is_theirs():
    for f in (_raises, lambda x: int("Item"), lambda x: int(Item()), lambda x, s=1.0: [s] + x.sum().item()):
        with pytest.raises((ValueError, TypeError)):
            jtorch.compile(f)(jtorch.ones(1))
