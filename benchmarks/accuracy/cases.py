"""What the accuracy table computes: programs that run in jtorch and PyTorch alike, and what is exact.

Inputs are drawn in float64 and rounded to the dtype in question; the exact result is computed in float64 from
the rounded inputs, so that an error is the library's alone. (In float64 a sum of 10^7 is off by 1e-13 where
it is added up row by row: a millionth of a unit in the last place of float32.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

Array = np.ndarray


@dataclass(frozen=True)
class Case:
    """``inputs(random, n)`` are float64 arrays of about ``n`` elements each, ``program(T, *tensors)`` is run
    with the module of each library, ``exact(*arrays)`` is what it should give. ``bound`` is how many times as
    large as PyTorch's an error may be."""

    name: str
    inputs: Callable[[np.random.Generator, int], tuple[Array, ...]]
    program: Callable[..., Any]
    exact: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    bound: float = 4.0


def _positive(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    return (random.random(n),)


def _wide(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    """Few rows: what is added up lies side by side."""
    return (random.random((4, n // 4)),)


def _tall(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    """Few columns: what is added up lies rows apart."""
    return (random.random((n // 4, 4)),)


def _two(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    return random.random(n), random.random(n)


def _far_from_zero(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    return (random.normal(1000.0, 1.0, n),)


def _images_far_from_zero(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    return (random.normal(1000.0, 1.0, (max(n // (4 * 256), 1), 4, 16, 16)),)


def _logits(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    return (random.normal(0.0, 2.0, (n // 10, 10)),)


def _small_sum(random: np.random.Generator, n: int) -> tuple[Array, ...]:
    """Elements whose sum of any number is no more than 1000: float16 ends at 65504."""
    return (random.random(n) * min(1.0, 2000.0 / n),)


def _bias_gradient(T: Any, g: Any) -> Any:
    bias = T.zeros(g.shape[1], dtype=g.dtype, requires_grad=True)
    (g.detach() + bias).backward(g)
    return bias.grad


def _batch_norm(T: Any, x: Any) -> Any:
    channels = x.shape[1]
    affine = T.ones(channels, dtype=x.dtype), T.zeros(channels, dtype=x.dtype)
    return T.nn.functional.batch_norm(x, None, None, *affine, training=True)


def _normalized(x: Array) -> Array:
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)


def _cross_entropy(T: Any, x: Any) -> Any:
    return T.nn.functional.cross_entropy(x, T.zeros(x.shape[0], dtype=T.int64))


_FLOAT32 = ("float32",)

CASES = (
    Case("sum", _small_sum, lambda T, x: x.sum(), np.sum),
    Case("mean", _positive, lambda T, x: x.mean(), np.mean),
    Case("mean-of-equals", lambda random, n: (np.full(n, 0.1),), lambda T, x: x.mean(), np.mean),
    Case("var", _positive, lambda T, x: x.var(), lambda x: np.var(x, ddof=1)),
    Case("std", _positive, lambda T, x: x.std(), lambda x: np.std(x, ddof=1)),
    Case("var-far-from-0", _far_from_zero, lambda T, x: x.var(), lambda x: np.var(x, ddof=1), _FLOAT32, 2.0),
    Case("norm", _positive, lambda T, x: x.norm(), lambda x: np.sqrt(np.sum(x * x))),
    Case("dot", _two, lambda T, x, y: x.dot(y), lambda x, y: np.sum(x * y), _FLOAT32),
    Case("mean-of-rows", _tall, lambda T, x: x.mean(0), lambda x: x.mean(0)),
    Case("mean-of-columns", _wide, lambda T, x: x.mean(1), lambda x: x.mean(1)),
    Case("mean-transposed", _wide, lambda T, x: x.t().mean(0), lambda x: x.mean(1)),
    Case("var-of-rows", _tall, lambda T, x: x.var(0), lambda x: x.var(0, ddof=1)),
    Case("bias-gradient", _tall, _bias_gradient, lambda g: g.sum(0), ("float32", "bfloat16")),
    Case("logsumexp", _positive, lambda T, x: x.logsumexp(0), special.logsumexp, ("float32", "bfloat16")),
    Case("softmax", _positive, lambda T, x: x.softmax(0), special.softmax, _FLOAT32),
    Case(
        "cross-entropy", _logits, _cross_entropy,
        lambda x: np.mean(special.logsumexp(x, 1) - x[:, 0]), ("float32", "bfloat16"),
    ),
    Case("batch-norm-far-from-0", _images_far_from_zero, _batch_norm, _normalized, _FLOAT32, 2.0),
)  # fmt: skip
