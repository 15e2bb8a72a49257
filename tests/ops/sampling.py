"""Sample inputs for every op, at the level of ``APPLY[name]``: arrays and numbers, then statics.

``samples(name)`` gives a list of ``Sample``. Ops of a regular kind need no entry in ``tests/ops/entries/``:
the defaults draw arrays for each array argument. An entry is needed where values are restricted
(logarithms, indices) or statics have to be chosen. Floats are float64, so that gradients can be checked;
``Sample.cast`` gives the same sample in another dtype.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.core.op import BY_NAME, Kind, Op


@dataclass(frozen=True)
class Sample:
    """Arguments of one call: ``APPLY[op](*args, **statics)``. ``args`` are arrays, numbers or None."""

    args: tuple[Any, ...]
    statics: dict[str, Any] = field(default_factory=dict)
    constant: tuple[int, ...] = ()  # positions of arguments without a gradient
    symmetric: bool = False  # the first argument is a symmetric matrix: ``support.call`` makes it one

    def cast(self, dtype: Any) -> Sample:
        """This sample with its floating-point arrays in ``dtype``."""
        args = tuple(
            a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in self.args
        )
        statics = {
            k: np.dtype(dtype) if k == "dtype" and v == np.dtype(np.float64) else v
            for k, v in self.statics.items()
        }
        return Sample(args, statics, self.constant, self.symmetric)


class Draw:
    """Random arrays from a stream of the op's own, so that adding an op changes no other's samples."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def floats(self, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        return np.asarray(self.rng.uniform(low, high, shape))

    def apart(self, *shape: int, shift: float = 0.0) -> np.ndarray:
        """Distinct values at least 0.05 apart and away from 0: no ties and no kinks."""
        n = math.prod(shape)
        values = (self.rng.permutation(n) - n / 2 + 0.37) * 0.05 + shift
        return values.reshape(shape)

    def ints(self, *shape: int, low: int, high: int) -> np.ndarray:
        return np.asarray(self.rng.integers(low, high, shape))

    def bools(self, *shape: int) -> np.ndarray:
        return np.asarray(self.rng.random(shape) < 0.5)


_ENTRIES: dict[str, Callable[[Draw], list[Sample]]] = {}


def entry(*names: str) -> Callable:
    """Register the function below as what makes the samples of ``names``."""

    def decorator(function: Callable[[Draw], list[Sample]]) -> Callable:
        for name in names:
            _ENTRIES[name] = function
        return function

    return decorator


def samples(name: str) -> list[Sample]:
    """Sample inputs of the op called ``name``. Raises KeyError where neither entry nor default fits."""
    op = BY_NAME[name]
    draw = Draw(name)
    if name in _ENTRIES:
        return _ENTRIES[name](draw)
    if op.kind is Kind.ELEMENTWISE or (op.kind is Kind.COMPOSITE and not op.statics):
        return _elementwise(op, draw)
    if op.kind is Kind.REDUCTION and set(op.statics) == {"axis", "keepdims"}:
        return default_reductions(draw)
    raise KeyError(f"op {name!r} needs an entry in tests/ops/entries/")


def _elementwise(op: Op, draw: Draw) -> list[Sample]:
    n = len(op.arrays)
    shapes = [(3, 4), (), (0, 3), (5,)]
    found = [Sample(tuple(draw.apart(*shape) for _ in range(n))) for shape in shapes]
    if n == 2:
        found.append(Sample((draw.apart(2, 3, 4), draw.apart(3, 1))))
        found.append(Sample((draw.apart(1, 4), draw.apart(3, 1))))
    return found


def default_reductions(draw: Draw) -> list[Sample]:
    cases = [
        ((3, 4), (0,), False), ((3, 4), (1,), True), ((2, 3, 4), (0, 2), False), ((5,), (0,), False),
        ((2, 3), (0, 1), False), ((2, 3), (0, 1), True),
    ]  # fmt: skip
    return [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in cases]
