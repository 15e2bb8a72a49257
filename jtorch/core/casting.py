"""What autocast is set to in a thread of control, and how it casts: a part of ``core/op.Context``.

An op declares its class: "lower" computes in the small float type that was asked for, "float32" in float32,
"promote" in the widest of its arguments. Only floating-point tensors are cast, and float64 never is.

Source: https://docs.pytorch.org/docs/stable/amp.html#cpu-op-specific-behavior
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt

CLASSES = ("lower", "float32", "promote")
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_NUMBERS = {d: k for k, d in enumerate(sorted(dt.ALL, key=lambda d: d is not dt.bfloat16))}  # bfloat16 is 0


class Casting:
    """A setting, never changed but for ``cache``: what was cast already since the outermost block began."""

    __slots__ = ("cache", "cache_enabled", "dtype", "enabled", "nesting", "number", "outer")

    def __init__(
        self,
        enabled: bool,
        dtype: dt.dtype,
        cache_enabled: bool,
        nesting: int = 0,
        cache: Any = None,
        outer: Casting | None = None,
    ) -> None:
        self.enabled = enabled
        self.dtype = dtype
        self.cache_enabled = cache_enabled
        self.nesting = nesting  # how many blocks it is in
        self.outer = outer  # what held around the innermost of them
        self.cache: dict[Any, Any] = {} if cache is None else cache
        # one for all settings that make an op compute the same; 0 where nothing was set
        self.number = (_NUMBERS[dtype] * 2 + (not cache_enabled)) * 2 + enabled

    def replace(self, **changes: Any) -> Casting:
        """One that differs in ``changes``; what was cast is shared."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name != "number"}
        return Casting(**(kept | changes))

    def target(self, policy: str, dtypes: Iterable[np.dtype]) -> np.dtype:
        """What an op of the class ``policy`` computes in, beside tensors of these ``dtypes``.

        Raises RuntimeError where it would be the other type of 16 bits, as PyTorch does.
        """
        if policy == "float32":
            return _FLOAT32
        lower = self.dtype.numpy
        if policy == "lower":
            return lower
        found = {d for d in dtypes if casts(d)}
        if found - {lower, _FLOAT32}:
            other = ", ".join(sorted(map(str, found - {lower, _FLOAT32})))
            raise RuntimeError(
                f"Unexpected floating ScalarType in at::autocast::prioritize: {other} tensors where autocast "
                f"is of {self.dtype}. Cast them, or put the call under autocast(enabled=False)."
            )
        return _FLOAT32 if _FLOAT32 in found else lower


def casts(dtype: np.dtype) -> bool:
    """Whether autocast changes tensors of ``dtype``."""
    return dtype.kind in "fV" and dtype != _FLOAT64


OFF = Casting(False, dt.bfloat16, True)
