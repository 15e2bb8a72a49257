"""Float arguments as exponents and probabilities: what the next value gives, with gradients."""

from __future__ import annotations

import enum
import math

import numpy as np
import pytest

import jtorch

F = jtorch.nn.functional
VALUES = (2.0, 0.5, 1.0, 3.0, 0.25, 1.5, 0.0, -0.5, -1.0, 2.0)


def focal(x, a):
    target = jtorch.tensor([0, 2, 1])
    entropy = F.cross_entropy(x.outer(x), target, reduction="none")
    return ((1 - (-entropy).exp()) ** a * entropy).mean()


POWERS = {
    "x ** a": lambda x, a: x**a,
    "(x * a) ** a": lambda x, a: (x * (a + 2)) ** a,
    "pow": jtorch.pow,
    "pow_": lambda x, a: (x * 1).pow_(a),
    "float_power": lambda x, a: jtorch.float_power(x, a),
    "a ** x": lambda x, a: (a + 2) ** x,
    "lp_pool1d": lambda x, a: F.lp_pool1d(x[None, None], a * a + 1, 2),
    "focal loss": focal,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POWERS)
def test_gradients_of_powers(name):
    def f(start, a):
        x = start.clone().requires_grad_()
        y = POWERS[name](x, a)
        y.sum().backward()
        return y.detach(), x.grad

    compiled = jtorch.compile(f)
    start = jtorch.tensor([1.0, 2.0, 4.0])
    for a in VALUES:
        for found, expected in zip(compiled(start, a), f(start, a), strict=True):
            assert jtorch.allclose(found, expected, equal_nan=True)


def test_an_exponent_that_changes_is_not_recorded_anew():
    def f(start, a):
        x = start.clone().requires_grad_()
        (x**a).sum().backward()
        return x.grad

    compiled = jtorch.compile(f)
    compiled(jtorch.ones(3), 2.5)
    with jtorch.testing.assert_no_retrace(compiled):
        for a in (0.7, -1.25, 3.5):
            assert jtorch.allclose(compiled(jtorch.ones(3) * 2, a), f(jtorch.ones(3) * 2, a))


def test_an_exponent_from_item():
    def f(start, t):
        x = start.clone().requires_grad_()
        (x ** t.item()).sum().backward()
        return x.grad

    compiled = jtorch.compile(f)
    for value in (2.0, 0.5, 3.0):
        t = jtorch.tensor(value)
        assert jtorch.allclose(compiled(jtorch.ones(3) * 2, t), f(jtorch.ones(3) * 2, t))


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [F.dropout, F.dropout1d, F.alpha_dropout])
def test_probabilities_up_to_one(dropout):
    compiled = jtorch.compile(lambda x, p: dropout(x, p))
    for p in (0.5, 1.0, 0.0, 0.3, 1.0):
        x = jtorch.ones(4, 3)
        jtorch.manual_seed(3)
        expected = dropout(x, p)
        jtorch.manual_seed(3)
        assert repr(compiled(x, p)) == repr(expected)
    assert dropout(jtorch.ones(2, 3), 1).tolist() == dropout(jtorch.ones(2, 3), 1.0).tolist()
    assert not math.isnan(dropout(jtorch.ones(2, 3), 1).sum().item())


def test_the_sign_of_zero_counts_where_its_digits_do():
    for f in (lambda x, a: x * math.copysign(1, a), lambda x, a: (x, str(a)), lambda x, a: (x, f"{a:.1f}")):
        compiled = jtorch.compile(f)
        for a in (0.0, -0.0, 0.0, 1.5, -0.0, math.nan):
            assert repr(compiled(jtorch.ones(2), a)) == repr(f(jtorch.ones(2), a))


