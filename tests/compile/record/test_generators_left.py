"""Generators that wait when a recording begins again, is given up, or ends: what they do at their end is done
once for each call."""

from __future__ import annotations

import warnings

import jtorch

ONE = jtorch.ones(2)


def called(function, *calls):
    """``function`` compiled, called with each."""
    compiled = jtorch.compile(function, fullgraph=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [compiled(ONE, call) for call in calls]


def test_a_recording_that_begins_again():
    log, w = [], jtorch.zeros(2)

    def waiting(x):
        try:
            yield x
        finally:
            w.add_(1)
            log.append("closed")

    def function(x, k):
        generator = waiting(x)
        y = next(generator) * float(k)
        generator.close()
        return y

    assert [y.tolist() for y in called(function, 1, 2, 3)] == [[1, 1], [2, 2], [3, 3]]
    assert w.tolist() == [3, 3] and log == ["closed"] * 3


def test_what_a_generator_keeps_is_the_users():
    kept = []

    def waiting(n):
        try:
            yield 1
        finally:
            kept.append(n)

    def function(x, k):
        generator = waiting(k)
        y = x * next(generator) * len("a" * k)
        generator.close()
        return y

    called(function, 1, 2, 3)
    assert kept == [1, 2, 3] and all(type(n) is int for n in kept)


def test_a_call_that_runs_eagerly():
    events = []

    def resource(k):
        events.append(("open", k))
        try:
            yield k
        finally:
            events.append(("close", k))

    def function(x, k):
        generator = resource(k)
        rounded = round((x * next(generator)).sum().item(), 2)
        generator.close()
        return rounded

    assert called(function, 1, 2, 3) == [2.0, 4.0, 6.0]
    assert events == [(what, k) for k in (1, 2, 3) for what in ("open", "close")]


N = 0


def _endless():
    global N
    try:
        while True:
            yield 1.0
            N += 1
    finally:
        N = -1


def _in_a_comprehension(x, k):
    generator = _endless()
    return [x * next(generator) for _ in range(k)]


def _in_a_loop(x, k):
    found = []
    for value in _endless():
        found.append(x * value)
        if len(found) == k:
            break
    return found


def _in_a_closure(x, k):
    generator = _endless()
    return sum((lambda: next(generator))() for _ in range(k)) * x


def test_one_that_is_left_waiting_ends_with_the_call():
    global N
    for function in (_in_a_comprehension, _in_a_loop, _in_a_closure):
        compiled = jtorch.compile(function)
        for k in (1, 2, 3):
            N = 0
            compiled(ONE, k)
            assert N == -1, function
