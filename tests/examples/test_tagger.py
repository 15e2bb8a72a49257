"""The tagger computes the same one by one and in batches, in both modes, and learns."""

from __future__ import annotations

import random
import warnings

import pytest

import jtorch
from benchmarks.dynamic import example_of


@pytest.mark.slow
def test_all_ways_give_the_same_losses(in_all_modes):
    pytest.importorskip("numba", reason="Numba is not installed: nothing is compiled")
    first, *others = in_all_modes("--steps 4 --every 2", ["", "--compile", "--batch", "--batch --compile"])
    assert len(first[0]) == 4 and len(first[1]) == 2
    for losses, lines in others:
        assert lines == first[1]
        assert losses == pytest.approx(first[0], rel=1e-11)


@pytest.mark.slow
def test_it_learns_what_words_alone_do_not_tell(example, capsys):
    pytest.importorskip("numba", reason="Numba is not installed: eager mode takes longer")
    with warnings.catch_warnings():
        warnings.simplefilter("error", jtorch.errors.RetraceWarning)
        losses = example.main(["--batch", "--compile"])
    assert losses[0] > 1.4 and sum(losses[-10:]) / 10 < 0.1
    assert "97.2% of unseen words right" in capsys.readouterr().out.splitlines()[-2]
    counts: dict = {}
    for seed in range(1, 201):
        for word, tag in example.sentence(random.Random(seed)):
            counts.setdefault(word, {}).setdefault(tag, []).append(1)
    by_word = sum(max(map(len, tags.values())) for tags in counts.values())
    assert by_word / sum(len(part) for tags in counts.values() for part in tags.values()) < 0.85


def test_sentences_follow_the_grammar(example):
    for seed in range(50):
        words, tags = zip(*example.sentence(random.Random(seed)), strict=True)
        assert tags.count("VERB") == 1 and tags.count("NOUN") == tags.count("DET") == 2 + tags.count("ADP")
        assert all(word in example.WORDS[tag].split() for word, tag in zip(words, tags, strict=True))


def test_batches_are_of_one_length_and_hold_everything(example):
    sentences = [example.sentence(random.Random(seed)) for seed in range(32)]
    batches = example.by_length(sentences)
    assert [len({len(each) for each in batch}) for batch in batches] == [1] * len(batches)
    assert sorted(each for batch in batches for each in batch) == sorted(sentences)
    words, tags = example.tensors(batches[0])
    assert words.shape == tags.shape == (len(batches[0]), len(batches[0][0]))


def test_pytorch_gives_the_same_scores(example):
    torch = pytest.importorskip("torch")
    jtorch.set_default_dtype(jtorch.float64)
    model, theirs = example.Tagger(8), example_of("tagger", torch).Tagger(8).double()
    state = {name: torch.tensor(p.tolist(), dtype=torch.float64) for name, p in model.state_dict().items()}
    theirs.load_state_dict(state)
    words = jtorch.randint(0, len(example.VOCABULARY), (3, 7))
    expected = theirs(torch.tensor(words.tolist()))
    assert model(words).flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-11)
