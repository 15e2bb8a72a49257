"""The model's formulas against those of the paper, and its fit on points that were made by it."""

from __future__ import annotations

import math

import pytest

from benchmarks.ddp import costs
from benchmarks.ddp.costs import Network, Point

MADE = Network("made", call=20e-6, alpha=5e-6, beta=1e-10, gamma=5e-11)
SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 23)


def test_the_terms_are_those_of_the_paper():
    """Thakur, Rabenseifner and Gropp 2005, section 4.5."""
    n, p, levels = 4096, 8, 3
    assert costs.recursive_doubling(n, p) == (levels, levels * n, levels * n)
    assert costs.halving_and_doubling(n, p) == (2 * levels, 2 * 7 / 8 * n, 7 / 8 * n)
    assert costs.ring(n, p) == (2 * 7, 2 * 7 / 8 * n, 7 / 8 * n)
    assert costs.binomial(n, p) == (2 * levels, 2 * levels * n, levels * n)
    assert costs.broadcast(n, p) == (levels, levels * n, 0)


def test_processes_that_are_no_power_of_two_need_a_level_more():
    assert [costs.binomial(1, p).messages for p in (2, 3, 4, 5, 8, 9)] == [2, 4, 4, 6, 6, 8]


def test_the_algorithm_is_the_one_that_jtorch_takes():
    assert costs.algorithm((1 << 19) - 4) is costs.binomial
    assert costs.algorithm(1 << 19) is costs.exchange
    assert costs.of_all_reduce(1 << 20, 1) == (0, 0, 0)


def test_exact_points_give_the_constants_they_were_made_with():
    points = [Point(n, p, MADE.all_reduce(n, p)) for n in SIZES for p in (2, 4)]
    found = costs.fit("made", points, MADE.call, MADE.gamma)
    assert (found.alpha, found.beta) == pytest.approx((MADE.alpha, MADE.beta))


def test_points_that_are_off_give_constants_that_are_not_further_off():
    points = [
        Point(n, 2, MADE.all_reduce(n, 2) * (1 + 0.05 * (-1) ** k)) for k, n in enumerate(sorted(SIZES))
    ]
    found = costs.fit("noisy", points, MADE.call, MADE.gamma)
    assert found.alpha == pytest.approx(MADE.alpha, rel=0.3)
    assert found.beta == pytest.approx(MADE.beta, rel=0.15)


@pytest.mark.parametrize("missing", ["alpha", "beta"])
def test_no_constant_is_below_zero(missing):
    """Points that are faster than the known costs alone allow."""
    sizes = (1 << 10, 1 << 11) if missing == "beta" else (1 << 20, 1 << 23)
    points = [Point(n, 2, 20e-6 + (2e-6 if missing == "beta" else 3e-10 * n)) for n in sizes]
    points.append(Point(1 << 12, 2, 21e-6) if missing == "beta" else Point(1 << 10, 2, 19e-6))
    found = costs.fit("x", points, call=20e-6, gamma=0.0)
    assert getattr(found, missing) == 0 and found.alpha >= 0 and found.beta >= 0
    assert found.alpha + found.beta > 0


def test_a_fit_needs_two_points():
    with pytest.raises(ValueError, match=r"two constants can't be fitted to 1 point"):
        costs.fit("x", [Point(8, 2, 1.0)], 0.0, 0.0)


def test_errors_are_parts_of_what_was_measured():
    assert math.isclose(costs.relative_error(1.5, 2.0), -0.25)
