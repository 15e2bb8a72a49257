"""Both modes push the same way at each step, all lengths are one program, and the pole stays up."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import jtorch
from benchmarks.dynamic import example_of


@pytest.mark.slow
def test_both_modes_act_and_learn_alike(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    (lengths, lines), (others, their_lines) = in_all_modes("--episodes 40 --every 10", ["", "--compile"])
    assert others == lengths and len(set(lengths)) > 20
    assert lines == their_lines and len(lines) == 4


@pytest.mark.slow
def test_the_pole_stays_up_longer_and_longer(example, capsys):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    with warnings.catch_warnings():
        warnings.simplefilter("error", jtorch.errors.RetraceWarning)
        lengths = example.main(["--compile"])
    assert np.mean(lengths[:25]) < 40 and np.mean(lengths[-50:]) > 200
    assert max(lengths) == example.LIMIT


def test_the_pole_falls_to_the_side_it_is_not_held_on(example):
    world = example.CartPole(0)
    assert np.abs(world.reset()).max() <= 0.05
    for action, side in ((1, -1), (0, 1)):
        world.state, over, steps = np.zeros(4), False, 0
        while not over:
            state, over = world.step(action)
            steps += 1
        assert np.sign(state[2]) == side and np.sign(state[0]) == -side and steps < 15


def test_a_pole_that_is_let_go_keeps_to_the_equations_of_motion(example):
    """Barto, Sutton and Anderson's, as a system of two equations in both accelerations."""
    world = example.CartPole(0)
    world.state = np.array([0.1, -0.4, 0.15, 0.8])
    before = world.state
    after, _ = world.step(1)
    pull, bend = ((after - before) / 0.02)[[1, 3]]
    cart, pole, half, sin, cos = 1.0, 0.1, 0.5, np.sin(0.15), np.cos(0.15)
    assert (cart + pole) * pull + pole * half * (bend * cos - 0.8**2 * sin) == pytest.approx(10)
    assert pull * cos + 4 / 3 * half * bend == pytest.approx(9.8 * sin)
    assert (after - before)[[0, 2]] == pytest.approx([0.02 * -0.4, 0.02 * 0.8])


def test_the_loss_is_that_of_the_formula(example):
    jtorch.set_default_dtype(jtorch.float64)
    model, states, actions = example.ActorCritic(), jtorch.randn(5, 4), jtorch.tensor([0, 1, 1, 0, 1])
    scores, values = (each.detach().numpy() for each in model(states))
    returns = np.array([0.01 * sum(0.99**k for k in range(5 - t)) for t in range(5)])
    advantages = (returns - values) - (returns - values).mean()
    advantages /= advantages.std(ddof=1) + 1e-6
    chosen = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    policy = -(np.log(chosen[np.arange(5), actions.numpy()]) * advantages).mean()
    expected = policy + 0.5 * ((values - returns) ** 2).mean()
    assert example.policy_loss(model, states, actions).item() == pytest.approx(expected, rel=1e-12)


def test_pytorch_gives_the_same_loss_and_gradients(example):
    torch = pytest.importorskip("torch")
    jtorch.set_default_dtype(jtorch.float64)
    other = example_of("policy_gradient", torch)
    model, theirs = example.ActorCritic(), other.ActorCritic().double()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    states, actions = jtorch.randn(9, 4), jtorch.randint(0, 2, (9,))
    loss = example.policy_loss(model, states, actions)
    their_states, their_actions = torch.from_numpy(states.numpy()), torch.from_numpy(actions.numpy())
    their_loss = other.policy_loss(theirs, their_states, their_actions)
    loss.backward(), their_loss.backward()
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-11)
    for p, q in zip(model.parameters(), theirs.parameters(), strict=True):
        assert p.grad.flatten().tolist() == pytest.approx(q.grad.flatten().tolist(), rel=1e-9, abs=1e-15)
