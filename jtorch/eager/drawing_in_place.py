"""Random numbers written over a tensor: ``uniform_``, ``normal_`` and their kin.

Source: https://docs.pytorch.org/docs/stable/torch.html#in-place-random-sampling
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.devices import META
from jtorch.core.number_ranges import c_name, largest
from jtorch.eager.binding import APPLY
from jtorch.eager.drawing import MANTISSA, check_deviation, draw, float_target, integers, successes
from jtorch.eager.drawn import BernoulliBackward0, drawn_of
from jtorch.eager.functions.places import of_number
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_FLOAT64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)


def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """Overwrite with numbers uniform on [from, to), by default [0, 1).

    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.uniform_.html
    """
    low, high = _from_to("uniform_", bounds, named, 0.0, 1.0)
    target = float_target(self.dtype, "check_uniform_bounds")
    limit = largest(target)
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {c_name(target)}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if not high - low <= limit:
        kind = long_name(target)
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{kind}>::max(), but found to={high:g} and "
            f"from={low:g} which result in to-from to exceed the limit"
        )
    if self.is_complex():
        for part in (self.real, self.imag):
            part.uniform_(low, high, generator=generator)
        return self
    drawn = draw("uniform", tuple(self.shape), generator, target, self.device) * (high - low) + low
    if low.__class__ is float is high.__class__ and low == 0.0 and high == 1.0:
        return self.copy_(drawn)
    if low < high:  # rounded, some are ``high``
        zero = of_number(0.0, target)
        drawn = APPLY["minimum"](drawn, APPLY["nextafter"](zero + high, zero + low))
    return self.copy_(drawn)


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
    target = float_target(self.dtype, "normal_kernel_cpu")
    check_deviation(std)
    return self.copy_(draw("normal", tuple(self.shape), generator, target, self.device) * std + mean)


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
    return self.copy_(
        draw("exponential", tuple(self.shape), generator, self._data.dtype, self.device) / lambd
    )


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite with 1 with probability ``p``, a number or a tensor that broadcasts, else 0."""
    made = successes(tuple(self.shape), p, generator, self._data.dtype)
    return self.copy_(drawn_of(made, BernoulliBackward0, p) if self.is_floating_point() else made)


def random_(self: Tensor, *bounds: int, generator: Any = None, **named: int) -> Tensor:
    """Overwrite with integers in [from, to); without bounds, all that the dtype counts exactly."""
    target = self._data.dtype
    if len(bounds) == 1 and not named:
        bounds = (0, *bounds)
    low, high = _from_to("random_", bounds, named, 0, None)
    if high is None and target.kind in "fV":
        high = 2 ** MANTISSA[dt.of(target).name] + 1
    elif high is None:
        high = 2 if target.kind == "b" else int(np.iinfo(target).max) + (target.itemsize < 8)
    low, high = (ax.integer("random_", name, bound) for name, bound in (("from", low), ("to", high)))
    return self.copy_(integers(int(low), int(high), tuple(self.shape), generator, target))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Overwrite with the number of tries up to the first success of probability ``p``."""
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    waits = draw("exponential", tuple(self.shape), generator, _FLOAT64, self.device) / -math.log1p(-p)
    return self.copy_(APPLY["floor"](waits) + 1.0 if self.is_floating_point() else _counts(waits))


def _counts(waits: Tensor) -> Tensor:
    return APPLY["cast"](APPLY["floor"](waits), dtype=_INT64) + 1


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with Cauchy numbers: the ratio of two normal ones."""
    _continuous(self, "Cauchy")
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    above, below = (draw("normal", tuple(self.shape), generator, _FLOAT64, self.device) for _ in "12")
    return self.copy_(above / below * sigma + median)


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Overwrite with numbers whose logarithm is normal."""
    target = float_target(self.dtype, "log_normal_cpu")
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    return self.copy_((draw("normal", tuple(self.shape), generator, target, self.device) * std + mean).exp())


def _where_elements_are(method: Callable) -> Callable:
    """On the device "meta" nothing is drawn, and the generator stays where it is."""

    @functools.wraps(method)
    def drawn(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return self.zero_() if self.device is META else method(self, *args, **options)

    return drawn


FUNCTIONS: dict[str, Any] = {}
METHODS: dict[str, Any] = {
    f.__name__: _where_elements_are(f)
    for f in (
        uniform_, normal_, exponential_, bernoulli_, random_, geometric_, cauchy_, log_normal_,
    )
}  # fmt: skip
