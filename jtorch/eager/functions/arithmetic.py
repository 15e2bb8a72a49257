"""Elementwise functions put together from ops: second signatures, aliases and checks of dtypes.

Source: https://docs.pytorch.org/docs/stable/torch.html#math-operations
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.early import factor_first
from jtorch.core.number_ranges import PLAIN, check_beside, check_number, number_type
from jtorch.core.op import BY_NAME
from jtorch.core.return_types import ALL as RESULTS
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.inplace import in_place, in_place_function
from jtorch.eager.messages import check_bools, check_tensors, long_name
from jtorch.eager.sixteen_bits import HALVES, in_float32, is_half, through_float32
from jtorch.eager.tensor import Tensor, wrap

_add, _sub = APPLY["add"], APPLY["sub"]


def add(input: Any, other: Any, *early: Any, alpha: Any = 1) -> Tensor:
    """input + alpha other; with three arguments these are input, alpha and other."""
    if early:
        other, alpha = factor_first("add", "alpha", 2, other, *early)
    if alpha.__class__ is int and alpha == 1:
        return _add(input, other)
    return _with_factor(_add, input, other, alpha)


def sub(input: Any, other: Any, *early: Any, alpha: Any = 1) -> Tensor:
    """input - alpha other; with three arguments these are input, alpha and other."""
    if early:
        other, alpha = factor_first("sub", "alpha", 2, other, *early)
    if alpha.__class__ is int and alpha == 1:
        return _sub(input, other)
    return _with_factor(_sub, input, other, alpha)


def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha input"""
    if alpha.__class__ is int and alpha == 1:
        return _sub(other, input)
    return _with_factor(_sub, other, input, alpha)


def _with_factor(function: Callable, first: Any, second: Any, alpha: Any) -> Tensor:
    """``function(first, alpha second)``, all in the common dtype; of 16 bits the sum alone is rounded."""
    if not _fits_floats(first, second, alpha):
        target = _common(first, second)
        alpha = _checked(function, (first, second), alpha, target)
        if isinstance(second, Tensor) and second._data.dtype is not target:
            second = second.to(dt.of(target))
    if not any(isinstance(t, Tensor) and t._data.dtype in HALVES for t in (first, second)):
        # of two of Python's bools the product is an int
        return function(
            first, second and alpha if alpha.__class__ is second.__class__ is bool else second * alpha
        )

    def apply(first: Any, second: Any) -> Tensor:
        return function(first, second * alpha)

    return through_float32(BY_NAME[function.__name__], apply, (first, second), {})


def _fits_floats(first: Any, second: Any, alpha: Any) -> bool:
    """Whether it is a small number beside floats of one dtype, as nearly always."""
    if first.__class__ is Tensor is second.__class__ and alpha.__class__ in PLAIN and -128 <= alpha <= 127:
        dtype = first._data.dtype
        return dtype is second._data.dtype and dtype.kind == "f"
    return False


def _common(*operands: Any) -> np.dtype:
    tensors = [t for t in operands if isinstance(t, Tensor)]
    numbers = [getattr(n, "as_runtime_scalar", n) for n in operands if not isinstance(n, Tensor)]
    return dt.promote([(t._data.dtype, t._data.ndim) for t in tensors], numbers)


def _checked(function: Callable, operands: tuple[Any, Any], alpha: Any, target: np.dtype) -> Any:
    """``alpha`` as a number of the dtype of the result, or PyTorch's error."""
    raw = tuple(t._data if isinstance(t, Tensor) else t for t in operands)
    check_bools(BY_NAME[function.__name__], raw, target)
    kind = number_type(alpha)
    if kind is bool and target.kind != "b":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind is float and target.kind in "iub":
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, complex) and target.kind != "c":
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if target.kind == "b":
        return bool(alpha)
    # what is subtracted is added with the opposite factor: this is what must fit
    check_number(-alpha if function is _sub and kind is int and _has_opposite(alpha) else alpha, target)
    return alpha


def _has_opposite(number: Any) -> bool:
    """Whether its opposite is an int64: arithmetic with a number of a recording looks at that itself."""
    return number.__class__ is not int or number > -(2**63)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, rounded towards zero for "trunc", down for "floor"."""
    if rounding_mode is None:
        return APPLY["div"](input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return APPLY[f"divide_and_{rounding_mode}"](input, other)


def true_divide(input: Any, other: Any) -> Tensor:
    """input / other"""
    return APPLY["div"](input, other)


def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with so many digits behind the point, halves to even."""
    if decimals == 0:
        return APPLY["round"](input)
    if is_half(input._data):
        return in_float32(round_, input, decimals=decimals)
    _refuse(input, "round_cpu")
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return APPLY["round"](input * scale) / scale
    return APPLY["round"](input / scale) * scale


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Elements limited to [min, max]; either bound may be a number, a tensor or None."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    at_once = _within(input, min, max)
    if at_once is not None:
        return at_once
    if min is not None:
        if not (min.__class__ in PLAIN and -128 <= min <= 127):  # nearly all bounds are small
            check_beside(input, min, max)
        input = APPLY["clamp_min"](input, min)
    if max is None:
        return input
    if not (max.__class__ in PLAIN and -128 <= max <= 127):
        check_beside(input, max, min)
    return APPLY["clamp_max"](input, max)


