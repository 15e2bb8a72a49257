"""Whether two programs compute the same: a figure is only reported for programs that do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


class DisagreementError(Exception):
    """Two contestants of one row computed different numbers."""


@dataclass(frozen=True)
class Tolerance:
    """How far two modes may differ: by rounding, since fused sums run in another order.

    Losses are compared relatively. Gradients and parameters are compared against the largest
    element of the array, since single elements may be sums that cancel to nearly nothing.
    """

    losses: float = 1e-5
    gradients: float = 1e-4
    parameters: float = 1e-4
    rounding: float = 0.0  # that much is allowed of elements near 0, which are sums of larger ones


@dataclass(frozen=True)
class Record:
    """What the first steps of a program computed: all losses, then the state after the last."""

    losses: list[np.ndarray]
    gradients: Mapping[str, np.ndarray]
    parameters: Mapping[str, np.ndarray]


def record(program: Any, step: Any, steps: int) -> Record:
    """Run ``steps`` steps of a program from its initial state."""
    program.reset()
    losses = []
    for k in range(steps):
        arguments = program.arguments[k % len(program.arguments)]
        losses.append(np.array(program.to_numpy(step(*arguments))))
    return Record(losses, program.gradients(), program.parameters())


def check(found: Record, expected: Record, tolerance: Tolerance, who: str, gradients: bool = True) -> None:
    """Raise DisagreementError, naming the first number that differs, unless both records agree.

    ``gradients=False`` for a library that keeps none: losses and parameters are compared.
    """
    for k, (a, b) in enumerate(zip(found.losses, expected.losses, strict=True)):
        _compare(f"{who}: the result of step {k}", a, b, tolerance.losses)
    for kind in ("gradients", "parameters") if gradients else ("parameters",):
        ours, theirs = getattr(found, kind), getattr(expected, kind)
        if sorted(ours) != sorted(theirs):
            raise DisagreementError(f"{who}: has {kind} of {sorted(ours)}, expected {sorted(theirs)}")
        for name, value in ours.items():
            allowed = getattr(tolerance, kind)
            _compare(f"{who}: {kind} of {name}", value, theirs[name], allowed, tolerance.rounding)


def _compare(
    what: str, found: np.ndarray, expected: np.ndarray, tolerance: float, rounding: float = 0.0
) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise DisagreementError(
            f"{what} is {found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
    if not found.size:
        return
    scale = float(np.abs(expected).max())
    error = float(np.abs(found.astype(np.float64) - expected).max())
    if not error <= tolerance * scale + rounding:  # NaN is a disagreement too
        raise DisagreementError(
            f"{what} differs by {error:.3g} where the largest element is {scale:.3g}; "
            f"allowed is {tolerance:g} of it"
        )
