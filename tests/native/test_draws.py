"""Random numbers drawn by one loop: those that NumPy's bits and what is made of them give."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import jtorch
from jtorch.core import philox
from jtorch.eager.evaluate import EAGER
from jtorch.native import draws, loops

F4, F8, I8 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")
KINDS = [(kind, dtype, ()) for kind in ("uniform", "normal", "exponential") for dtype in (F4, F8)]
KINDS += [("bounded", I8, bounds) for bounds in ((0, 9), (-5, 3), (-(2**63), 2**63 - 1), (7, 2**40), (0, 1))]


def of_bits(kind, dtype, bounds, seed, call, n):
    given = philox.raw_bits(seed, call, n)
    return philox.bounded(given, *bounds) if bounds else getattr(philox, kind)(given, dtype)


@pytest.mark.parametrize("kind, dtype, bounds", KINDS)
@pytest.mark.parametrize("n", [32, 33, 34, 35, 64, 4096, 70001, 262147])
def test_a_loop_draws_what_bits_give(kind, dtype, bounds, n):
    for seed, call in ((0, 0), (2**64 - 3, 7), (123, 2**40)):
        found = draws.drawn(kind, seed, call, (n,), dtype, *bounds)
        if found is None:
            pytest.skip("there are no compiled loops here")
        expected = of_bits(kind, dtype, bounds, seed, call, n)
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_few_are_left_to_numpy():
    assert draws.drawn("normal", 1, 2, (loops.WORTHWHILE - 1,), F4) is None
    assert draws.drawn("normal", 1, 2, (3, 0), F4) is None


def each():
    """All public functions that draw, of 4 to 100,000 numbers."""
    found = []
    for shape in ((2, 2), (8, 8), (5, 7), (100, 1000)):
        x = jtorch.zeros(shape)
        found += [jtorch.randn(shape), jtorch.rand(shape, dtype=jtorch.float64), jtorch.randint(-3, 9, shape)]
        found += [jtorch.rand(shape, dtype=jtorch.float16), jtorch.randint(9, shape, dtype=jtorch.int32)]
        found += [jtorch.randn(shape, dtype=jtorch.complex64), jtorch.randn_like(x), x.normal_(2, 3).clone()]
        found += [x.uniform_(-1, 2).clone(), x.exponential_().clone(), jtorch.normal(x, 0.5)]
        found += [jtorch.rand(shape, generator=jtorch.Generator().manual_seed(5))]
    return [t.numpy() for t in found]


def test_who_draws_gets_the_same_as_from_bits(monkeypatch):
    jtorch.manual_seed(3)
    at_once = each()
    state = jtorch.get_rng_state()
    monkeypatch.setattr(EAGER, "skips_table", False)
    jtorch.manual_seed(3)
    for found, expected in zip(at_once, each(), strict=True):
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert jtorch.equal(state, jtorch.get_rng_state())


def test_compiled_code_draws_the_same():
    def step(x):
        return x + jtorch.randn(x.shape), jtorch.rand(9, 9), jtorch.randint(0, 5, (8, 8))

    x = jtorch.ones(30, 50)
    jtorch.manual_seed(1)
    expected = step(x)
    jtorch.manual_seed(1)
    for found, other in zip(jtorch.compile(step)(x), expected, strict=True):
        assert jtorch.equal(found, other)


def test_threads_that_draw_get_what_one_gets():
    generators = [jtorch.Generator().manual_seed(k) for k in range(4)]
    found = [[] for _ in generators]

    def draw(k):
        for n in (40, 4096, 100_000) * 5:
            found[k].append(jtorch.randn(n, generator=generators[k]))

    threads = [threading.Thread(target=draw, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, drawn in enumerate(found):
        again = jtorch.Generator().manual_seed(k)
        assert all(jtorch.equal(x, jtorch.randn(x.shape, generator=again)) for x in drawn)


def test_a_profile_shows_the_op_that_draws():
    with jtorch.profiler.profile() as profile:
        jtorch.randn(8, 8)
    assert "normal" in {event.key for event in profile.key_averages()}
    assert EAGER.skips_table