def _within(input: Tensor, low: Any, high: Any) -> Tensor | None:
    """Both limits in one pass over floats; None for other numbers than small ones, where a gradient is
    wanted, and in a recording."""
    if not (low.__class__ in PLAIN and high.__class__ in PLAIN):
        return None
    if not (-128 <= low <= 127 and -128 <= high <= 127):
        return None
    context, data = op_module.CONTEXT.get(), input._data
    if not context.evaluator.reads_elements or (input._requires_grad and context.grad):
        return None
    if context.level is not None:
        return None
    fits = data.__class__ is np.ndarray and data.dtype in _FLOATS
    return wrap(np.asarray(data.clip(low, high))) if fits else None  # of no axes it is a number


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def square(input: Tensor) -> Tensor:
    """input ** 2"""
    return APPLY["pow"](input, 2)


def frac(input: Tensor) -> Tensor:
    """What is behind the point, with the sign of the number."""
    _refuse(input, "frac_cpu")
    return input - APPLY["trunc"](input)


def sgn(input: Tensor) -> Tensor:
    """The sign; of complex numbers the number on the unit circle in their direction, 0 for 0."""
    if not input.dtype.is_complex:
        return APPLY["sign"](input)
    size = input.abs()
    zero = APPLY["eq"](size, 0)
    return APPLY["where"](zero, input * 0, input / APPLY["where"](zero, 1.0, size))


def positive(input: Tensor) -> Tensor:
    """+input: the tensor itself."""
    if input._data.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def invert(self: Tensor) -> Tensor:
    if self._data.dtype.kind not in "biu":
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return APPLY["bitwise_not"](self)


def _refuse(input: Tensor, name: str) -> None:
    if input._data.dtype.kind in "biu":
        raise NotImplementedError(f"\"{name}\" not implemented for '{long_name(input._data.dtype)}'")


@autocasts(cuda="as_is")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input 2**other"""
    check_tensors("ldexp", input=input, other=other)
    if other._data.dtype.kind not in "biu":
        if is_half(other._data):  # its power has the bits of the result
            other = other.to(dt.of(_common(input, other)))
        return APPLY["mul"](input, APPLY["pow"](2.0, other))
    if is_half(input._data):
        return in_float32(_shifted, input, other)
    return _shifted(input if input._data.dtype.kind in "fc" else input.to(dt.get_default_dtype()), other)


def _shifted(input: Tensor, other: Tensor) -> Tensor:
    """input 2**other in three steps: 2**other alone may be beyond the dtype, where the result is not.

    The largest step is the last one: it alone may round.
    """
    part = dt.float64 if input._data.dtype.itemsize // (1 + input.is_complex()) == 8 else dt.float32
    last = 2 - 2 ** (10 if part is dt.float64 else 7)  # of the smallest power that is no subnormal
    exponent, powers = other.to(part), []
    for _ in range(3):
        step = exponent.clamp(last, -last)
        powers.append(APPLY["pow"](2.0, step))
        exponent = exponent - step
    for power in reversed(powers):
        input = APPLY["mul"](input, power)
    return input


def frexp(input: Tensor) -> Any:
    """(mantissa, exponent): input = mantissa 2**exponent with 0.5 <= |mantissa| < 1."""
    if not input.is_floating_point():
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return RESULTS["frexp"](*APPLY["frexp"](input))


def float_power(input: Any, exponent: Any) -> Tensor:
    """``pow`` in float64, or complex128."""
    both = (input, exponent)
    if any(t.is_complex() if isinstance(t, Tensor) else isinstance(t, complex) for t in both):
        wide, number = dt.complex128, complex
    else:
        wide, number = dt.float64, float  # type: ignore[assignment]
    base, power = (t.to(wide) if isinstance(t, Tensor) else number(t) for t in both)
    return APPLY["pow"](base, power)


def polygamma(n: int, input: Tensor) -> Tensor:
    """The ``n``-th derivative of ``digamma``."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return APPLY["polygamma"](input, n=n) if n else APPLY["digamma"](input)


def _polygamma(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of ``digamma``."""
    return polygamma(n, self)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function in ``p`` dimensions."""
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1; got {p}")
    total = APPLY["lgamma"](input)
    for j in range(1, p):
        total = total + APPLY["lgamma"](input - 0.5 * j)
    return total + p * (p - 1) / 4.0 * math.log(math.pi)


_OP_ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
    "arctan": "atan", "arctanh": "atanh", "arctan2": "atan2", "fix": "trunc", "multiply": "mul",
    "negative": "neg", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne",
}  # fmt: skip
_ALIASES = {name: public_function(BY_NAME[op]) for name, op in _OP_ALIASES.items()}

FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        add, sub, rsub, div, true_divide, clamp, square, frac, sgn, positive, ldexp, frexp, float_power,
        polygamma, mvlgamma,
    )
} | _ALIASES | {"round": round_, "clip": clamp, "subtract": sub, "divide": div}  # fmt: skip
METHODS: dict[str, Any] = FUNCTIONS | {
    "polygamma": _polygamma, "__pos__": positive, "__invert__": invert,
}  # fmt: skip
METHODS.pop("rsub")
# of these the gradient keeps what the op's does
_OP_OF = {
    "add": "add", "sub": "sub", "subtract": "sub", "div": "div", "divide": "div", "true_divide": "div",
    "clamp": "clamp_min", "clip": "clamp_min", **_OP_ALIASES,
}  # fmt: skip
METHODS |= {f"{name}_": in_place(BY_NAME[op], FUNCTIONS[name]) for name, op in _OP_OF.items()}
_IN_PLACE = ("square", "frac", "sgn", "ldexp", "float_power", "round", "mvlgamma")
METHODS |= {f"{name}_": in_place_function(FUNCTIONS[name], f"{name}_") for name in _IN_PLACE}
METHODS["polygamma_"] = in_place_function(METHODS["polygamma"], "polygamma_")
