"""Both solvers solve, steps are as many as their error asks for, and both modes fit the same network."""

from __future__ import annotations

import pytest
from scipy.integrate import solve_ivp

import jtorch

TIMES = [0.5 * k for k in range(7)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dopri5", "rk4"])
def test_both_modes_give_the_same_losses(in_all_modes, method):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    options = f"--method {method} --steps 8 --every 4 --tolerance 1e-6"
    (losses, lines), (others, their_lines) = in_all_modes(options, ["", "--compile"])
    assert others == pytest.approx(losses, rel=1e-11) and len(losses) == 8
    assert lines == their_lines and len(lines) == 2


@pytest.mark.slow
def test_it_fits_the_spiral_with_more_steps_as_it_learns(example, capsys):
    losses = example.main(["--every", "20"])
    assert losses[0] > 0.3 and losses[-1] < 0.01
    words = [line.split() for line in capsys.readouterr().out.splitlines()[:-1]]
    accepted, rejected = ([int(line[k]) for line in words] for k in (4, 7))
    assert accepted[0] == 6 and accepted[-1] == 15
    assert rejected[0] == 0 and rejected[-1] == 3


@pytest.fixture
def start():
    jtorch.set_default_dtype(jtorch.float64)
    return jtorch.tensor([[0.4, 0.1], [-1.0, 0.7]])


def expected(example, start):
    """The solution (times, N, 2) as SciPy finds it."""

    def flat(t, y):
        return example.spiral(jtorch.tensor(y).reshape(-1, 2)).flatten().numpy()

    found = solve_ivp(flat, (0, 3), start.flatten().numpy(), "DOP853", TIMES, rtol=1e-12, atol=1e-12)
    return jtorch.tensor(found.y.T.copy()).reshape(-1, *start.shape)


def test_dopri5_keeps_its_tolerance(example, start):
    truth, counts = expected(example, start), []
    for tolerance in (1e-4, 1e-6, 1e-8):
        found, accepted, rejected = example.dopri5(
            example.spiral, example.dopri5_step, start, TIMES, tolerance
        )
        assert 0 < (found - truth).abs().max() < 100 * tolerance  # what later steps make of it included
        assert rejected > 0
        counts.append(accepted)
    assert counts[0] < counts[1] < counts[2]
    assert 2 < counts[2] / counts[1] < 3  # of order 5: steps of a 100th of the error are 2.5 times as many


def test_rk4_is_of_order_4(example, start):
    truth, errors = expected(example, start)[-1], []
    for steps in (100, 200):
        found = example.rk4(example.spiral, start, jtorch.full((steps,), 3 / steps))
        assert found.shape == (steps + 1, 2, 2)
        errors.append((found[-1] - truth).abs().max().item())
    assert 13 < errors[0] / errors[1] < 20


def test_the_last_slope_of_a_step_is_the_first_of_the_next(example, start):
    end, slope, error = example.dopri5_step(example.spiral, start, example.spiral(start), 0.01, 1e-6)
    assert jtorch.equal(slope, example.spiral(end))
    assert not error.requires_grad and 0 < error.item() < 1
