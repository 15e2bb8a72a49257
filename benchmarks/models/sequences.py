"""Networks of sequences: recurrent ones and transformers.

Sources: https://github.com/pytorch/examples/tree/main/word_language_model (LSTM, without dropout),
https://github.com/karpathy/nanoGPT and https://github.com/karpathy/makemore (without dropout).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.models.training import training
from benchmarks.program import Program


def _tokens(batch: int, length: int, words: int) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    return [
        (generator.integers(0, words, (batch, length)), generator.integers(0, words, (batch, length)))
        for _ in range(2)
    ]


def _series(batch: int, length: int, width: int) -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    shape = (batch, length, width)
    return [
        (generator.standard_normal(shape, np.float32), generator.integers(0, 10, batch)) for _ in range(2)
    ]


def tanh_rnn(torch: Any, batch: int = 32, length: int = 32, width: int = 64) -> Program:
    nn = torch.nn

    class Net(nn.Module):  # type: ignore[name-defined] # jtorch's or torch's
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.RNNCell(2, width), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:  # (batch, length, 2)
            h = torch.zeros(x.shape[0], width, dtype=x.dtype, device=x.device)
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)
            return self.head(h)

    return training(torch, Net(), _series(batch, length, 2))


def lstm(torch: Any, batch: int = 16, length: int = 32, width: int = 64) -> Program:
    nn = torch.nn

    class Net(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(width // 2, width, batch_first=True), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return training(torch, Net(), _series(batch, length, width // 2))


def language_model(
    torch: Any, length: int = 35, batch: int = 20, width: int = 200, words: int = 2000
) -> Program:
    nn = torch.nn

    class Net(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, 2)
            self.head = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:  # (length, batch)
            return self.head(self.lstm(self.words(x))[0])

    return training(torch, Net(), _tokens(length, batch, words))


def _decoder(torch: Any, words: int, length: int, layers: int, heads: int, width: int) -> Any:
    """A GPT: blocks of causal attention and a perceptron, each after a layer norm, around a shortcut."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = (
                part.view(b, t, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
            scores = scores.masked_fill(self.mask[:t, :t], float("-inf"))
            seen = (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, width)
            x = x + self.out(seen)
            return x + self.narrow(F.gelu(self.wide(self.norm2(x))))

    class Net(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            mask = torch.triu(torch.ones(length, length), 1) > 0
            for block in self.blocks:
                block.register_buffer("mask", mask)

        def forward(self, x: Any) -> Any:
            h = self.words(x) + self.places(torch.arange(x.shape[1]))
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h))

    return Net()


def decoder(torch: Any, batch: int, words: int, length: int, layers: int, heads: int, width: int) -> Program:
    return training(
        torch, _decoder(torch, words, length, layers, heads, width), _tokens(batch, length, words)
    )


def gpt(torch: Any) -> Program:
    return decoder(torch, 8, 65, 64, 2, 4, 64)


def nano_gpt(torch: Any) -> Program:
    return decoder(torch, 12, 65, 64, 4, 4, 128)


def makemore(torch: Any) -> Program:
    return decoder(torch, 32, 27, 16, 4, 4, 64)
