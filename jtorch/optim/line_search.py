"""A line search for the strong Wolfe conditions. Nocedal and Wright 2006, algorithms 3.5 and 3.6."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jtorch.eager.public import Tensor

DECREASE, CURVATURE = 1e-4, 0.9  # the conditions' c1 and c2


class Point(NamedTuple):
    """A step size ``t`` along the direction, the loss there, its gradient, and its slope."""

    t: float
    loss: float
    gradient: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, low: float | None = None, high: float | None = None) -> float:
    """Where the cubic through two points and slopes is least, kept between ``low`` and ``high``."""
    low = min(a.t, b.t) if low is None else low
    high = max(a.t, b.t) if high is None else high
    if a.t > b.t:
        a, b = b, a
    width = b.t - a.t
    mean = a.slope + b.slope - 3 * (_ratio(b.loss - a.loss, width))
    square = mean**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = math.sqrt(square)
    found = b.t - width * _ratio(b.slope + root - mean, b.slope - a.slope + 2 * root)
    return min(max(found, low), high)


def _ratio(x: float, y: float) -> float:
    """A quotient as floats of an array give it: by zero it is NaN or infinite."""
    return x / y if y else math.copysign(math.inf, x) if x and x == x else math.nan


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    start: Point,
    t: float,
    direction: Tensor,
    tolerance: float,
    most: int,
) -> tuple[Point, int]:
    """(a point that fulfils the conditions, or the best one found; evaluations).

    ``evaluate(t)`` gives loss and gradient; ``most`` bounds the rounds, ``tolerance`` the bracket's size.
    """
    calls = 0

    def look(t: float) -> Point:
        nonlocal calls
        calls += 1
        loss, gradient = evaluate(t)
        return Point(t, loss, gradient, float(gradient.dot(direction)))

    bracket, rounds, done = _bracket(look, start, t, most)
    if not done:
        longest = float(direction.abs().max())
        bracket = _zoom(look, start, bracket, longest, tolerance, most - rounds)
    return min(bracket, key=lambda point: point.loss), calls


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.t * start.slope


def _flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -CURVATURE * start.slope


def _bracket(look: Any, start: Point, t: float, most: int) -> tuple[list[Point], int, bool]:
    """Go on until a minimum lies between the last two points: (bracket, rounds, whether one will do)."""
    before, now, rounds = start, look(t), 0
    while rounds < most:
        if _too_high(now, start) or (rounds > 1 and now.loss >= before.loss):
            return [before, now], rounds, False
        if _flat(now, start):
            return [now], rounds, True
        if now.slope >= 0:
            return [before, now], rounds, False
        least, largest = now.t + 0.01 * (now.t - before.t), now.t * 10
        before, now = now, look(cubic_minimum(before, now, least, largest))
        rounds += 1
    return [start, now], rounds, False


def _zoom(
    look: Any, start: Point, bracket: list[Point], longest: float, tolerance: float, most: int
) -> list[Point]:
    """Shrink the bracket, whose first point is kept the better one, until a point will do."""
    low, high = bracket if bracket[0].loss <= bracket[-1].loss else (bracket[1], bracket[0])
    stuck = False
    for _ in range(most):
        if abs(high.t - low.t) * longest < tolerance:
            break
        t, stuck = _inside(cubic_minimum(low, high), low.t, high.t, stuck)
        now = look(t)
        if _too_high(now, start) or now.loss >= low.loss:
            high = now
            if high.loss < low.loss:
                low, high = high, low
            continue
        if _flat(now, start):
            return [now]
        if now.slope * (high.t - low.t) >= 0:
            high = low
        low = now
    return [low, high]


def _inside(t: float, a: float, b: float, stuck: bool) -> tuple[float, bool]:
    """``t`` away from the bracket's ends if it comes close to them twice: (t, whether it came close)."""
    left, right = min(a, b), max(a, b)
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not (stuck or t >= right or t <= left):
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
