"""Two networks in float32, under autocast to bfloat16, and to float16 with scaled losses: all as accurate.

    python examples/mixed_precision.py                 # both networks, both modes: the table of docs/amp.md
    python examples/mixed_precision.py --network gpt --steps 200 --modes compiled

LeNet learns scikit-learn's 1,797 digits, a small GPT the text of this file, letter by letter. A step is one
function: forward under autocast, backward, and the optimizer, by way of the scaler where there is one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jtorch as torch
from jtorch import nn
from jtorch.nn import functional as F

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
MODES: dict[str, Callable] = {"eager": lambda step: step, "compiled": torch.compile}


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 16, 3)
        self.fc1, self.fc2 = nn.Linear(16 * 3 * 3, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv1(x).relu()  # (N, 6, 8, 8)
        x = F.max_pool2d(self.conv2(x).relu(), 2)  # (N, 16, 3, 3)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        parts = self.attend(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # (N, heads, T, width / heads) each
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(
        self, letters: int, length: int = 32, width: int = 48, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.letter(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)  # (N T, letters)


def digits(batch: int = 64) -> tuple[Callable, nn.Module, Any]:
    """(batches of a step's number, the network, what it is tested with)"""
    from sklearn.datasets import load_digits

    found = load_digits()
    x = torch.from_numpy(found.images).float().unsqueeze(1) / 16
    y = torch.from_numpy(found.target).long()
    order = torch.randperm(len(y))
    train, test = order[:1400], order[1400:]

    def batch_of(_: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = train[torch.randint(0, len(train), (batch,))]
        return x[chosen], y[chosen]

    return batch_of, LeNet(), (x[test], y[test])


def letters(batch: int = 16, length: int = 32) -> tuple[Callable, nn.Module, Any]:
    """The same of the text of this file; tested with its last tenth."""
    text = Path(__file__).read_text()
    known = sorted(set(text))
    ids = torch.tensor([known.index(c) for c in text])
    split = len(ids) * 9 // 10

    def windows(part: torch.Tensor, starts: Any) -> tuple[torch.Tensor, torch.Tensor]:
        pieces = torch.stack([part[s : s + length + 1] for s in starts])
        return pieces[:, :-1], pieces[:, 1:].flatten()

    def batch_of(_: int) -> tuple[torch.Tensor, torch.Tensor]:
        return windows(ids[:split], torch.randint(0, split - length - 1, (batch,)).tolist())

    rest = ids[split:]
    return batch_of, GPT(len(known), length), windows(rest, range(0, len(rest) - length - 1, length))


NETWORKS = {"lenet": digits, "gpt": letters}


def train(network: str, precision: str, mode: str, steps: int) -> dict[str, float]:
    """Train from one seed: the mean loss of the last tenth, the accuracy on what was not seen, the time."""
    torch.manual_seed(0)
    batch_of, model, (x_test, y_test) = NETWORKS[network]()
    dtype = PRECISIONS[precision]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "float16")

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    step = MODES[mode](step)
    losses, seconds = [], []
    for k in range(steps):
        x, y = batch_of(k)
        start = time.perf_counter()
        losses.append(step(x, y).item())
        seconds.append(time.perf_counter() - start)
    with torch.no_grad(), torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
        right = (model(x_test).argmax(1) == y_test).float().mean().item()
    last = losses[-max(steps // 10, 1) :]
    return {
        "loss": sum(last) / len(last), "accuracy": right,
        "milliseconds": sorted(seconds)[len(seconds) // 2] * 1e3,
    }  # fmt: skip


def runs(
    networks: list[str], modes: list[str], steps: int
) -> Iterator[tuple[str, str, str, dict[str, float]]]:
    for network in networks:
        for precision in PRECISIONS:
            for mode in modes:
                yield network, precision, mode, train(network, precision, mode, steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--network", choices=[*NETWORKS], action="append")
    parser.add_argument("--modes", choices=[*MODES], nargs="+", default=[*MODES])
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    print("| network | precision | mode | loss | accuracy | ms a step |\n|---|---|---|---|---|---|")
    for network, precision, mode, found in runs(given.network or [*NETWORKS], given.modes, given.steps):
        print(
            f"| {network} | {precision} | {mode} | {found['loss']:.3f} | {found['accuracy']:.1%} | "
            f"{found['milliseconds']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
