"""A tagger for parts of speech: sentences of any length, one by one or in batches of equal lengths.

    python examples/tagger.py                      # one sentence at a time, as one would write it first
    python examples/tagger.py --batch --compile    # all sentences of one length at once, compiled

A bidirectional LSTM reads generated sentences in which most words have two tags, so that only the context
tells ("the old man saw the light"). Dynamic: a sentence is as long as it is, nothing is padded or masked, and
each pays for a graph of its own. Static: batch and length are symbols, so a few recordings serve all. Beside
eager mode one by one, 240 steps were 8 times as fast compiled, 2 times in batches and 8 times with both,
recording included: batches of lengths never seen before cost eager mode most of what they save it.
"""

import argparse
import random
import time
from itertools import groupby
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
Sentence = list[tuple[str, str]]  # words with their tags


def sentence(r: random.Random) -> Sentence:
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


def tensors(sentences: list[Sentence]) -> tuple[jtorch.Tensor, jtorch.Tensor]:
    """Words and tags (N, T) of sentences of equal length."""
    words = [[VOCABULARY.index(word) for word, _ in each] for each in sentences]
    return jtorch.tensor(words), jtorch.tensor([[TAGS.index(tag) for _, tag in each] for each in sentences])


def by_length(sentences: list[Sentence]) -> list[list[Sentence]]:
    """The same sentences, those of one length together."""
    return [list(group) for _, group in groupby(sorted(sentences, key=len), key=len)]


@jtorch.no_grad()
def accuracy(model: nn.Module, sentences: list[Sentence]) -> float:
    right = 0
    for words, tags in map(tensors, by_length(sentences)):
        right += (model(words).argmax(1) == tags).sum().item()
    return right / sum(map(len, sentences))


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
    test = [sentence(random.Random(seed)) for seed in range(1, 201)]
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.01)

    def learn(words: Any, tags: Any, share: float) -> Any:
        """What these sentences add to the loss (and to gradients), in which each word has that share."""
        loss = F.cross_entropy(model(words), tags, reduction="sum") * share
        loss.backward()
        return loss.detach()

    if args.compile:
        learn = jtorch.compile(learn, dynamic=True)
    for step in range(1, args.steps + 1):
        batches = by_length([sentence(r) for _ in range(32)])
        parts = batches if args.batch else [[each] for batch in batches for each in batch]
        share = 1 / sum(len(each) for part in parts for each in part)
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)  # to add to gradients or to make them are two programs
        found = [learn(*tensors(part), share) for part in parts]
        optimizer.step()
        losses.append(sum(loss.item() for loss in found))
        seconds += time.perf_counter() - begin
        if step % args.every == 0:
            print(f"step {step}: loss {losses[-1]:.6f}, {accuracy(model, test):.1%} of unseen words right")
    print(f"{seconds:.2f} s in {args.steps} steps")
    return losses


if __name__ == "__main__":
    main()
