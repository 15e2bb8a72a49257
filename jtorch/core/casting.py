"""What autocast is set to in a thread of control, and how it casts: a part of ``core/op.Context``.

An op declares its class, on the CPU and on CUDA devices: "lower" computes in the small float type that was
asked for, "float32" in float32, "promote" in the widest of its arguments, "as_is" in the dtypes it is given,
with all that it is made of, and "banned" is refused. Only floating-point tensors are cast, float64 never.

Source: https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior, and of the CPU there
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jtorch.core import dtypes as dt

CLASSES = ("lower", "float32", "promote", "as_is", "banned")
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Policy(NamedTuple):
    """The class of an op on each device. None: nothing is cast for it, and what it is made of has classes."""

    cpu: str | None = None
    cuda: str | None = None


def policy_of(given: str | dict[str, str] | None) -> Policy | None:
    """A class on each device, ``{device: class}``, or nothing, as declarations have them."""
    if given is None:
        return None
    return Policy(**given) if isinstance(given, dict) else Policy(given, given)


class Setting(NamedTuple):
    """What autocast is set to on one device."""

    enabled: bool
    dtype: dt.dtype

    def number(self, usual: dt.dtype) -> int:
        """One for each setting, 0 where ``usual`` is the dtype and it is off."""
        return (_NUMBERS[self.dtype] - _NUMBERS[usual]) % len(_NUMBERS) * 2 + self.enabled


_NUMBERS = {d: k for k, d in enumerate(dt.ALL)}
_OTHERS: dict[tuple[tuple[str, Setting], ...], int] = {}  # a number for each that there was


class Casting:
    """A setting for each device, never changed but for ``cache``: what was cast already since the outermost
    block began."""

    __slots__ = ("cache", "cache_enabled", "cpu", "cuda", "nesting", "number", "others", "outer")

    def __init__(
        self,
        cpu: Setting,
        cuda: Setting,
        cache_enabled: bool,
        nesting: int = 0,
        cache: Any = None,
        outer: Casting | None = None,
        others: tuple[tuple[str, Setting], ...] = (),
    ) -> None:
        self.cpu, self.cuda = cpu, cuda
        self.cache_enabled = cache_enabled
        self.nesting = nesting  # how many blocks it is in
        self.outer = outer  # what held around the innermost of them
        self.cache: dict[Any, Any] = {} if cache is None else cache
        self.others = others  # what was set for devices that are not here, which changes nothing but answers
        # one for all settings that make an op compute the same, and have one answer; 0 where nothing was set
        devices = cuda.number(dt.float16) * 2 * len(_NUMBERS) + cpu.number(dt.bfloat16)
        number = devices * 2 + (not cache_enabled)
        if others:
            number += _OTHERS.setdefault(others, len(_OTHERS) + 1) << 32
        self.number = number

    @property
    def enabled(self) -> bool:
        """Whether it is on for any device."""
        return self.cpu.enabled or self.cuda.enabled

    def on(self, device_type: str) -> Setting:
        """What is set for a device: "cuda", or any other one, which is computed on the host."""
        return self.cuda if device_type == "cuda" else self.cpu

    def replace(self, **changes: Any) -> Casting:
        """One that differs in ``changes``; what was cast is shared."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name != "number"}
        return Casting(**(kept | changes))

    def off(self) -> Casting:
        """The same, where nothing is cast."""
        return self.replace(cpu=self.cpu._replace(enabled=False), cuda=self.cuda._replace(enabled=False))


def target(policy: str, lower: dt.dtype, dtypes: Iterable[np.dtype]) -> np.dtype:
    """What an op of the class ``policy`` computes in where autocast lowers to ``lower``, beside tensors of
    these ``dtypes``.

    Raises RuntimeError where it would be the other type of 16 bits, as PyTorch does.
    """
    if policy == "float32":
        return _FLOAT32
    if policy == "lower":
        return lower.numpy
    found = {d for d in dtypes if casts(d)}
    others = found - {lower.numpy, _FLOAT32}
    if others:
        told = ", ".join(sorted(map(str, others)))
        raise RuntimeError(
            f"Unexpected floating ScalarType in at::autocast::prioritize: {told} tensors where autocast is "
            f"of {lower}. Cast them, or put the call under autocast(enabled=False)."
        )
    return _FLOAT32 if _FLOAT32 in found else lower.numpy


def casts(dtype: np.dtype) -> bool:
    """Whether autocast changes tensors of ``dtype``."""
    return dtype.kind in "fV" and dtype != _FLOAT64


OFF = Casting(Setting(False, dt.bfloat16), Setting(False, dt.float16), True)
