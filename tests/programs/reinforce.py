"""REINFORCE with a baseline in a corridor: the goal is at the right end, every step costs a little."""

import numpy as np
import torch
from start import arguments, initialise, show
from torch import nn
from torch.distributions import Categorical


class Corridor:
    """Places 0 to 6 from the middle on; moving past the left end stays there."""

    def reset(self):
        self.place, self.time = 3, 0
        return self.observation()

    def observation(self):
        return np.eye(7, dtype=np.float32)[self.place]

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.time += 1
        done = self.place == 6 or self.time == 20
        return self.observation() if not done else None, 1.0 if self.place == 6 else -0.05, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(7, 16)
        self.action = nn.Linear(16, 2)
        self.value = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.relu(self.hidden(x))
        return self.action(h), self.value(h).squeeze(-1)


def episode(policy, environment, rng):
    """One run: log-probabilities, values, rewards and entropies of its steps."""
    record, observation, done = [], environment.reset(), False
    while not done:
        logits, value = policy(torch.Tensor(observation))
        choices = Categorical(logits=logits)
        action = int(rng.random() > choices.probs[0].item())
        observation, reward, done = environment.step(action)
        record.append((choices.log_prob(torch.tensor(action)), value, reward, choices.entropy()))
    return zip(*record, strict=True)


def main():
    args = arguments()
    rng = np.random.default_rng(5)
    policy, environment = initialise(Policy(), args.init), Corridor()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    for _ in range(args.steps):
        log_probs, values, rewards, entropies = episode(policy, environment, rng)
        returns, total = [], 0.0
        for reward in rewards[::-1]:
            total = reward + 0.95 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        values = torch.stack(values)
        advantage = returns - values.detach()
        loss = -(torch.stack(log_probs) * advantage).mean() - 0.01 * torch.stack(entropies).mean()
        loss = loss + nn.functional.smooth_l1_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show(loss)


if __name__ == "__main__":
    main()
