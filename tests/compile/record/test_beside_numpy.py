"""A number that each call brings, beside one of NumPy's: NumPy's arithmetic, dtypes and classes."""

from __future__ import annotations

import operator
import random
import types
import warnings

import numpy as np
import pytest

import jtorch

OTHERS = {
    "float64": np.float64(0.5), "float32": np.float32(0.5), "float16": np.float16(0.5), "int64": np.int64(3),
    "int32": np.int32(3), "bool": np.bool_(True), "0-d": np.array(0.5), "0-d int": np.array(2),
    "array": np.array([1.0, 2.0], np.float32), "ints": np.arange(1, 3), "longdouble": np.longdouble(0.5),
    "zero": np.float64(0.0),
}  # fmt: skip
OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.ge, operator.eq, operator.ne, np.add, np.multiply, np.divide, np.power, np.maximum,
    np.less, divmod,
)  # fmt: skip


def _number(kind, state):
    """Functions of (a tensor, a float, an int) that give a number of the call."""
    return {
        "a float": lambda x, a, n: a,
        "an int": lambda x, a, n: n,
        "an item": lambda x, a, n: x.sum().item(),
        "an item of integers": lambda x, a, n: x.long().sum().item(),
        "a bool": lambda x, a, n: (x > 1).any().item(),
        "a state that counts": lambda x, a, n: _counted(state),
        "a draw": lambda x, a, n: random.random(),
    }[kind]


def _counted(state):
    state.n = state.n + 1
    return state.n


KINDS = ("a float", "an int", "an item", "an item of integers", "a bool", "a state that counts", "a draw")


def _shown(value):
    if isinstance(value, jtorch.Tensor):
        return "tensor", value.dtype, value.tolist()
    return type(value).__name__, getattr(value, "dtype", None), np.asarray(value).tolist()


def _told(f, state, before, arguments):
    state.n = before
    random.seed(0)
    told = []
    for given in arguments:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = f(*given)
            told.append([_shown(v) for v in found])
        except Exception as error:
            told.append(type(error).__name__)
    return repr(told), state.n


@pytest.mark.parametrize(
    "kind", [*KINDS[:2], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[2:])]
)
def test_arithmetic_is_numpys(kind):
    arguments = [(jtorch.tensor([v, 0.25]), v, k) for k, v in ((2, 1.5), (3, -1.5), (0, -0.25), (5, 2.5))]
    compared = 0
    for other in OTHERS.values():
        for op in OPERATORS:
            state = types.SimpleNamespace(n=4)
            number = _number(kind, state)

            def left(x, a, n, op=op, other=other, number=number):
                found = op(number(x, a, n), other)
                return (found,) if isinstance(found, tuple) else (found, x * 1)

            def right(x, a, n, op=op, other=other, number=number):
                found = op(other, number(x, a, n))
                return (*found, x * 2) if isinstance(found, tuple) else (found, jtorch.tensor(found), x * 2)

            for function in (left, right):
                expected = _told(function, state, 4, arguments)
                assert _told(jtorch.compile(function, fullgraph=False), state, 4, arguments) == expected, (
                    kind,
                    op,
                    other,
                )
                compared += 1
    assert compared == 2 * len(OTHERS) * len(OPERATORS)


def test_what_is_a_numpy_bool_is_inverted_as_one():
    limit = np.float64(0.5)

    def f(x):
        above = x.sum().item() > limit
        return x * ~above

    compiled = jtorch.compile(f, fullgraph=False)
    for v in (1.0, 0.0, 2.0):
        x = jtorch.tensor([v, 0.25])
        assert compiled(x).tolist() == f(x).tolist()


def test_a_discounted_sum_stays_numpys():
    def run(wrap):
        gamma = np.power(0.9, np.arange(5))
        state = types.SimpleNamespace(total=0.0, i=0)

        @wrap
        def f(reward):
            state.total = state.total + gamma[state.i] * reward
            state.i += 1
            return jtorch.tensor(state.total)

        return [(f(r).dtype, f(r).item(), type(state.total)) for r in (1.0, 2.0)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)


def test_counts_that_no_int64_holds_run_eagerly():
    def run(wrap):
        state = types.SimpleNamespace(n=5)

        @wrap
        def f(x):
            state.n = state.n + 1
            return x * (state.n % 2**63) * (state.n // 10**20 + 1)

        return [f(jtorch.ones(1)).item() for _ in range(4)], state.n

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile(fullgraph=False)) == run(lambda f: f)
