"""Helpers that cache the tensors they make, called for the first time while they are recorded."""

from __future__ import annotations

import functools

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError


def _masks():
    @functools.lru_cache(None)
    def mask(n):
        return jtorch.ones(n, n).tril()

    return mask


def _bounded():
    @functools.lru_cache(maxsize=2)
    def mask(n):
        return jtorch.ones(n, n).tril()

    return mask


def _in_a_dict():
    made = {}

    def mask(n):
        if n not in made:
            made[n] = jtorch.ones(n, n).tril()
        return made[n]

    return mask


def _in_a_variable():
    made = None

    def mask(n):
        nonlocal made
        if made is None or made.shape[0] != n:
            made = jtorch.ones(n, n).tril()
        return made

    return mask


@pytest.mark.parametrize("cached", [_masks, _bounded, _in_a_dict, _in_a_variable])
def test_a_cached_tensor_is_one_from_outside(cached):
    mask = cached()
    f = jtorch.compile(lambda x: x @ mask(x.shape[-1]))
    other = jtorch.compile(lambda x: x * mask(3).sum())
    assert f(jtorch.ones(2, 3)).tolist() == [[3, 2, 1]] * 2
    kept = mask(3)
    assert kept.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert f(jtorch.ones(4, 3)).tolist() == [[3, 2, 1]] * 4
    assert other(jtorch.ones(1)).tolist() == [6]
    assert f(jtorch.ones(1, 2)).tolist() == [[2, 1]]
    if mask(3) is kept:
        kept.zero_()
        assert f(jtorch.ones(2, 3)).tolist() == [[0, 0, 0]] * 2
        assert other(jtorch.ones(1)).tolist() == [0]


def test_what_a_cached_result_holds_and_rests_on():
    scale = jtorch.tensor([2.0, 3.0])

    @functools.cache
    def parts(n):
        return {"a": scale * n, "b": [jtorch.zeros(2), (jtorch.tensor([1, 2]),)]}

    f = jtorch.compile(lambda x: x + parts(2)["a"] + parts(2)["b"][1][0])
    assert f(jtorch.zeros(2)).tolist() == [5, 8]
    assert parts(2)["a"].tolist() == [4, 6]
    assert parts(2)["b"][0].tolist() == [0, 0]
    scale.zero_()
    assert f(jtorch.zeros(2)).tolist() == [5, 8]


def test_a_cached_method_and_a_counter():
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        @functools.lru_cache(maxsize=8)  # noqa: B019
        def table(self, n):
            return jtorch.arange(float(n))

        def forward(self, x):
            self.calls += 1
            return x * self.table(x.shape[-1]) * self.calls

    module = Rotary()
    f = jtorch.compile(module)
    for k in range(1, 4):
        assert f(jtorch.ones(1, 3)).tolist() == [[0, k, 2 * k]]
    assert module.table(3).tolist() == [0, 1, 2]


def test_a_cache_of_tensors_goes_on():
    @functools.lru_cache(None)
    def doubled(x):
        return x * 2

    f = jtorch.compile(lambda x: doubled(x) + 1)
    for k in range(3):
        assert f(jtorch.full((2,), float(k))).tolist() == [2 * k + 1] * 2


def test_what_would_be_done_once_is_refused_with_the_line():
    state = {"n": 0, "seen": 0}

    @functools.cache
    def counts_on(n):
        state["seen"] += 1
        return jtorch.full((3,), float(n))

    def f(x):
        state["n"] += 1
        return x * counts_on(3)

    with pytest.raises(CompileError, match="changes something outside or draws") as caught:
        jtorch.compile(f)(jtorch.ones(3))
    assert f"{__file__}:{f.__code__.co_firstlineno + 2} in" in str(caught.value)
    assert state == {"n": 0, "seen": 0} and counts_on.cache_info().currsize == 0
    assert f(jtorch.ones(3)).tolist() == [3, 3, 3]
    compiled = jtorch.compile(f)
    assert [compiled(jtorch.ones(3)).tolist() for _ in range(2)] == [[3, 3, 3]] * 2
    assert state == {"n": 3, "seen": 1}
