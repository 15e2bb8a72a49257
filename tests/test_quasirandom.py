"""Sobol's points against PyTorch's, and what any such sequence obeys."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from jtorch.quasirandom import SobolEngine, _mixed
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch


@needs_torch
@each("dimension", [1, 2, 7, 200, 21201])
def test_directions_equal_pytorch_s(dimension):
    theirs = torch.quasirandom.SobolEngine(dimension).sobolstate
    assert (SobolEngine(dimension).sobolstate.numpy() == theirs.numpy()).all()


def _walked(L, dimension):
    """Points drawn in one way after the other."""
    engine = L.quasirandom.SobolEngine(dimension)
    found = [engine.draw(n) for n in (1, 3, 0, 8, 100)]
    found += [engine.fast_forward(77).draw(3, dtype=L.float64), engine.reset().fast_forward(5).draw()]
    found += [engine.reset().draw_base2(4), engine.reset().draw(5, out=L.empty(0))]
    return (
        [(str(p.dtype)[-7:], tuple(p.shape), p.tolist()) for p in found],
        engine.num_generated,
        repr(engine),
    )


@needs_torch
@each("dimension", [1, 7, 200])
def test_points_equal_pytorch_s(dimension):
    assert _walked(jtorch, dimension) == _walked(torch, dimension)


@needs_torch
def test_scrambling_equals_pytorch_s():
    directions = torch.quasirandom.SobolEngine(9).sobolstate
    before, triangles = directions.numpy().copy(), torch.randint(2, (9, 30, 30)).tril()
    torch._sobol_engine_scramble_(directions, triangles, 9)
    assert (_mixed(before, triangles.numpy()) == directions.numpy()).all()


def test_the_first_points():
    engine = SobolEngine(3)
    first = [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(4).tolist() == first
    assert engine.num_generated == 4
    assert engine.reset().fast_forward(2).draw(2).tolist() == first[2:]


@each("scramble", [False, True])
def test_each_interval_gets_one_point(scramble):
    points = SobolEngine(5, scramble=scramble, seed=3).draw_base2(6)
    for places in (points * 64).long().numpy().T:
        assert sorted(places) == list(range(64))


def test_scrambling_by_seed():
    points = [SobolEngine(4, scramble=True, seed=seed).draw(8).numpy() for seed in (1, 1, 2)]
    assert (points[0] == points[1]).all()
    assert (points[0] != points[2]).any()
    assert repr(SobolEngine(4, True, 1)) == "SobolEngine(dimension=4, scramble=True, seed=1)"


def test_errors():
    with pytest.raises(ValueError, match=r"\[1, 21201\]"):
        SobolEngine(0)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="balance properties"):
        engine.draw_base2(2)


def test_compiled_functions_refuse_with_their_line():
    engine = SobolEngine(2)
    with pytest.raises(CompileError, match=r"test_quasirandom.py:\d+ in .*SobolEngine"):
        jtorch.compile(lambda x: x + engine.draw(1), fullgraph=True)(jtorch.zeros(2))
    assert engine.num_generated == 0
    assert np.isfinite(engine.draw(2).numpy()).all()
