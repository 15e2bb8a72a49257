"""Both modes act alike, advantages and loss are those of the formulas, and poles stay up longer."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import jtorch
from benchmarks.dynamic import example_of

SMALL = "--rollouts 3 --worlds 4 --steps 32 --every 1"


@pytest.mark.slow
def test_both_modes_act_and_learn_alike(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    (rewards, lines), (others, their_lines) = in_all_modes(SMALL, ["", "--compile"])
    assert others == rewards and len(rewards) > 5
    assert lines == their_lines and len(lines) == 3


@pytest.mark.slow
def test_poles_stay_up_longer_and_longer(example):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    rewards = example.main(["--compile", "--rollouts", "20"])
    assert np.mean(rewards[:20]) < 40 and np.mean(rewards[-20:]) > 100


def test_advantages_are_those_of_the_formula(example):
    r = np.random.default_rng(0)
    rewards, values, last = r.random((6, 2)), r.random((6, 2)), r.random(2)
    ended = np.zeros((6, 2), bool)
    ended[3, 0] = True
    after = np.concatenate([values[1:], last[None]])
    surprise = rewards + example.DISCOUNT * after * ~ended - values
    for world, stop in ((0, 4), (1, 6)):  # the first episode of each
        for t in range(stop):
            powers = (example.DISCOUNT * example.SMOOTHING) ** np.arange(stop - t)
            expected = (powers * surprise[t:stop, world]).sum()
            found = example.advantages_of(rewards, values, ended, last)[t, world]
            assert found == pytest.approx(expected, rel=1e-12)


def test_a_pole_that_fell_begins_again(example):
    world = example.Poles(3, 0)
    ended = np.zeros((40, 3), bool)
    for t in range(40):
        states, rewards, ended[t] = world.step(np.ones(3, int))
        assert np.all(rewards == 1) and np.all(np.abs(states[ended[t]]) <= 0.05)
        assert np.all(world.age[ended[t]] == 0)
    assert np.all(ended.sum(0) >= 3)  # pushed to one side it stays up for some ten steps


def test_pytorch_gives_the_same_loss_and_gradients(example):
    torch = pytest.importorskip("torch")
    jtorch.set_default_dtype(jtorch.float64)
    other = example_of("ppo", torch)
    model, theirs = example.ActorCritic(4, 2), other.ActorCritic(4, 2).double()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    floats = [jtorch.randn(9) for _ in range(3)]
    batch = (jtorch.randn(9, 4), jtorch.randint(0, 2, (9,)), floats[0] - 1, *floats[1:])
    loss = example.ppo_loss(model, *batch)
    their_loss = other.ppo_loss(theirs, *(torch.from_numpy(each.numpy()) for each in batch))
    loss.backward(), their_loss.backward()
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-11)
    for p, q in zip(model.parameters(), theirs.parameters(), strict=True):
        assert p.grad.flatten().tolist() == pytest.approx(q.grad.flatten().tolist(), rel=1e-9, abs=1e-14)


def test_without_gymnasium_it_says_what_to_install(example, monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(SystemExit, match="pip install gymnasium"):
        example.main(["--gymnasium", "CartPole-v1"])


@pytest.mark.skipif(importlib.util.find_spec("gymnasium") is None, reason="gymnasium is not installed")
def test_a_world_of_gymnasium(example):
    assert example.main([*SMALL.split(), "--gymnasium", "CartPole-v1"])
