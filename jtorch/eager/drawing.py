"""Random tensors, drawn through the evaluator's counter-based generator: the same numbers in both modes.

Source: https://docs.pytorch.org/docs/stable/torch.html#random-sampling
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch import memory_formats as formats
from jtorch import op as op_module
from jtorch.dtypes import get_default_dtype
from jtorch.eager.binding import APPLY, into
from jtorch.eager.factory import factory, number, size_named, size_tuple, sizes
from jtorch.eager.functions.complex_numbers import view_as_complex
from jtorch.eager.messages import broadcast_mismatch, long_name
from jtorch.eager.tensor import Tensor, wrap
from jtorch.generator import Generator, default_generator

_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "bool": "bool",
    "uint16": "unsigned short", "uint32": "unsigned int",
}  # fmt: skip


def bits(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Random uint64, the next op's numbers of ``generator``."""
    context = op_module.CONTEXT.get()
    seed, call = context.evaluator.next_call(generator or default_generator)
    return wrap(context.xp.random_bits(seed, call, shape=shape, dtype=np.dtype(np.uint64)))


def draw(kind: str, shape: tuple[int, ...], generator: Generator | None, target: np.dtype) -> Tensor:
    """Floats of a transform of bits ("uniform", "normal", "exponential") in the dtype ``target``."""
    if target.kind == "c":
        parts = draw(kind, (*shape, 2), generator, dt.of(target).to_real().numpy)
        return view_as_complex(parts * math.sqrt(0.5) if kind == "normal" else parts)
    exact = target if target in (_FLOAT32, _FLOAT64) else _FLOAT32
    out = APPLY[kind](bits(shape, generator), dtype=exact)
    if target is exact:
        return out
    if kind == "uniform":  # rounded to the nearest the largest would be 1, which is not below 1
        levels = 2.0 ** _MANTISSA[dt.of(target).name]
        out = APPLY["floor"](out * levels) * (1.0 / levels)
    return APPLY["cast"](out, dtype=target)


def _float(dtype: Any, refusal: str) -> np.dtype:
    target = dt.to_numpy(dtype or get_default_dtype())
    assert target is not None
    if target.kind not in "fcV":
        raise NotImplementedError(f"\"{refusal}\" not implemented for '{long_name(target)}'")
    return target


# -- new tensors -------------------------------------------------------------------------------------------


@factory
def rand(*size: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """Uniform on [0, 1). Source: https://docs.pytorch.org/docs/stable/generated/torch.rand.html"""
    target = _float(dtype, "check_uniform_bounds")
    return draw("uniform", sizes(size, size_named(named, "rand"), "rand"), generator, target)


@factory
def randn(*size: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """Standard normal. Source: https://docs.pytorch.org/docs/stable/generated/torch.randn.html"""
    target = _float(dtype, "normal_kernel_cpu")
    return draw("normal", sizes(size, size_named(named, "randn"), "randn"), generator, target)


@factory
def rand_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, memory_format: Any = None
) -> Tensor:
    formats.check(memory_format, "rand_like()")
    return rand(tuple(input.shape), generator=generator, dtype=dtype or input.dtype)


@factory
def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, memory_format: Any = None
) -> Tensor:
    formats.check(memory_format, "randn_like()")
    return randn(tuple(input.shape), generator=generator, dtype=dtype or input.dtype)