ASKED = {
    "in": lambda x, a: a in x,
    "is_integer": lambda x, a: x * a.is_integer(),
    "divmod": lambda x, a: x * divmod(7, a)[1] + divmod(a, 2)[0],
    "ratio": lambda x, a: (x, a.as_integer_ratio(), a.hex()),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_python_asks_of_a_float(name):
    f = ASKED[name]
    compiled = jtorch.compile(f)
    for a in (1.0, 2.5, 3.0, 1.0):
        x = jtorch.tensor([1.0, 2.0, 2.5])
        assert repr(compiled(x, a)) == repr(f(x, a))


def test_a_shift_from_item_is_refused():
    with pytest.raises(jtorch.errors.CompileError, match="a size or an index"):
        jtorch.compile(lambda x: x.roll(x.argmax().item()))(jtorch.ones(3))
    assert jtorch.arange(3).roll(jtorch.tensor(1)).tolist() == [2, 0, 1]


NUMPYS = {
    "nan_to_num": lambda x, n: x.nan_to_num(nan=n), "layer_norm": lambda x, n: F.layer_norm(x, (3,), eps=n),
    "rms_norm": lambda x, n: F.rms_norm(x, (3,), eps=n), "addmm": lambda x, n: jtorch.addmm(x, x, x, beta=n),
    "group_norm": lambda x, n: F.group_norm(x, 3, eps=n), "logit": lambda x, n: x.logit(eps=n / 4),
    "batch_norm": lambda x, n: F.batch_norm(x, None, None, training=True, eps=n),
    "attention": lambda x, n: F.scaled_dot_product_attention(x, x, x, scale=n),
    "dropout": lambda x, n: F.dropout(x, n / 4) * 0, "clamp": lambda x, n: x.clamp(n, n),
    "elu": lambda x, n: F.elu(x, n), "x * n": lambda x, n: x * n, "norm": lambda x, n: x.norm(n),
}  # fmt: skip


@pytest.mark.parametrize("number", [2.0])
@pytest.mark.parametrize("name", NUMPYS)
def test_numbers_of_numpy_are_weak(name, number):
    import numpy as np

    x, f = jtorch.rand(3, 3), NUMPYS[name]
    for n in (np.float64(number), np.float32(number)):
        found = f(x, n)
        assert found.dtype is jtorch.float32
        assert jtorch.allclose(found, f(x, number))
        assert jtorch.allclose(jtorch.compile(f)(x, n), found)


class _Asks:
    """What says itself whether it is equal to something."""

    def __eq__(self, other):
        return "equal"

    def __ne__(self, other):
        return "another"

    __hash__ = None


def _told(f, *arguments):
    """What a call gives or raises, in a form that compares."""
    try:
        found = f(*arguments)
    except Exception as error:
        return type(error), str(error)
    parts = found if isinstance(found, tuple) else (found,)
    return [(type(p), p.tolist() if hasattr(p, "tolist") else p) for p in parts]


def _assert_alike(f, kind):
    """Calls with numbers of this kind tell the same compiled."""
    compiled = jtorch.compile(f)
    for n, k in ((3, 3), (3, 2), (4, 2), (5, 5), (3, 1)):
        x = jtorch.arange(1.0, n + 1)
        assert _told(compiled, x, kind(k)) == _told(f, x, kind(k))


COMPARISONS = {
    "k == x": lambda x, k: k == x,
    "k != x": lambda x, k: k != x,
    "(k % 2) != x": lambda x, k: (k % 2) != x,
    "an item == x": lambda x, k: x.sum().item() == x,
    "an item != x": lambda x, k: x.sum().item() != x,
    "a size == x": lambda x, k: x.shape[0] == x,
    "half a size != x": lambda x, k: (x.shape[0] / 2) != x,
    "k == array": lambda x, k: k == np.array([1, 2, 3]),
    "k != array": lambda x, k: k != np.array([1, 2, 3]),
    "k < array": lambda x, k: k < np.array([1, 2, 3]),
    "k < a NumPy number": lambda x, k: (x + 1, k < np.float32(2)),
    "k == an object": lambda x, k: (x + 1, k == _Asks(), k != _Asks(), _Asks() == k),
    "k == something else": lambda x, k: (x + 1, k == "a", k != "a", k == None, k == [1]),  # noqa: E711
    "k in a list": lambda x, k: (x + 1, k in [x[0], 2.0]),
    "index in a list": lambda x, k: (x + 1, [x[1], k].index(k)),
    "lists": lambda x, k: (x + 1, [k] == [x[0]], [k] != [x[0]]),
    "tuples": lambda x, k: (x + 1, (k, 1) == (x[0], 1)),
    "k < complex": lambda x, k: k < 2j,
    "k < text": lambda x, k: k < "a",
    "bits": lambda x, k: k & np.array([1, 2, 3]),
    "divmod(k, x)": lambda x, k: divmod(k, x),
    "divmod(x, k)": lambda x, k: divmod(x, k),
    "divmod(a size, x)": lambda x, k: divmod(x.shape[0], x),
}


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("kind", [float, int])
def test_the_other_operand_is_asked(name, kind):
    """A number on the left of what is none of Python's: Python asks the right one."""
    _assert_alike(COMPARISONS[name], kind)


class _OwnFloat(float):
    """Says itself what operators give of which it is the right operand."""

    def __radd__(self, other):
        return "sum", other * 1

    def __rmul__(self, other):
        return "product"

    def __eq__(self, other):
        return "equal"

    def __gt__(self, other):
        return "greater"

    __hash__ = float.__hash__


class _OwnInt(int):
    def __radd__(self, other):
        return "sum"

    def __rpow__(self, other, modulus=None):
        return "power"

    def __rdivmod__(self, other):
        return "divmod"


class _Plain(float):
    pass


class _Number(enum.IntEnum):
    TWO = 2


OWN_CLASSES = {
    "float": lambda x, k: (k * _OwnFloat(2), k == _OwnFloat(3), k != _OwnFloat(3), k < _OwnFloat(2)),
    "sum": lambda x, k: (x + 1, k + _OwnFloat(2)),
    "in a list": lambda x, k: (x + 1, [k] == [_OwnFloat(3)]),
    "int": lambda x, k: (k + _OwnInt(2), divmod(k, _OwnInt(2)), k ** _OwnInt(2), k - _OwnInt(2)),
    "plain": lambda x, k: (k * _Plain(2), k + _Plain(1), k == _Plain(2.0)),
    "enumeration": lambda x, k: (k == _Number.TWO, k + _Number.TWO),
    "item": lambda x, k: (x.sum().item() * _OwnFloat(2), x.sum().item() == _OwnFloat(2)),
    "size": lambda x, k: (x.shape[0] + _OwnInt(2), x.shape[0] * _OwnInt(2), divmod(x.shape[0], _OwnInt(2))),
}


@pytest.mark.parametrize("name", OWN_CLASSES)
@pytest.mark.parametrize("kind", [float, int])
def test_a_class_derived_from_the_numbers_is_asked_first(name, kind):
    _assert_alike(OWN_CLASSES[name], kind)


JOINT = {  # of a float: numbers computed from it are compared, in the program or in the library
    "uniform_": lambda x, a: x.clone().uniform_(-a, a),
    "uniform_ to": lambda x, a: x.clone().uniform_(0, a * 2),
    "normal_": lambda x, a: x.clone().normal_(mean=a, std=a * 2),
    "init": lambda x, a: jtorch.nn.init.uniform_(x.clone(), a - 1, a + 1),
    "hardtanh": lambda x, a: F.hardtanh(x, -a, a),
    "logit": lambda x, a: jtorch.logit(x.sigmoid(), eps=a / 100),
    "addmm": lambda x, a: jtorch.addmm(x.outer(x), x.outer(x), x.outer(x), beta=a, alpha=a * 2),
    "product": lambda x, a: x * 2 if a * 2 > 100.0 else x * 3,
    "both sides": lambda x, a: x * 2 if a * 2 > a + 50 else x * 3,
    "truth": lambda x, a: x * 2 if a * 2 else x * 3,
    "negated": lambda x, a: x * 2 if -a > 0.0 else x * abs(a * 3),
    "least": lambda x, a: x * min(a / 4, 1.0) + max(a * 0.5, 0.01),
}


@pytest.mark.parametrize("name", JOINT)
def test_what_is_computed_from_a_float_may_be_compared(name):
    f, x = JOINT[name], jtorch.tensor([0.5, 1.0, -2.0])
    compiled = jtorch.compile(f, fullgraph=True)
    for a in (0.1, 0.2, 0.35, 0.6, 0.9, 0.3):
        jtorch.manual_seed(3)
        found = compiled(x, a)
        jtorch.manual_seed(3)
        assert jtorch.allclose(found, f(x, a))
    assert len(compiled.retraces) == 0


ANY = (0.1, -0.5, 0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e300, 1e39, 2, True, 1e-320, 10**400, 0.7)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", JOINT)
def test_any_number_gives_what_eager_mode_gives(name):
    def outcome(f, a):
        jtorch.manual_seed(3)
        try:
            return f(jtorch.tensor([0.5, 1.0, -2.0]), a).tolist()
        except (RuntimeError, ValueError, OverflowError) as error:
            return type(error).__name__, str(error).partition("\n")[0]

    compiled = jtorch.compile(JOINT[name])
    for a in ANY:
        found, expected = outcome(compiled, a), outcome(JOINT[name], a)
        assert type(found) is type(expected), a
        same = found == expected or np.allclose(found, expected, rtol=1e-5, equal_nan=True)
        assert same, (a, found, expected)


def test_two_floats_are_compared_at_each_call():
    def f(x, a, b):
        return x * 2 if a * 2 > b else x * 3 if a > b * 3 else x * 5 if a + b == b + a else x * 7

    compiled, x = jtorch.compile(f), jtorch.ones(2)
    values = (0.1, 0.5, -1.0, math.nan, 2.0, math.inf)
    for a in values:
        for b in values:
            assert compiled(x, a, b).tolist() == f(x, a, b).tolist(), (a, b)
    assert len(compiled.retraces) <= 3


def test_a_long_formula_counts_by_its_numbers():
    def f(x, a):
        total = a
        for _ in range(20):
            total = total * 1.5 + total
        return x * 2 if total > 1e6 else x

    compiled, x = jtorch.compile(f), jtorch.ones(2)
    for a in (0.1, 0.2, 1.0, 1e9):
        assert compiled(x, a).tolist() == f(x, a).tolist()


def test_learning_rates_are_compared_with_an_argument():
    weight = jtorch.ones(2, requires_grad=True)
    optimizer = jtorch.optim.SGD([weight], lr=0.1)

    def f(x, a):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        return weight * 2 if optimizer.param_groups[0]["lr"] * 2 > a * 0.5 else weight * 3

    found = []
    for function in (f, jtorch.compile(f)):
        with jtorch.no_grad():
            weight.fill_(1.0)
        for rate in (0.1, 0.2, 0.05, 0.5, 0.01):
            optimizer.param_groups[0]["lr"] = rate
            found.append(function(jtorch.ones(2), 0.3).tolist())
    assert np.allclose(found[:5], found[5:])
