"""Samplers."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def test_samplers():
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    jtorch.manual_seed(0)
    assert sorted(RandomSampler("abcd")) == [0, 1, 2, 3]
    assert len(list(RandomSampler("abcd", num_samples=10))) == 10
    draws = list(RandomSampler("ab", replacement=True, num_samples=50))
    assert len(draws) == 50 and set(draws) == {0, 1}
    endless = iter(RandomSampler("ab", replacement=True, num_samples=10**10))  # drawn as they are asked for
    assert {next(endless) for _ in range(100)} == {0, 1}
    assert sorted(SubsetRandomSampler([5, 7])) == [5, 7]
    assert list(BatchSampler([1, 2, 3], 2)) == [[1, 2], [3]]
    assert len(BatchSampler([1, 2, 3], 2, drop_last=True)) == 1
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler("ab", num_samples=0)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RandomSampler("ab", replacement=1), TypeError, "replacement should be a boolean value"),
        (lambda: RandomSampler(""), ValueError, "num_samples=0"),
        (lambda: WeightedRandomSampler([1.0], True), ValueError, "num_samples=True"),
        (lambda: WeightedRandomSampler([1.0], 1, 0), ValueError, "replacement=0"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, r"weights have shape \(1, 1\)"),
        (lambda: BatchSampler([1], 0, False), ValueError, "batch_size=0"),
        (lambda: BatchSampler([1], 1, 2), ValueError, "drop_last=2"),
        (lambda: DistributedSampler("ab"), RuntimeError, "Requires distributed package to be available"),
        (lambda: DistributedSampler("ab", 2, 2), ValueError, r"Invalid rank 2, .* interval \[0, 1\]"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def seeded():
    return jtorch.Generator().manual_seed(3)


def test_weights_decide_how_often():
    weights, draws = [1.0, 0.0, 3.0, 6.0, 0.0], 4000
    chosen = list(WeightedRandomSampler(weights, draws, generator=seeded()))
    counts = np.bincount(chosen, minlength=5)
    assert counts[1] == counts[4] == 0
    expected = draws * np.array(weights) / 10
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected + 1))  # five standard deviations
    assert chosen == list(WeightedRandomSampler(weights, draws, generator=seeded()))


def test_weights_without_replacement():
    generator = seeded()
    first = []
    for _ in range(1000):
        order = list(WeightedRandomSampler([1.0, 0.0, 3.0], 2, replacement=False, generator=generator))
        assert sorted(order) == [0, 2]
        first.append(order[0])
    assert abs(first.count(2) - 750) < 70  # five standard deviations


@pytest.mark.parametrize(
    ("weights", "replacement", "text"),
    [
        ([0.0, 0.0], True, "sum of probabilities <= 0"),
        ([1.0, -1.0], True, "either `inf`, `nan` or element < 0"),
        ([1.0, float("nan")], True, "either `inf`, `nan` or element < 0"),
        ([1.0], False, "without replacement"),
        ([1.0, 0.0], False, "not enough non-negative category to sample"),
    ],
)
def test_weights_that_nothing_can_be_drawn_with(weights, replacement, text):
    with pytest.raises(RuntimeError, match=text):
        list(WeightedRandomSampler(weights, 2, replacement))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("n", "replicas"), [(10, 3), (9, 3), (2, 5), (0, 2)])
def test_replicas_share_the_items(n, replicas, shuffle, drop_last):
    parts = [
        DistributedSampler(range(n), replicas, rank, shuffle, seed=4, drop_last=drop_last)
        for rank in range(replicas)
    ]
    lists = [list(part) for part in parts]
    assert len({len(part) for part in lists}) == 1 and len(lists[0]) == len(parts[0])
    seen = [k for part in lists for k in part]
    if drop_last:
        assert len(seen) == len(set(seen)) == n // replicas * replicas
    else:
        assert set(seen) == set(range(n)) and len(seen) == -(-n // replicas) * replicas


def test_replicas_equal_pytorch_unshuffled():
    pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    from torch.utils.data import DistributedSampler as Theirs

    for n, replicas, drop in ((10, 3, False), (10, 3, True), (2, 5, False), (2, 5, True), (7, 7, False)):
        for rank in range(replicas):
            ours = DistributedSampler(range(n), replicas, rank, shuffle=False, drop_last=drop)
            theirs = Theirs(range(n), replicas, rank, shuffle=False, drop_last=drop)
            assert list(ours) == list(theirs)


def test_epochs_have_orders_of_their_own():
    sampler = DistributedSampler(range(50), 1, 0)
    first = list(sampler)
    assert first == list(sampler) and sorted(first) == list(range(50))
    sampler.set_epoch(1)
    assert list(sampler) != first
