"""Library calls, recurrent layers and branches in a plan for any sizes: what is between two tables."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.compile.plan import tiles
from jtorch.core import pieces

SIZES = (6, 9, 17, 9, 2, 40, 6, 1, 33)


def numbers(*shape):
    return jtorch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def parts(value):
    if isinstance(value, jtorch.Tensor):
        return [value.detach().numpy()]
    return [array for part in value for array in parts(part)]


def plans_of(f):
    return sum(map(len, f.plans.values()))


W = numbers(5, 5)
jtorch.manual_seed(0)
LAYERS = {kind.__name__: kind(5, 3) for kind in (nn.RNN, nn.GRU, nn.LSTM)}
CELL = nn.LSTMCell(5, 3)

PROGRAMS = {
    "first": lambda x: x.cumsum(0) * 2,
    "last": lambda x: (x * 2).cumsum(1),
    "alone": lambda x: x.sort(0).values,
    "several in turn": lambda x: (x.sort(0).values @ W).cumsum(0).tanh().cumprod(1) + x,
    "one after the other": lambda x: x.cumsum(0).cumsum(1),
    "of views": lambda x: x.t()[1:].cumsum(1).flip(1),
    "of the sizes": lambda x: x.topk(x.shape[0] - 1, 0).values.sum(0) if len(x.shape) == 2 else x,
    "two results": lambda x: x.sort(1),
    "a number of the call": lambda x: (x * float(np.float32(1.5))).cumsum(0) + x.mean(),
    "solved": lambda x: jtorch.linalg.solve(x.t() @ x + 5 * jtorch.eye(5), x.t()),
    "of a size and back": lambda x: x.new_zeros(x.shape[0] + 3).cumsum(0).sum() + x.sum(0),
    "RNN": lambda x: LAYERS["RNN"](x.expand(4, *x.shape)),
    "GRU": lambda x: LAYERS["GRU"](x.expand(4, *x.shape)),
    "LSTM": lambda x: LAYERS["LSTM"](x.expand(4, *x.shape)),
    "LSTM to a length": lambda x: LAYERS["LSTM"](x.expand(2, *x.shape), None)[0].cumsum(1),
    "cell": lambda x: CELL(x),
    "branch": lambda x: x * 2 if x.sum() > 0 else x - 1,
    "branch on a shape of its own": lambda x: x.cumsum(0) if (x[1:] > 0).all() else x.t() @ x,
    "checked distribution": lambda x: jtorch.distributions.Normal(x, jtorch.ones_like(x)).log_prob(x * 2),
    "categories": lambda x: jtorch.distributions.Categorical(logits=x).log_prob(jtorch.zeros(x.shape[0])),
    "halves": lambda x: x.chunk(2, 0)[0] * 2,
    "by threes": lambda x: sum(part.sum() for part in x.split(3, 0)),
    "larger images": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "a line": lambda x: jtorch.linspace(-1.0, 2.5, x.shape[0]) @ x,
    "quantiles": lambda x: x.quantile(0.3, 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True], ids=["usual", "cut"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_size_is_as_in_eager_mode_and_as_a_plan_of_its_own(name, shared, monkeypatch):
    if shared:
        monkeypatch.setattr(pieces, "LEAST_TOTAL", 0)
        monkeypatch.setattr(tiles, "LEAST_TIME", 0)
    program = PROGRAMS[name]
    moving, exact = jtorch.compile(program), jtorch.compile(program, dynamic=False)
    for n in SIZES:
        x = numbers(n, 5)
        found, expected = parts(moving(x)), parts(program(x))
        for a, b, c in zip(found, expected, parts(exact(x)), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, 1e-4, 1e-5), n
            assert a.tobytes() == c.tobytes(), n


FOLLOWED = [name for name in PROGRAMS if name not in ("by threes", "branch", "branch on a shape of its own")]


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
def test_one_plan_serves_them(name):
    f = jtorch.compile(PROGRAMS[name])
    for n in (6, 8, 12, 26, 104):
        f(numbers(n, 5))
    assert plans_of(f) <= 3  # a size may be one of the program's own


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_gradients_through_library_calls(inside):
    weight = numbers(5, 5).requires_grad_()

    def loss(x):
        found = (x @ weight).cumsum(0).sort(1).values.tanh().sum()
        if inside:
            weight.grad = None
            found.backward()
        return found

    f = jtorch.compile(loss)
    for n in SIZES:
        gradients = []
        for function in (f, loss):
            found = function(numbers(n, 5))
            if not inside:
                weight.grad = None
                found.backward()
            gradients.append(weight.grad.numpy().copy())
        assert np.allclose(*gradients, 1e-4, 1e-4), n


def test_an_error_of_a_library_call_leaves_what_eager_mode_does():
    seen = jtorch.zeros(3, 3)

    @jtorch.compile
    def solved(a):
        seen.add_(1.0)
        inverse = jtorch.linalg.inv(a @ a.t())
        seen.mul_(2.0)
        return inverse

    for n in (4, 6, 8):
        solved(numbers(3, n))
    assert plans_of(solved) == 2 and (seen == 14).all()
    with pytest.raises(jtorch.linalg.LinAlgError, match=r"linalg.inv"):
        solved(jtorch.zeros(3, 9))
    assert (seen == 15).all()
    solved(numbers(3, 9))
    assert (seen == 32).all()


def test_an_index_beyond_after_a_library_call_names_its_line():
    f = jtorch.compile(lambda x, i: (x * 2).cumsum(0)[i] * 3)
    for n in (4, 6, 8):
        assert f(jtorch.ones(n), jtorch.tensor([n - 1])).tolist() == [6.0 * n]
    with pytest.raises(IndexError, match=r"index 9 is out of bounds.*test_library_calls.py:\d+"):
        f(jtorch.ones(9), jtorch.tensor([9]))


def test_fixed_memory_that_moves_is_read_where_it_is():
    weight = jtorch.ones(4)
    f = jtorch.compile(lambda x: (weight * x.sum()).cumsum(0))
    for n in (3, 5, 7):
        assert f(jtorch.ones(n)).tolist() == [n, 2 * n, 3 * n, 4 * n]
    weight.data = jtorch.full((4,), 2.0)
    for n in (5, 7, 11):
        assert f(jtorch.ones(n)).tolist() == [2 * n, 4 * n, 6 * n, 8 * n]


def test_threads_with_sizes_of_their_own():
    f = jtorch.compile(lambda x, k: (x * k).cumsum(0) + k)
    f(jtorch.ones(3), 1.0), f(jtorch.ones(4), 1.0)
    wrong = []

    def work(k):
        for n in range(2, 60):
            found = f(jtorch.ones(n + k), float(k)).tolist()
            wrong.extend([n] if found != [k * (j + 1.0) + k for j in range(n + k)] else [])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and plans_of(f) <= 3
