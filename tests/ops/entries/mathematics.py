"""Samples: exponentials, trigonometry, special functions, bits, remainders."""

from __future__ import annotations

import numpy as np

from jtorch.ops.polynomials import DEGREES
from tests.ops.sampling import Sample, entry

SHAPES = ((3, 4), (), (0, 2), (5,))


def _unary(draw, low, high):
    return [Sample((draw.floats(*s, low=low, high=high),)) for s in SHAPES]


@entry("exp2", "sinh", "cosh", "asinh", "atan", "erfc", "erfcx", "ndtr", "log_ndtr", "i0", "i0e", "i1", "i1e")
def _(draw):
    return _unary(draw, -3.0, 3.0)


@entry("tan", "sinc")
def _(draw):
    return _unary(draw, 0.1, 1.3)


@entry("asin", "acos", "atanh", "erfinv")
def _(draw):
    return _unary(draw, -0.9, 0.9)


@entry("log2", "log10", "reciprocal", "lgamma", "digamma", "entr")
def _(draw):
    return _unary(draw, 0.4, 3.0)


@entry("acosh")
def _(draw):
    return _unary(draw, 1.2, 3.0)


@entry("ndtri")
def _(draw):
    return _unary(draw, 0.1, 0.9)


@entry("logit")
def _(draw):
    x = draw.floats(3, 4, low=0.1, high=0.9)
    outside = np.array([-0.5, 0.05, 0.4, 0.97, 1.2])
    return [Sample((x,), {"eps": None}), Sample((outside,), {"eps": 0.1})]


@entry("polygamma")
def _(draw):
    return [Sample((draw.floats(3, 4, low=0.5, high=3.0),), {"n": n}) for n in (1, 2)]


@entry("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0", "airy_ai")
@entry("modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")
def _(draw):
    return _unary(draw, 0.3, 3.0)


@entry("gammainc", "gammaincc")
def _(draw):
    positive = lambda *s: draw.floats(*s, low=0.3, high=3.0)  # noqa: E731
    pairs = (positive(3, 4), positive(4)), (positive(), positive())
    return [Sample(pair, constant=(0,)) for pair in pairs]


@entry("zeta")
def _(draw):
    both = draw.floats(3, 4, low=1.5, high=3.0), draw.floats(4, low=0.5, high=2.0)
    return [Sample(both, constant=(0,))]


@entry("xlogy", "xlog1py")
def _(draw):
    positive = lambda *s: draw.floats(*s, low=0.3, high=3.0)  # noqa: E731
    return [
        Sample((draw.apart(3, 4), positive(3, 4))), Sample((draw.apart(3, 1), positive(4))),
        Sample((draw.apart(0, 3), positive(3))), Sample((draw.apart(), positive())),
    ]  # fmt: skip


@entry("atan2", "hypot", "copysign", "fmod", "divide_and_floor", "divide_and_trunc", "nextafter")
def _(draw):
    others = lambda *s: draw.floats(*s, low=0.6, high=1.9)  # noqa: E731
    return [
        Sample((draw.apart(3, 4), others(3, 4))), Sample((draw.apart(), others())),
        Sample((draw.apart(2, 1, 4), others(3, 1))), Sample((draw.apart(0, 2), others(2))),
        Sample((draw.apart(5), 1.5)),
    ]  # fmt: skip


@entry("fmax", "fmin", "logaddexp", "logaddexp2")
def _(draw):
    shapes = [((3, 4), (3, 4)), ((), ()), ((2, 3, 4), (3, 1)), ((0, 3), (3,))]
    return [Sample((draw.apart(*a), draw.apart(*b, shift=0.013))) for a, b in shapes]


@entry("heaviside")
def _(draw):
    x = draw.apart(3, 4)
    x[1, 1] = 0.0
    return [Sample((x, draw.apart(4))), Sample((draw.apart(), draw.apart()))]


@entry("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
def _(draw):
    ints = lambda *s: draw.ints(*s, low=-9, high=10)  # noqa: E731
    return [Sample((ints(3, 4), ints(4))), Sample((ints(), ints())), Sample((ints(0, 2), ints(2)))]


@entry("bitwise_not")
def _(draw):
    return [Sample((draw.ints(3, 4, low=-9, high=10),)), Sample((draw.bools(5),))]


@entry("left_shift", "right_shift")
def _(draw):
    shifts = np.array([0, 1, 3, 63, 64, 70, -1, -5])
    return [Sample((draw.ints(8, low=-9, high=10), shifts)), Sample((draw.ints(3, 4, low=-9, high=10), 2))]


@entry("addcmul", "addcdiv")
def _(draw):
    divisor = draw.floats(4, low=0.5, high=2.0)
    return [
        Sample((draw.apart(3, 4), draw.apart(3, 1), divisor, 0.5)),
        Sample((draw.apart(4), draw.apart(4), divisor, 1.0)),
    ]


@entry("lerp")
def _(draw):
    return [
        Sample((draw.apart(3, 4), draw.apart(4, shift=0.013), 0.3)),
        Sample((draw.apart(3, 4), draw.apart(3, 1, shift=0.013), 0.75)),
        Sample((draw.apart(3, 4), draw.apart(3, 4), draw.floats(4, low=0.0, high=1.0))),
    ]


@entry("nan_to_num")
def _(draw):
    x = draw.apart(3, 4)
    return [Sample((x,), {"nan": 0.5, "posinf": 9.0, "neginf": -8.0})]


@entry("frexp")
def _(draw):
    return [Sample((np.asarray(4.0 * draw.floats(*s, low=0.6, high=0.9)),)) for s in SHAPES]


@entry("signbit", "isinf", "isposinf", "isneginf", "isreal", "isnan", "isfinite", "logical_not")
def _(draw):
    x = draw.apart(8)
    x[:4] = [np.nan, np.inf, -np.inf, -0.0]
    return [Sample((x,)), Sample((draw.apart(),)), Sample((draw.apart(0, 3),))]


@entry("logical_xor")
def _(draw):
    few = lambda *s: draw.ints(*s, low=0, high=3).astype(np.float64)  # noqa: E731
    return [Sample((few(3, 4), few(3, 4))), Sample((few(), few())), Sample((few(2, 1, 4), few(3, 1)))]


@entry(*DEGREES)
def _(draw):
    degrees = np.array([0.0, 1.0, 2.0, 5.0])
    return [Sample((draw.floats(3, 4, low=-1.2, high=1.2), degrees)), Sample((draw.floats(4), degrees))]
