"""Samples: Fourier transforms, of even and odd sizes."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Draw, Sample, entry

PLACES = [((6,), (0,)), ((3, 5), (0,)), ((2, 3, 4), (0, 2)), ((2, 3, 4), (2, 1)), ((0, 3), (1,))]


def _complex(draw: Draw, shape: tuple[int, ...]) -> np.ndarray:
    return draw.floats(*shape) + 1j * draw.floats(*shape)


@entry("fft_complex")
def _(draw: Draw) -> list[Sample]:
    facts = [(True, "one"), (False, "count"), (True, "root"), (False, "one"), (True, "count")]
    return [
        Sample((make,), {"axes": axes, "forward": forward, "divisor": divisor})
        for (shape, axes), (forward, divisor) in zip(PLACES, facts, strict=True)
        for make in (_complex(draw, shape), draw.floats(*shape))
    ]


@entry("fft_halved")
def _(draw: Draw) -> list[Sample]:
    divisors = ("one", "root", "count", "one", "root")
    return [
        Sample((draw.floats(*shape),), {"axes": axes, "divisor": divisor})
        for (shape, axes), divisor in zip(PLACES, divisors, strict=True)
    ]


@entry("fft_real")
def _(draw: Draw) -> list[Sample]:
    divisors = ("one", "root", "count", "one", "root")
    return [
        Sample(
            (_complex(draw, shape),),
            {"axes": axes, "size": 2 * shape[axes[-1]] - 2 + odd, "divisor": divisor},
        )
        for (shape, axes), divisor in zip(PLACES, divisors, strict=True)
        for odd in (0, 1)
    ]
