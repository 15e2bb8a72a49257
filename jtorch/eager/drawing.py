"""Random tensors, drawn through the evaluator's counter-based generator: the same numbers in both modes.

Source: https://docs.pytorch.org/docs/stable/torch.html#random-sampling
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, higher, op as op_module
from jtorch.core.dtypes import get_default_dtype
from jtorch.core.generator import Generator, default_generator
from jtorch.eager.binding import APPLY, into
from jtorch.eager.drawn import (
    BernoulliBackward0,
    NormalBackward0,
    NotImplementedBackward,
    PoissonBackward0,
    drawn_of,
)
from jtorch.eager.factory import PLACE, factory, number, size_named, size_tuple, sizes
from jtorch.eager.functions.complex_numbers import view_as_complex
from jtorch.eager.messages import broadcast_mismatch, long_name
from jtorch.eager.tensor import Tensor, wrap
from jtorch.ops import axes as ax

_FLOAT32, _FLOAT64, _INT64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_C_NAMES = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short", "int32": "int", "bool": "bool",
    "uint16": "unsigned short", "uint32": "unsigned int",
}  # fmt: skip


def bits(shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """Random uint64, the next numbers of ``generator``; on the device of the factory that runs."""
    evaluator = op_module.CONTEXT.get().evaluator
    seed, call = evaluator.next_call(generator or default_generator)
    return _bits(shape, seed, call, evaluator.namespace_at(PLACE.get()))


def _bits(shape: tuple[int, ...], seed: Any, call: Any, xp: Any) -> Tensor:
    return wrap(xp.random_bits(seed, call, shape=shape, dtype=_UINT64))


def _drawn(
    kind: str, shape: tuple[int, ...], generator: Generator | None, dtype: np.dtype, place: Any = None,
    bounds: tuple[int, ...] = (),
) -> Tensor:  # fmt: skip
    """What ``kind`` makes of bits; on the device of the factory that runs, if not on ``place``."""
    evaluator = op_module.CONTEXT.get().evaluator
    seed, call = evaluator.next_call(generator or default_generator)
    xp = evaluator.namespace_at(place or PLACE.get())
    if evaluator.skips_table and xp is evaluator.xp and higher.draws is not None:
        found = higher.draws().drawn(kind, seed, call, shape, dtype, *bounds)
        if found is not None:
            return wrap(found)
    given = _bits(shape, seed, call, xp)
    return APPLY[kind](given, *bounds) if bounds else APPLY[kind](given, dtype=dtype)


def draw(
    kind: str, shape: tuple[int, ...], generator: Generator | None, target: np.dtype, place: Any = None
) -> Tensor:
    """Floats of a transform of bits ("uniform", "normal", "exponential") in the dtype ``target``."""
    if target.kind == "c":
        parts = draw(kind, (*shape, 2), generator, dt.of(target).to_real().numpy, place)
        return view_as_complex(parts * math.sqrt(0.5) if kind == "normal" else parts)
    exact = target if target in (_FLOAT32, _FLOAT64) else _FLOAT32
    out = _drawn(kind, shape, generator, exact, place)
    if target is exact:
        return out
    if kind == "uniform":  # rounded to the nearest the largest would be 1, which is not below 1
        levels = 2.0 ** MANTISSA[dt.of(target).name]
        out = APPLY["floor"](out * levels) * (1.0 / levels)
    return APPLY["cast"](out, dtype=target)


def float_target(dtype: Any, refusal: str) -> np.dtype:
    target = dt.to_numpy(dtype or get_default_dtype())
    assert target is not None
    if target.kind not in "fcV":
        raise NotImplementedError(f"\"{refusal}\" not implemented for '{long_name(target)}'")
    return target


# -- new tensors -------------------------------------------------------------------------------------------


@factory
def rand(*size: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """Uniform on [0, 1). Source: https://docs.pytorch.org/docs/stable/generated/torch.rand.html"""
    target = float_target(dtype, "check_uniform_bounds")
    return draw("uniform", sizes(size, size_named(named, "rand"), "rand"), generator, target)


@factory
def randn(*size: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """Standard normal. Source: https://docs.pytorch.org/docs/stable/generated/torch.randn.html"""
    target = float_target(dtype, "normal_kernel_cpu")
    return draw("normal", sizes(size, size_named(named, "randn"), "randn"), generator, target)


@factory
def rand_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, memory_format: Any = None
) -> Tensor:
    """``rand`` in the shape and dtype of ``input``."""
    return rand(tuple(input.shape), generator=generator, dtype=dtype or input.dtype, device=input.device)


@factory
def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, memory_format: Any = None
) -> Tensor:
    """``randn`` in the shape and dtype of ``input``."""
    return randn(tuple(input.shape), generator=generator, dtype=dtype or input.dtype, device=input.device)


@factory
def randint(*bounds: Any, generator: Any = None, dtype: Any = None, **named: Any) -> Tensor:
    """``randint(low=0, high, size)``: integers in [low, high).

    Source: https://docs.pytorch.org/docs/stable/generated/torch.randint.html
    """
    size = named.pop("size", None)
    if size is None and bounds:
        *bounds, size = bounds  # type: ignore[assignment]
    low, high = _low_high(tuple(bounds), **named)
    return integers(low, high, size_tuple(size, "randint"), generator, dt.to_numpy(dtype) or _INT64)


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
    low, high = _low_high(bounds, **named)
    target = dt.to_numpy(dtype or input.dtype)
    assert target is not None
    return integers(low, high, tuple(input.shape), generator, target).to(input.device)


