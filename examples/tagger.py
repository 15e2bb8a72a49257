"""A tagger for parts of speech: sentences of any length, one by one or in batches of equal lengths.

    python examples/tagger.py                      # one sentence at a time, as one would write it first
    python examples/tagger.py --batch --compile    # all sentences of one length at once, compiled

A bidirectional LSTM reads generated sentences in which most words have two tags, so that only the context
tells ("the old man the old boat"). Dynamic: a sentence is a loop over its words, nothing is padded or masked,
and each pays for a graph of its own. Static: batch and length are symbols, so one recording serves all.
"""

import argparse
import random
import time
from typing import Any

import jtorch
import jtorch.nn.functional as F
from jtorch import nn

TAGS = ("DET", "ADJ", "NOUN", "VERB", "ADP")
WORDS = {
    "DET": "the a that",
    "ADJ": "old light that round back",
    "NOUN": "man boat light saw watch back round old",
    "VERB": "man saw watch light back round",
    "ADP": "round by like",
}
VOCABULARY = sorted({word for words in WORDS.values() for word in words.split()})


def sentence(r: random.Random) -> list[tuple[str, str]]:
    """(word, tag) by (word, tag): S -> NP VERB NP PP*, NP -> DET ADJ* NOUN, PP -> ADP NP."""

    def several(tag: str, share: float) -> list[str]:
        return [tag, *several(tag, share)] if r.random() < share else []

    def noun_phrase() -> list[str]:
        return ["DET", *several("ADJ", 0.4), "NOUN"]

    tags = [*noun_phrase(), "VERB", *noun_phrase()]
    for tag in several("ADP", 0.5):
        tags += [tag, *noun_phrase()]
    return [(r.choice(WORDS[tag].split()), tag) for tag in tags]


class Tagger(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), width)
        self.lstm = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.scores = nn.Linear(2 * width, len(TAGS))

    def forward(self, words: Any) -> Any:
        states, _ = self.lstm(self.embedding(words))  # (N, T) -> (N, T, 2 * width)
        return self.scores(states).transpose(1, 2)  # (N, tags, T), as cross_entropy takes them


def tensors(sentences: list[list[tuple[str, str]]]) -> tuple[jtorch.Tensor, jtorch.Tensor]:
    """Words and tags (N, T) of sentences of equal length."""
    words = [[VOCABULARY.index(word) for word, _ in each] for each in sentences]
    return jtorch.tensor(words), jtorch.tensor([[TAGS.index(tag) for _, tag in each] for each in sentences])


def main(argv: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", action="store_true", help="sentences of one length go together")
    parser.add_argument("--compile", action="store_true", help="compile what is done with them")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="after how many steps to print")
    args = parser.parse_args(argv)

    jtorch.manual_seed(0)
    jtorch.set_default_dtype(jtorch.float64)  # so that sums in another order show the same digits
    r, model, losses, seconds = random.Random(0), Tagger(), [], 0.0
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def learn(words: Any, tags: Any, count: int) -> tuple[Any, Any]:
        """Adds the gradients of these sentences, out of ``count`` words in all: (loss, words that are right)."""
        scores = model(words)
        loss = F.cross_entropy(scores, tags, reduction="sum") / count
        loss.backward()
        return loss.detach(), (scores.argmax(1) == tags).sum()

    if args.compile:
        learn = jtorch.compile(learn, dynamic=True)
    for step in range(1, args.steps + 1):
        sentences = sorted((sentence(r) for _ in range(32)), key=len)
        count = sum(map(len, sentences))
        begin = time.perf_counter()
        lengths = sorted(set(map(len, sentences)))
        batches = [[each for each in sentences if len(each) == n] for n in lengths]
        optimizer.zero_grad()
        parts = batches if args.batch else [[each] for each in sentences]
        found = [learn(*tensors(part), count) for part in parts]
        optimizer.step()
        losses.append(sum(loss.item() for loss, _ in found))
        seconds += time.perf_counter() - begin
        if step % args.every == 0:
            right = sum(part.item() for _, part in found) / count
            print(f"step {step}: loss {losses[-1]:.6f}, {right:.1%} of {count} words right")
    print(f"{seconds:.2f} s in {args.steps} steps")
    return losses


if __name__ == "__main__":
    main()
