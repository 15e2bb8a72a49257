"""Actor and critic on a pole to balance: episodes of any length, one update each.

    python examples/policy_gradient.py              # eager
    python examples/policy_gradient.py --compile    # acting and the update compiled

The cart and its pole (Barto, Sutton and Anderson 1983) are a few lines of NumPy. Dynamic: the world is any
Python, an episode is as long as the pole stays up, and an update pays for a graph of that length. Static: an
action is one call without gradients, an update (returns, losses, backward, clipping, Adam) is another, whose
length is a symbol: each is recorded once. Compiled, 200 episodes took a quarter of the time, the world itself
and recording included, and half where all kernels were compiled for the first time.
"""

import argparse
import time
from typing import Any

import numpy as np

import jtorch
import jtorch.nn.functional as F
from jtorch import nn

LIMIT, DISCOUNT = 300, 0.99  # steps of an episode, what a later one is worth


class CartPole:
    """A pole on a cart that is pushed left or right; 1 for each step until it falls or leaves."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def reset(self) -> np.ndarray:
        """x, its velocity, the pole's angle from upright, its velocity: (4,)"""
        self.state = self.random.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action: int) -> tuple[np.ndarray, bool]:
        """The state after 0.02 s of a push of 10 N, and whether the episode is over."""
        _, v, angle, turn = self.state
        cart, pole, half, gravity = 1.0, 0.1, 0.5, 9.8  # kg, kg, m to the middle of the pole, m/s^2
        sin, cos = np.sin(angle), np.cos(angle)
        push = ((10.0 if action else -10.0) + pole * half * turn**2 * sin) / (cart + pole)
        bend = (gravity * sin - cos * push) / (half * (4 / 3 - pole * cos**2 / (cart + pole)))
        pull = push - pole * half * bend * cos / (cart + pole)
        self.state = self.state + 0.02 * np.array([v, pull, turn, bend])
        return self.state, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > np.pi / 15)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, states: Any) -> tuple[Any, Any]:
        hidden = self.body(states)
        return self.actor(hidden), self.critic(hidden)[..., 0]


def policy_loss(model: nn.Module, states: Any, actions: Any) -> Any:
    """Of an episode: states (T, 4) and actions (T,), each of which a step of the pole followed."""
    scores, values = model(states)
    worths = DISCOUNT ** jtorch.arange(states.shape[0], dtype=states.dtype)
    returns = worths.cumsum(0).flip(0) * (1 - DISCOUNT)  # of rewards of 1, beside an episode without end
    advantages = returns - values.detach()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    policy = (F.cross_entropy(scores, actions, reduction="none") * advantages).mean()
    return policy + 0.5 * F.mse_loss(values, returns)


def main(argv: list[str] | None = None) -> list[int]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compile", action="store_true", help="compile acting and the update")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--every", type=int, default=25, help="after how many episodes to print")
    args = parser.parse_args(argv)

    jtorch.manual_seed(0)
    jtorch.set_default_dtype(jtorch.float64)  # so that rounding chooses no other action
    world, model, chance = CartPole(0), ActorCritic(), np.random.default_rng(1)
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    @jtorch.no_grad()
    def act(state: Any) -> Any:
        """The probability of a push to the right."""
        return model(state)[0].softmax(-1)[1]

    def update(states: Any, actions: Any) -> Any:
        optimizer.zero_grad()
        loss = policy_loss(model, states, actions)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    if args.compile:
        act, update = jtorch.compile(act), jtorch.compile(update, dynamic=True)
    lengths: list[int] = []
    begin = time.perf_counter()
    for episode in range(1, args.episodes + 1):
        state, over = world.reset(), False
        states: list[np.ndarray] = []
        actions: list[int] = []
        while not over and len(states) < LIMIT:
            states.append(state)
            actions.append(int(chance.random() < act(jtorch.from_numpy(state)).item()))
            state, over = world.step(actions[-1])
        lengths.append(len(states))
        loss = update(jtorch.from_numpy(np.stack(states)), jtorch.tensor(actions))
        if episode % args.every == 0:
            mean = sum(lengths[-args.every :]) / args.every
            print(f"episode {episode}: {mean:.1f} steps in the mean, loss {loss.item():.4f}")
    print(f"{time.perf_counter() - begin:.2f} s in {sum(lengths)} steps")
    return lengths


if __name__ == "__main__":
    main()
