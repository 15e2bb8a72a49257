"""What ``func`` transforms may write to what it was given or made, not to what it closes over."""

from __future__ import annotations

import functools

import pytest

import jtorch
from tests.each import each
from tests.ops.support import HAS_TORCH

if HAS_TORCH:
    import torch

SENTENCE = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place "
    "operation "
)


def libraries():
    return (jtorch, torch) if HAS_TORCH else (jtorch,)


WRITES = {
    "add_.Tensor": lambda s, x: s.add_(1), "mul_.Tensor": lambda s, x: s[0].mul_(2),
    "sub_.Tensor": lambda s, x: s.detach().sub_(1), "div_.Tensor": lambda s, x: s.data.div_(2),
    "copy_": lambda s, x: s.copy_(x), "zero_": lambda s, x: s.zero_(), "exp_": lambda s, x: s.exp_(),
    "t_": lambda s, x: s.t_(), "unsqueeze_": lambda s, x: s.unsqueeze_(0), "relu_": lambda s, x: s.relu_(),
    "addcmul_": lambda s, x: s.addcmul_(x, x),
}  # fmt: skip
CALLS = {
    "grad": lambda L, f, x: L.func.grad(f)(x),
    "grad_and_value": lambda L, f, x: L.func.grad_and_value(f)(x),
    "vjp": lambda L, f, x: L.func.vjp(f, x),
    "jvp": lambda L, f, x: L.func.jvp(f, (x,), (x,)),
    "jacrev": lambda L, f, x: L.func.jacrev(f)(x),
    "jacfwd": lambda L, f, x: L.func.jacfwd(f)(x),
    "hessian": lambda L, f, x: L.func.hessian(f)(x),
    "vmap of grad": lambda L, f, x: L.func.vmap(L.func.grad(f))(x.expand(2, 2)),
}  # fmt: skip


def refused(L, write, call):
    s = L.ones(2)

    def f(x):
        write(s, x)
        return (x * x).sum()

    with pytest.raises(RuntimeError) as caught:
        call(L, f, L.tensor([1.0, 2.0]))
    return str(caught.value), s.tolist()


@each("name", WRITES)
def test_what_it_closes_over_is_not_written_to(name):
    for L in libraries():
        text, after = refused(L, WRITES[name], CALLS["grad"])
        assert text.startswith(f"{SENTENCE}(aten::{name}) that would mutate a captured Tensor.")
        assert after == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@each("name", CALLS)
def test_every_transform_refuses(name):
    for L in libraries():
        text, after = refused(L, WRITES["add_.Tensor"], CALLS[name])
        assert text.startswith(SENTENCE)
        assert after == [1.0, 1.0]


def test_a_compiled_function_refuses_too():
    s = jtorch.ones(2)

    def f(x):
        s.add_(1)
        return (x * x).sum()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            jtorch.compile(jtorch.func.grad(f))(jtorch.ones(2))
    assert s.tolist() == [1.0, 1.0]


class Counting:
    """What functions may reach a tensor by."""

    def __init__(self, L):
        self.state = {"seen": [L.zeros(2)]}

    def method(self, x):
        self.state["seen"][0].add_(1)
        return (x * x).sum()


GLOBALS = {}


def by_a_global(x):
    GLOBALS["s"].add_(1)
    return (x * x).sum()


def by_a_default(s):
    def f(x, s=s):
        s.add_(1)
        return (x * x).sum()

    return f


def ways(L):
    """(function, the tensor that it reaches)"""
    counting, s = Counting(L), L.zeros(2)
    GLOBALS["s"] = L.zeros(2)
    yield counting.method, counting.state["seen"][0]
    yield lambda x: counting.method(x), counting.state["seen"][0]
    yield by_a_global, GLOBALS["s"]
    yield by_a_default(s), s
    norm = L.nn.BatchNorm1d(2)
    yield lambda x: norm(x.expand(3, 2)).sum(), norm.num_batches_tracked
    part = L.zeros(2)
    yield functools.partial(lambda s, x: (s.add_(1), (x * x).sum())[1], part), part


def test_every_way_to_it_is_seen():
    for L in libraries():
        for f, s in ways(L):
            with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
                L.func.grad(f)(L.tensor([1.0, 2.0]))
            assert not s.any()


def inner_writes_to_what_outer_made(L):
    def f(x):
        made = x * 1

        def g(y):
            made.add_(1)
            return (y * made).sum()

        return L.func.grad(g)(x).sum()

    return L.func.grad(f)(L.tensor([1.0, 2.0]))


def test_levels_are_told_apart():
    for L in libraries():
        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            inner_writes_to_what_outer_made(L)


def fills_a_buffer(L, x):
    def f(x):
        out = L.zeros(2)
        out[0] = x[0] * 2
        out.mul_(x)
        return out.sum()

    return L.func.grad(f)(x).tolist()


def keeps_what_it_made(L, x):
    kept = []

    def f(x):
        y = x.clone()
        kept.append(y)
        y.mul_(x)
        return y.sum()

    return L.func.grad(f)(x).tolist()


def writes_to_its_argument(L, x):
    def f(x, y):
        y.add_(1)
        return (x * y).sum()

    other = L.ones(2)
    return [L.func.grad(f)(x, other).tolist(), other.tolist()]


def writes_by_out(L, x):
    s = L.zeros(2)
    return [L.func.grad(lambda x: (L.exp(s, out=s), (x * x).sum())[1])(x).tolist(), s.tolist()]


def writes_afterwards(L, x):
    s = L.zeros(2)
    gradient = L.func.grad(lambda x: (x * s).sum())(x)
    s.add_(1)
    return [gradient.tolist(), s.tolist()]


ALLOWED = {
    fills_a_buffer: [4.0, 0.0], keeps_what_it_made: [2.0, 4.0],
    writes_to_its_argument: [[2.0, 2.0], [2.0, 2.0]], writes_by_out: [[2.0, 4.0], [1.0, 1.0]],
    writes_afterwards: [[0.0, 0.0], [1.0, 1.0]],
}  # fmt: skip


@each("program", ALLOWED, ids=[p.__name__ for p in ALLOWED])
def test_what_it_made_or_was_given_may_be_written_to(program):
    for L in libraries():
        assert program(L, L.tensor([1.0, 2.0])) == ALLOWED[program]
