"""What eager mode refuses is an error in compiled code, too, where nothing comes of it."""

from __future__ import annotations

import pytest

import jtorch
import jtorch.nn.functional as F

GOOD, BAD = jtorch.tensor([1, 0, 2]), jtorch.tensor([0, 1, 7])


def _second(x):
    return x.float() * jtorch.eye(3)


CASES = {
    "index": lambda x, i: x[i],
    "setitem": lambda x, i: x.clone().__setitem__(i, x),
    "index_add": lambda x, i: x.index_add(0, i, x),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: x.scatter(0, i, x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x, "amax"),
    "embedding": lambda x, i: F.embedding(i, x.float()[:, None]),
    "one_hot": lambda x, i: F.one_hot(i, 3),
    "cross_entropy": lambda x, i: F.cross_entropy(x.float().expand(3, 3), i),
    "max_unpool": lambda x, i: F.max_unpool1d(x.float()[None, None], i[None, None], 2),
    "division": lambda x, i: x // (i - 7),
    "remainder": lambda x, i: x % (i - 7),
    "bernoulli": lambda x, i: jtorch.bernoulli(i / 2),
    "multinomial": lambda x, i: jtorch.multinomial(7.0 - i - 0.5, 1),
    "poisson": lambda x, i: jtorch.poisson(6.0 - i),
    "inverse": lambda x, i: jtorch.linalg.inv(_second(i - 7)),
    "solve": lambda x, i: jtorch.linalg.solve(_second(i - 7), x.float()),
    "cholesky": lambda x, i: jtorch.linalg.cholesky(_second(7 - i)),
    "singular values": lambda x, i: jtorch.linalg.svdvals(_second(1 / (i - 7))),
}


def outcome(f, x, i):
    try:
        return f(x, i).tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CASES)
def test_an_error_of_what_nobody_reads(name):
    def f(x, i):
        CASES[name](x, i)
        return x * 2

    x = jtorch.tensor([4, 5, 6])
    compiled = jtorch.compile(f)
    assert outcome(compiled, x, GOOD) == outcome(f, x, GOOD) == [8, 10, 12]
    expected = outcome(f, x, BAD)
    assert isinstance(expected, type)
    assert outcome(compiled, x, BAD) is expected
    assert outcome(compiled, x, GOOD) == [8, 10, 12]


UNREAD = {
    "times nothing": lambda y: y * 0,
    "less itself": lambda y: y - y,
    "its shape": jtorch.zeros_like,
    "overwritten": lambda y: y.fill_(3),
    "a part": lambda y: y[:1],
    "no part": lambda y: y[:0].sum(),
    "not chosen": lambda y: jtorch.where(jtorch.tensor([True, True, True]), 1, y),
}


@pytest.mark.parametrize("name", UNREAD)
def test_an_error_in_what_does_not_count(name):
    compiled = jtorch.compile(lambda x, i: UNREAD[name](x[i]))
    x = jtorch.tensor([4, 5, 6])
    assert outcome(compiled, x, GOOD) == outcome(lambda x, i: UNREAD[name](x[i]), x, GOOD)
    assert outcome(compiled, x, BAD) is IndexError


def test_a_check_that_is_made_anyway_costs_nothing():
    @jtorch.compile
    def step(w, i):
        loss = F.cross_entropy(w, i)  # nobody reads it, and its gradient looks at the same classes
        loss.backward()

    @jtorch.compile
    def with_loss(w, i):
        loss = F.cross_entropy(w, i)
        loss.backward()
        return loss

    w = jtorch.ones(3, 3, requires_grad=True)
    step(w, GOOD)
    with_loss(w, GOOD)
    equations = [len(f._latest.program.graph.eqns) for f in (step, with_loss)]
    assert equations[0] < equations[1]
    with pytest.raises(IndexError):
        step(w, BAD)
