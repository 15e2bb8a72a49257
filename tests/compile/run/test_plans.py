"""The plans of a function: one for each kind of arguments, the least recently used ones forgotten."""

from __future__ import annotations

import jtorch
from jtorch.compile import api
from jtorch.native import cache


def plans_of(f):
    return sum(len(plans) for plans in f.plans.values())


def test_the_least_recently_used_go(monkeypatch):
    monkeypatch.setattr(api, "MAX_PLANS", 3)
    f = jtorch.compile(lambda x: x * 2, dynamic=False)
    for n in (1, 2, 3, 1, 4):  # of which 2 is the oldest use
        assert f(jtorch.ones(n)).tolist() == [2.0] * n
    assert plans_of(f) == 3 and len(f.retraces) == 3 and f.calls == 5
    with jtorch.testing.assert_no_retrace(f):
        for n in (3, 1, 4):
            f(jtorch.ones(n))
    assert f(jtorch.ones(2)).tolist() == [2.0, 2.0]
    assert plans_of(f) == 3 and len(f.retraces) == 4


def test_other_structures_count_together(monkeypatch):
    monkeypatch.setattr(api, "MAX_PLANS", 3)
    f = jtorch.compile(lambda xs: sum(xs))
    for n in range(1, 9):
        assert f([jtorch.ones(2)] * n).tolist() == [float(n)] * 2
    assert plans_of(f) == 3 and len(f.plans) == 3 and f.calls == 8


def test_a_size_that_was_forgotten_compiles_no_kernel(monkeypatch):
    monkeypatch.setattr(api, "MAX_PLANS", 1)
    f = jtorch.compile(lambda x: (x * 3).exp().sum(), dynamic=False)
    f(jtorch.ones(4, 5))
    before = cache.counters.compiled
    for n in (7, 4, 9, 4):
        f(jtorch.ones(n, 5))
    assert cache.counters.compiled == before
    assert [entry.kernels_compiled for entry in f.retraces] == [0] * 4


def test_one_recorded_call_after_another_keeps_its_results(monkeypatch):
    """A plan that was forgotten while its results and gradients are in use takes nothing with it."""
    monkeypatch.setattr(api, "MAX_PLANS", 1)
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (x * w).sum())
    losses = [f(jtorch.ones(n, 3)) for n in (1, 2, 3)]
    for loss in losses:
        loss.backward()
    assert w.grad.tolist() == [6.0] * 3