@factory
def randint(*bounds: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """``randint(low=0, high, size)``: integers in [low, high).

    Source: https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    size = named.pop("size", None)
    if size is None and bounds:
        *bounds, size = bounds  # type: ignore[assignment]
    low, high = _low_high(tuple(bounds), **named)
    return _integers(low, high, size_tuple(size, "randint"), generator, dt.to_numpy(dtype) or _INT64)


@factory
def randint_like(
    input: Tensor,
    *bounds: Any,
    generator: Any = None,
    dtype: Any = None,
    memory_format: Any = None,
    **named: Any,
) -> Tensor:
    """``randint`` with the shape and dtype of ``input``."""
    formats.check(memory_format, "randint_like()")
    low, high = _low_high(bounds, **named)
    target = dt.to_numpy(dtype or input.dtype)
    assert target is not None
    return _integers(low, high, tuple(input.shape), generator, target)


def _low_high(bounds: tuple, low: Any = None, high: Any = None) -> tuple[int, int]:
    if len(bounds) == 2:
        low, high = bounds
    elif len(bounds) == 1 and high is None:
        high = bounds[0]
    elif len(bounds) == 1:
        low = bounds[0]
    if high is None:
        raise TypeError("randint() missing 1 required positional argument: 'high'")
    return int(number(low or 0)), int(number(high))


def _integers(
    low: int, high: int, shape: tuple[int, ...], generator: Generator | None, target: np.dtype
) -> Tensor:
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if target.kind in "biu" and target.itemsize < 8:
        least, most = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not least <= value <= most:
                raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[dt.of(target).name]}")
    out = APPLY["bounded"](bits(shape, generator), low, high)
    return out if target == _INT64 else APPLY["cast"](out, dtype=target)


@factory
def randperm(n: int, *, generator: Any = None, dtype: Any = None) -> Tensor:
    """A random order of 0..n-1."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    out = APPLY["sort_order"](bits((n,), generator), axis=0)
    return out if dtype is None else out.to(dtype)


@factory
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None
) -> Tensor:
    """Normal numbers of ``mean`` and ``std``: both numbers with ``size``, or tensors that broadcast.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.normal.html
    """
    given = [t for t in (mean, std) if isinstance(t, Tensor)]
    if not given:
        if size is None:
            raise TypeError("normal() of two numbers needs size: normal(float mean, float std, tuple size)")
        shape, target = size_tuple(size, "normal"), _float(dtype, "normal_kernel_cpu")
    else:
        if size is not None:
            raise TypeError("normal() takes no size beside tensors: the shape is theirs")
        shape = _common_shape([tuple(t.shape) for t in given])
        target = _float(given[0].dtype, "normal_kernel_cpu")
    _check_deviation(std)
    if isinstance(std, Tensor):
        std = APPLY["checked"](std.detach(), test="deviation")
    mean = mean.detach() if isinstance(mean, Tensor) else mean
    return draw("normal", shape, generator, target) * std + mean


def _common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    mismatch = broadcast_mismatch(shapes)
    if mismatch is not None:
        raise RuntimeError(mismatch)
    return np.broadcast_shapes(*shapes)


def _check_deviation(std: Any) -> None:
    if not isinstance(std, Tensor) and not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


# -- draws from given probabilities ------------------------------------------------------------------------


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Any = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability that each element of ``input`` is (or with probability ``p``), else 0.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.bernoulli.html
    """
    if p is None and input._data.dtype.kind not in "fV":
        raise NotImplementedError(
            f"\"bernoulli_tensor_cpu_p_\" not implemented for '{long_name(input._data.dtype)}'"
        )
    made = _successes(tuple(input.shape), input if p is None else p, generator, input._data.dtype)
    return made if out is None else into(out, made, "bernoulli")


def _successes(shape: tuple[int, ...], p: Any, generator: Any, target: np.dtype) -> Tensor:
    exact = _FLOAT32
    if isinstance(p, Tensor):
        exact = p._data.dtype if p._data.dtype == _FLOAT64 else _FLOAT32
        p = APPLY["checked"](APPLY["cast"](p.detach(), dtype=exact), test="probability")
    elif not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    below = APPLY["lt"](draw("uniform", shape, generator, exact), p)
    return APPLY["cast"](below, dtype=target)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """``num_samples`` indices drawn with the weights in each row: int64 (num_samples) or (rows, num_samples).

    Without replacement the indices of the largest weight / exponential draw (Efraimidis and Spirakis,
    2006). Source: https://docs.pytorch.org/docs/stable/generated/torch.multinomial.html
    """
    _check_multinomial(input, num_samples, replacement)
    weights = APPLY["checked"](input.detach().to(dt.float64), test="weights")
    weights = APPLY["checked"](weights, test="mass") if input.shape[0] else weights
    if replacement and num_samples > 1:
        found = _with_replacement(weights, num_samples, generator)
    else:
        keys = weights / draw("exponential", tuple(input.shape), generator, _FLOAT64)
        axis = input.ndim - 1
        found = APPLY["sort_order"](-keys, axis=axis).narrow(axis, 0, num_samples).clone()
    return found if out is None else into(out, found, "multinomial")


def _with_replacement(weights: Tensor, num_samples: int, generator: Any) -> Tensor:
    reached = weights.cumsum(-1)
    shape = (*weights.shape[:-1], num_samples)
    wanted = draw("uniform", shape, generator, _FLOAT64) * reached.narrow(-1, weights.shape[-1] - 1, 1)
    found = APPLY["searchsorted"](reached, wanted, right=True)
    return found.clamp(max=weights.shape[-1] - 1)


def _check_multinomial(input: Tensor, num_samples: int, replacement: bool) -> None:
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if input._data.dtype.kind not in "fV":
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{long_name(input._data.dtype)}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")


def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson counts with the rates in ``input``, of its shape and dtype.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.poisson.html
    """
    target = input._data.dtype
    if target.kind not in "fV":
        raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{long_name(target)}'")
    u = draw("uniform", tuple(input.shape), generator, _FLOAT64)
    return APPLY["cast"](APPLY["poisson_quantile"](u, input.detach().to(dt.float64)), dtype=target)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Successes in ``count`` tries of probability ``prob``: floating-point tensors that broadcast."""
    shape = _common_shape([tuple(count.shape), tuple(prob.shape)])
    u = draw("uniform", shape, generator, _FLOAT64)
    wide = [t.detach().to(dt.float64).expand(shape) for t in (count, prob)]
    return APPLY["cast"](APPLY["binomial_quantile"](u, *wide), dtype=count._data.dtype)


# -- in place ----------------------------------------------------------------------------------------------


def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """Overwrite with numbers uniform on [from, to), by default [0, 1).

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html
    """
    low, high = _from_to("uniform_", bounds, named, 0.0, 1.0)
    target = _float(self.dtype, "check_uniform_bounds")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    return self.copy_(draw("uniform", tuple(self.shape), generator, target) * (high - low) + low)


def _from_to(name: str, bounds: tuple, named: dict[str, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """The arguments ``from`` and ``to``: the first is no name in Python."""
    given = dict(zip(("from", "to"), bounds, strict=False))
    unknown = set(named) - {"from", "to"} or set(named) & set(given)
    if unknown or len(bounds) > 2:
        raise TypeError(f"{name}() got an unexpected argument {', '.join(sorted(unknown)) or bounds[2]!r}")
    given |= named
    return given.get("from", low), given.get("to", high)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with normal numbers."""
    target = _float(self.dtype, "normal_kernel_cpu")
    _check_deviation(std)
    return self.copy_(draw("normal", tuple(self.shape), generator, target) * std + mean)


