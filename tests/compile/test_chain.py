"""Every op, forward and backward: eager = interpreter = optimised = plain Python source = machine code."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.op import BY_NAME, TABLE, Kind
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import leaf
from tests.compile.chain import assert_chain
from tests.each import each
from tests.ops.samples import samples
from tests.ops.support import CASES, DIFFERENTIABLE, call

# in the quick part of the tests: each op's first sample, in float32
DTYPES = [pytest.param("float64", marks=pytest.mark.slow), "float32"]


def _quick_first(cases):
    def slow(case):
        return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])

    return [case if case.values[1] == 0 else slow(case) for case in cases]


def program_of(name, sample):
    """(a function of the sample's tensors alone, those tensors)"""
    places = [k for k, a in enumerate(sample.args) if isinstance(a, np.ndarray)]

    def function(*tensors):
        args = list(sample.args)
        for k, t in zip(places, tensors, strict=True):
            args[k] = t
        return call(name, args, sample)

    return function, [sample.args[k] for k in places]


def _leaves(arrays, requires_grad=False, constant=()):
    return [
        leaf(np.array(a), requires_grad and a.dtype.kind == "f" and k not in constant)
        for k, a in enumerate(arrays)
    ]


def _compiles(k, dtype):
    """Whether the last link is tried: on all samples in float32, on the first in float64, too. (A kernel that
    no cache holds takes some 40 ms.)"""
    return dtype == "float32" or k == 0


@each("dtype", DTYPES, parts=8)
@each("name, k", _quick_first(CASES))
def test_forward(name, k, dtype):
    sample = samples(name)[k].cast(np.dtype(dtype))
    function, arrays = program_of(name, sample)
    with jtorch.no_grad():
        assert_chain(lambda *t: [o.clone() for o in function(*t)], _leaves(arrays), _compiles(k, dtype))


@each("dtype", DTYPES, parts=8)
@each("name, k", _quick_first(DIFFERENTIABLE))
def test_backward(name, k, dtype):
    sample = samples(name)[k].cast(np.dtype(dtype))
    function, arrays = program_of(name, sample)

    def gradients(*tensors):
        outs = [o for o in function(*tensors) if o.requires_grad]
        wanted = [t for t in tensors if t.requires_grad]
        seeds = [jtorch.cos(jtorch.arange(o.numel(), dtype=o.dtype)).reshape(o.shape) for o in outs]
        found = jtorch.autograd.grad(outs, wanted, seeds, allow_unused=True)
        return [g.clone() for g in found if g is not None]

    assert_chain(gradients, _leaves(arrays, True, sample.constant), _compiles(k, dtype))


# -- the corners of numbers --------------------------------------------------------------------------------

FLOATS = ("float32", "float64")
ELEMENTWISE = [  # all but "expect": see test_branches.py
    op.name
    for op in TABLE
    if op.kind is Kind.ELEMENTWISE and op.arrays and not op.statics and op.name != "expect"
]
FLOATS_ONLY = [n for n in ELEMENTWISE if BY_NAME[n].dtype in ("float", "floating")]
INTEGERS_ONLY = ("gcd", "lcm", *(n for n in ELEMENTWISE if BY_NAME[n].integer_text and not BY_NAME[n].text))


def _special(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    least, most = np.finfo(dtype).tiny, np.finfo(dtype).max
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.5,
        3.0,
        np.inf,
        -np.inf,
        np.nan,
        tiny,
        -tiny,
        least,
        most,
        -most,
        88.0,
    ]
    return np.array(values, dtype)


def _integers(dtype):
    info = np.iinfo(dtype)
    signed = [-1, -2, -7] if info.min else []
    return np.array([0, 1, 2, 3, 7, info.min, info.min + 1, info.max, info.max - 1, 5, *signed], dtype)


def _pairs(values, n):
    grid = np.meshgrid(*[values] * n, indexing="ij")
    return [np.ascontiguousarray(g.reshape(-1)) for g in grid]


NOT_OF_FLOATS = ("bounded", "normal", "uniform", "exponential", *INTEGERS_ONLY)


@each("dtype", ["float32", "float64"])
@each("name", [n for n in ELEMENTWISE if n not in NOT_OF_FLOATS])
def test_special_floats(name, dtype):
    op = BY_NAME[name]
    arrays = _pairs(_special(dtype), len(op.arrays))
    if op.dtype == "where":
        arrays[0] = arrays[0] > 0
    with jtorch.no_grad():
        assert_chain(lambda *t: APPLY[name](*t), _leaves(arrays), signs=True)


@each("dtype", ["int64", "int32", "int8", "uint8"])
@each("name", [n for n in ELEMENTWISE if n not in (*FLOATS_ONLY, "where", "bounded")])
def test_special_integers(name, dtype):
    op = BY_NAME[name]
    arrays = _pairs(_integers(dtype), len(op.arrays))
    if op.check is not None:  # a division by zero is an error: see test_statuses
        arrays[1][arrays[1] == 0] = 3
    if name == "pow":
        arrays[1] = np.abs(arrays[1] % 5)
    with jtorch.no_grad():
        assert_chain(lambda *t: APPLY[name](*t), _leaves(arrays))


@each("of", ["float32", "float64", "int64", "int32", "int8", "uint8", "bool"])
@each("to", ["float32", "float64", "int64", "int32", "int8", "uint8", "bool"])
def test_casts(of, to):
    if of.startswith("float"):
        values = np.array([0.0, -0.0, 1.0, -1.7, 2.5, 100.9, -0.3], of)  # what does not fit is undefined
        values = np.abs(values) if to == "uint8" else values
        values = (
            np.concatenate([values, np.array([np.nan, np.inf], of)]) if to in ("bool", *FLOATS) else values
        )
    else:
        values = np.array([True, False]) if of == "bool" else _integers(of)
    with jtorch.no_grad():
        assert_chain(lambda t: t.to(getattr(jtorch, to)).clone(), _leaves([values]), signs=to in FLOATS)


OF_TRUTH_VALUES = ("add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")


@pytest.mark.slow
@each("name", OF_TRUTH_VALUES)
def test_arithmetic_of_truth_values_gives_truth_values(name):
    """Read in the kernel that computes it: True + True is True."""

    def program(x, y):
        found = getattr(jtorch, name)(x > 0, y > 0)
        return found.int() * 3, jtorch.where(found > x, x, y)

    assert_chain(program, [jtorch.tensor([1, 0, 1, 0]), jtorch.tensor([1, 1, 0, 0])])
