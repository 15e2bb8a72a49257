"""The exact solution has no residual, both modes learn alike, and the error falls."""

from __future__ import annotations

import pytest

import jtorch


@pytest.mark.slow
def test_both_modes_give_the_same_losses(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = "--steps 10 --every 5 --points 16 --hidden 8"
    (losses, lines), (others, their_lines) = in_all_modes(options, ["", "--compile"])
    assert others == pytest.approx(losses, rel=1e-9) and len(losses) == 10
    assert lines == their_lines and len(lines) == 2


def test_the_exact_solution_has_no_residual(example):
    jtorch.set_default_dtype(jtorch.float64)
    x, t = jtorch.rand(2, 20)
    assert example.residual(example.exact, x, t).abs().max().item() < 1e-12
    assert example.residual(lambda x, t: x**2 + 3 * t, x.detach(), t.detach()).tolist() == pytest.approx(
        [3 - 2 * example.DIFFUSION] * 20
    )


def test_borders_and_beginning_are_exact(example):
    jtorch.set_default_dtype(jtorch.float64)
    u, some = example.Solution(8), jtorch.rand(9)
    with jtorch.no_grad():
        for end in (jtorch.zeros(9), jtorch.ones(9)):
            assert u(end, some).abs().max().item() < 1e-12
        assert jtorch.allclose(u(some, jtorch.zeros(9)), example.exact(some, jtorch.zeros(9)))


@pytest.mark.slow
def test_it_finds_the_solution(example):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    losses = example.main(["--compile", "--steps", "500"])
    assert sum(losses[-20:]) < 0.01 * sum(losses[:20])