def _continuous(self: Tensor, name: str) -> None:
    if self._data.dtype.kind not in "fV":
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point "
            f"but you specified {long_name(self._data.dtype)}"
        )


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with numbers of the exponential distribution of rate ``lambd``."""
    _continuous(self, "Exponential")
    if not lambd > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    return self.copy_(draw("exponential", tuple(self.shape), generator, self._data.dtype) / lambd)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite with 1 with probability ``p``, a number or a tensor that broadcasts, else 0."""
    return self.copy_(_successes(tuple(self.shape), p, generator, self._data.dtype))


def random_(self: Tensor, *bounds: int, generator: Any = None, **named: int) -> Tensor:
    """Overwrite with integers in [from, to); without bounds, all that the dtype counts exactly."""
    target = self._data.dtype
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _from_to("random_", bounds, named, 0, None)
    if high is None and target.kind in "fV":
        high = 2 ** _MANTISSA[dt.of(target).name] + 1
    elif high is None:
        high = 2 if target.kind == "b" else int(np.iinfo(target).max) + (target.itemsize < 8)
    return self.copy_(_integers(int(low), int(high), tuple(self.shape), generator, target))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Overwrite with the number of tries up to the first success of probability ``p``."""
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    waits = draw("exponential", tuple(self.shape), generator, _FLOAT64) / -math.log1p(-p)
    return self.copy_(APPLY["floor"](waits) + 1.0 if self.is_floating_point() else _counts(waits))


def _counts(waits: Tensor) -> Tensor:
    return APPLY["cast"](APPLY["floor"](waits), dtype=_INT64) + 1


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with Cauchy numbers: the ratio of two normal ones."""
    _continuous(self, "Cauchy")
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    above, below = (draw("normal", tuple(self.shape), generator, _FLOAT64) for _ in "12")
    return self.copy_(above / below * sigma + median)


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Overwrite with numbers whose logarithm is normal."""
    target = _float(self.dtype, "log_normal_cpu")
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    return self.copy_((draw("normal", tuple(self.shape), generator, target) * std + mean).exp())


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        rand, randn, rand_like, randn_like, randint, randint_like, randperm, normal, bernoulli, multinomial,
        poisson, binomial,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {
    "bernoulli": bernoulli, "multinomial": multinomial, "uniform_": uniform_, "normal_": normal_,
    "exponential_": exponential_, "bernoulli_": bernoulli_, "random_": random_, "geometric_": geometric_,
    "cauchy_": cauchy_, "log_normal_": log_normal_,
}  # fmt: skip
