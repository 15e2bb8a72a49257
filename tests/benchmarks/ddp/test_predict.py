"""Predicted steps: what can be hidden is, and no more."""

from __future__ import annotations

import pytest

from benchmarks.ddp import predict
from benchmarks.ddp.costs import Network, exchange
from benchmarks.ddp.measure import Cost, Row
from benchmarks.models.rows import MODELS
from benchmarks.timing import Timing

NETWORK = Network("made", call=1e-5, alpha=2e-6, beta=1e-9, gamma=1e-10)


def timing(*samples):
    return Timing(samples, 1)


def row(buckets=(1 << 20, 1 << 20), buffers=()):
    cost = Cost(timing(0.010), timing(0.020), timing(0.012), timing(0.013), timing(0.009))
    return Row(MODELS["mlp-64"], list(buckets), list(buffers), {"jtorch compiled": cost})


def test_what_is_derived_is_taken_round_by_round():
    cost = Cost(timing(1.0, 1.0), timing(2.0, 8.0), timing(1.5, 7.0), timing(1.75, 7.5), timing(0.75, 3.0))
    assert cost.exposed.samples == (0.5, 1.0) and cost.hidden.samples == (0.25, 2.0)
    assert cost.waiting.samples == (0.25, 0.5)
    assert cost.efficiency == pytest.approx(1 / 5)
    assert "weak_efficiency" in cost.as_dict() and Cost(None, *[cost.apart] * 4).efficiency is None


def test_nothing_hidden_is_the_sum():
    assert predict.step(0.012, [10, 10], [0.001, 0.002], hides=False) == pytest.approx(0.015)


def test_the_last_bucket_cannot_be_hidden():
    """Backward is the last 8 of 12 ms; the first of two equal buckets is full after 4 of them."""
    assert predict.step(0.012, [10, 10], [0.001, 0.002], hides=True) == pytest.approx(0.014)
    assert predict.step(0.012, [10, 10], [0.009, 0.002], hides=True) == pytest.approx(0.008 + 0.011)


def test_a_row_has_its_collectives_and_two_steps():
    collectives, apart, beside = predict.of_row(NETWORK, row(), "jtorch compiled", 2)
    each = NETWORK.seconds(exchange(1 << 20, 2))
    assert collectives.predicted == pytest.approx(2 * each) and collectives.measured == 0.009
    assert apart.predicted == pytest.approx(0.012 + 2 * each) and apart.measured == 0.020
    assert beside.predicted < apart.predicted
    assert apart.error == pytest.approx(apart.predicted / 0.020 - 1)


def test_buffers_are_broadcast_before():
    more, less = (sum(predict.communication(NETWORK, row(buffers=b), 2)) for b in ((1000,), ()))
    assert more - less == pytest.approx(1e-5 + 2e-6 + 1e-6)


def test_more_processes_cost_more():
    scales = predict.extrapolated(NETWORK, row(), 0.010)
    assert [s.ranks for s in scales] == [8, 64, 512, 4096]
    assert [s.collectives for s in scales] == sorted(s.collectives for s in scales)
    assert all(s.efficiency[0] <= s.efficiency[1] <= 1 for s in scales)
    last = scales[-1]  # where a message to everyone costs more than a few of everything
    assert last.others["halving and doubling"] < last.others["ring"]
    assert set(last.as_dict()["other_algorithms_s"]) == set(predict.OTHERS)
