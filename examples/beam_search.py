"""Beam search with a small GPT: a context that grows, and beams that end when they like.

    python examples/beam_search.py                        # eager
    python examples/beam_search.py --compile              # training step and search step compiled
    python examples/beam_search.py --text input.txt --compile

A GPT of characters is trained for a moment and then asked for the likeliest ends of a line. Dynamic: which
beams live on, how many, and when the search is over is decided in Python by what was just found. Static:
one step of the search, from contexts (beams, T) to the best characters, is recorded with both as symbols, and
the training step for its one size. Compiled, training took a half to a third of the time, recording included;
the first five searches took as long as in eager mode, and the next forty two thirds as long.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jtorch
import jtorch.nn.functional as F
from jtorch import nn

JACK = (
    "the house that Jack built",
    "the malt that lay in",
    "the rat that ate",
    "the cat that killed",
    "the dog that worried",
)
RHYME = "".join(f"This is {' '.join(JACK[n::-1])}.\n" for n in range(len(JACK)))  # each line longer by one


class GPT(nn.Module):
    def __init__(self, characters: int, context: int, width: int = 32) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.body = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True),
            2,
            enable_nested_tensor=False,
        )
        self.head = nn.Linear(width, characters)

    def forward(self, x: Any) -> Any:
        t = x.shape[1]
        mask = jtorch.triu(jtorch.full((t, t), float("-inf")), diagonal=1)
        return self.head(self.body(self.token(x) + self.position.weight[:t], mask=mask))  # (N, T, characters)


Beam = tuple[float, list[int]]  # log-probability of what follows the start, characters


def beam_search(best: Callable, start: list[int], end: int, width: int, length: int) -> list[Beam]:
    """The likeliest continuations up to ``end``, or of ``length``, with their log-probabilities."""
    live: list[Beam] = [(0.0, start)]
    done: list[Beam] = []
    while live and len(live[0][1]) < length:
        scores, characters = best(jtorch.tensor([beam for _, beam in live]))  # (beams, width) each
        longer = [
            (total + score, [*beam, character])
            for (total, beam), *row in zip(live, scores.tolist(), characters.tolist(), strict=True)
            for score, character in zip(*row, strict=True)
        ]
        longer = sorted(longer, reverse=True)[: width - len(done)]
        done += [each for each in longer if each[1][-1] == end]
        live = [each for each in longer if each[1][-1] != end]
    return sorted(done + live, reverse=True)


def main(argv: list[str] | None = None) -> list[tuple[float, str]]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", help="file to learn from; an old rhyme without")
    parser.add_argument("--compile", action="store_true", help="compile the steps of training and search")
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--beams", type=int, default=6)
    parser.add_argument("--length", type=int, default=64, help="of the longest line, also of the context")
    parser.add_argument("--start", action="append", help="what lines begin with")
    args = parser.parse_args(argv)

    jtorch.manual_seed(0)
    jtorch.set_default_dtype(jtorch.float64)  # so that rounding chooses no other beam
    text = Path(args.text).read_text() if args.text else RHYME
    alphabet = sorted(set(text))
    data = jtorch.tensor([alphabet.index(character) for character in text])
    model = GPT(len(alphabet), args.length)
    optimizer = jtorch.optim.AdamW(model.parameters(), lr=5e-3)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    @jtorch.no_grad()
    def best(contexts: Any) -> tuple[Any, Any]:
        return model(contexts)[:, -1].log_softmax(-1).topk(args.beams)

    if args.compile:
        train, best = jtorch.compile(train), jtorch.compile(best, dynamic=True)
    begin = time.perf_counter()
    for step in range(1, args.steps + 1):
        starts = jtorch.randint(0, len(data) - args.length, (8, 1))
        rows = data[starts + jtorch.arange(args.length + 1)]
        loss = train(rows[:, :-1], rows[:, 1:])
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    print(f"{time.perf_counter() - begin:.2f} s in {args.steps} steps")

    begin, newline, lines = time.perf_counter(), alphabet.index("\n"), []
    for start in args.start or [f"This is the {noun} " for noun in ("house", "malt", "rat", "cat", "dog")]:
        indices = [alphabet.index(character) for character in start]
        beams = beam_search(best, indices, newline, args.beams, args.length)
        lines += [(score, "".join(alphabet[i] for i in beam)) for score, beam in beams]
        for score, line in lines[-len(beams) :][:2]:
            print(f"{score:.6f} {line!r}")
    print(f"{time.perf_counter() - begin:.2f} s in {args.beams} beams each")
    return lines


if __name__ == "__main__":
    main()