def _low_high(bounds: tuple, low: Any = None, high: Any = None) -> tuple[int, int]:
    if len(bounds) == 2:
        low, high = bounds
    elif len(bounds) == 1 and high is None:
        high = bounds[0]
    elif len(bounds) == 1:
        low = bounds[0]
    if high is None:
        raise TypeError("randint() missing 1 required positional argument: 'high'")
    low = 0 if low is None else low
    if low.__class__ is int is high.__class__:  # nearly always
        return low, high
    return int(number(ax.integer("randint", "low", low))), int(number(ax.integer("randint", "high", high)))


def integers(
    low: int, high: int, shape: tuple[int, ...], generator: Generator | None, target: np.dtype
) -> Tensor:
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if target.kind in "biu" and target.itemsize < 8:
        least, most = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
        for name, value in (("from", low), ("to - 1", high - 1)):
            if not least <= value <= most:
                raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[dt.of(target).name]}")
    out = _drawn("bounded", shape, generator, _INT64, bounds=(low, high))
    return out if target == _INT64 else APPLY["cast"](out, dtype=target)


@factory
def randperm(n: int, *, generator: Any = None, dtype: Any = None) -> Tensor:
    """A random order of 0..n-1."""
    n = ax.integer("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    out = APPLY["sort_order"](bits((n,), generator), axis=0, descending=False)
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
        shape, target = size_tuple(size, "normal"), float_target(dtype, "normal_kernel_cpu")
    else:
        if size is not None:
            raise TypeError("normal() takes no size beside tensors: the shape is theirs")
        shape = _common_shape([tuple(t.shape) for t in given])
        target = float_target(given[0].dtype, "normal_kernel_cpu")
    check_deviation(std)
    spread = APPLY["checked"](std.detach(), test="deviation") if isinstance(std, Tensor) else std
    centre = mean.detach() if isinstance(mean, Tensor) else mean
    drawn = draw("normal", shape, generator, target, given[0].device if given else None)
    return drawn_of(drawn * spread + centre, NormalBackward0, *given)


def _common_shape(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    mismatch = broadcast_mismatch(shapes)
    if mismatch is not None:
        raise RuntimeError(mismatch)
    return np.broadcast_shapes(*shapes)


def check_deviation(std: Any) -> None:
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
    made = successes(tuple(input.shape), input if p is None else p, generator, input._data.dtype)
    made = drawn_of(made.to(input.device), BernoulliBackward0, *([input] if p is None else []))
    return made if out is None else into(out, made, "bernoulli")


def successes(shape: tuple[int, ...], p: Any, generator: Any, target: np.dtype) -> Tensor:
    exact = _FLOAT32
    if isinstance(p, Tensor):
        exact = p._data.dtype if p._data.dtype == _FLOAT64 else _FLOAT32
        p = APPLY["checked"](APPLY["cast"](p.detach(), dtype=exact), test="probability")
    elif not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    drawn = draw("uniform", shape, generator, exact, p.device if isinstance(p, Tensor) else None)
    return APPLY["cast"](APPLY["lt"](drawn, p), dtype=target)


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
        keys = weights / draw("exponential", tuple(input.shape), generator, _FLOAT64, input.device)
        axis = input.ndim - 1
        found = APPLY["sort_order"](-keys, axis=axis, descending=False).narrow(axis, 0, num_samples).clone()
    return found if out is None else into(out, found, "multinomial")


def _with_replacement(weights: Tensor, num_samples: int, generator: Any) -> Tensor:
    reached = weights.cumsum(-1)
    shape = (*weights.shape[:-1], num_samples)
    drawn = draw("uniform", shape, generator, _FLOAT64, weights.device)
    wanted = drawn * reached.narrow(-1, weights.shape[-1] - 1, 1)
    found = APPLY["searchsorted"](reached, wanted, right=True)
    return found.clamp(max=weights.shape[-1] - 1)


def _check_multinomial(input: Tensor, num_samples: int, replacement: bool) -> None:
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if input._data.dtype.kind not in "fV":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {long_name(input._data.dtype)}"
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
    u = draw("uniform", tuple(input.shape), generator, _FLOAT64, input.device)
    counts = APPLY["cast"](APPLY["poisson_quantile"](u, input.detach().to(dt.float64)), dtype=target)
    return drawn_of(counts, PoissonBackward0, input)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Successes in ``count`` tries of probability ``prob``: floating-point tensors that broadcast."""
    shape = _common_shape([tuple(count.shape), tuple(prob.shape)])
    u = draw("uniform", shape, generator, _FLOAT64, count.device)
    wide = [t.detach().to(dt.float64).expand(shape) for t in (count, prob)]
    counts = APPLY["cast"](APPLY["binomial_quantile"](u, *wide), dtype=count._data.dtype)
    return drawn_of(counts, NotImplementedBackward, count, prob)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        rand, randn, rand_like, randn_like, randint, randint_like, randperm, normal, bernoulli, multinomial,
        poisson, binomial,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {"bernoulli": bernoulli, "multinomial": multinomial}
