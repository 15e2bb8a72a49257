"""Tensors that share memory, of which one is written: views taken inside, outside, and passed."""

import pytest

import jtorch
from jtorch import nn

PARTS = {
    "an end": lambda b: b[1:3],
    "a step": lambda b: b[::2],
    "turned": lambda b: b.reshape(2, 3).t(),
    "one axis more": lambda b: b[1:5].reshape(2, 2)[:, 1],
    "one element": lambda b: b[4],
    "all": lambda b: b.view(3, 2),
    "a view of a view": lambda b: b[1:][1:4][:2],
}


def _view_first(b, v, x):
    v.add_(x)
    b.mul_(2)
    return v * x + b.sum()


def _base_first(b, v, x):
    b.mul_(2)
    v.sub_(x)
    return b * x


def _view_alone(b, v, x):
    v.mul_(x)
    return b + x


def _base_alone(b, v, x):
    b[1] = 5.0
    b.add_(x)
    return v * x


def _in_turns(b, v, x):
    w = b[:2]
    w.add_(1)
    v.mul_(x)
    b[0] = 5.0
    w.sub_(v.sum())
    return w + b[3]


WRITING = (_view_first, _base_first, _view_alone, _base_alone, _in_turns)


def assert_like_eager(make, name):
    """``make(wrap)`` gives a function of x, and the tensors it changes."""
    for with_grad in (False, True):
        runs = []
        for wrap in (lambda f: f, jtorch.compile):
            f, held = make(wrap)
            for k in range(3):
                x = jtorch.tensor(1.5 + k).requires_grad_(with_grad)
                with jtorch.set_grad_enabled(with_grad):
                    y = f(x.detach())
                    z = y.sum() * x
                if with_grad:
                    z.backward()
                runs.append([y.tolist(), x.grad, [t.tolist() for t in held], [t._version for t in held]])
        assert runs[:3] == runs[3:], name


@pytest.mark.slow
def test_a_captured_tensor_and_a_captured_view_of_it():
    for part, take in PARTS.items():
        for write in WRITING:

            def make(wrap, take=take, write=write):
                b = jtorch.arange(6.0)
                v = take(b)
                return wrap(lambda x: write(b, v, x)), [b, v]

            assert_like_eager(make, f"{part}, {write.__name__}")


@pytest.mark.slow
def test_views_that_are_taken_inside():
    for part, take in PARTS.items():
        for write in WRITING:

            def make(wrap, take=take, write=write):
                b = jtorch.arange(6.0)
                return wrap(lambda x: write(b, take(b), x)), [b]

            assert_like_eager(make, f"{part}, {write.__name__}")


def test_arguments_that_share_memory():
    for write in WRITING:

        def make(wrap, write=write):
            b = jtorch.arange(6.0)
            v, f = b[1:3], wrap(write)
            return lambda x: f(b, v, x), [b, v]

        assert_like_eager(make, write.__name__)


def test_other_arguments_that_share_memory():
    f = jtorch.compile(_view_first)
    for k in range(4):
        b, c = jtorch.arange(6.0) + k, jtorch.arange(6.0) + k
        assert jtorch.equal(f(b, b[1:3], jtorch.tensor(2.0)), _view_first(c, c[1:3], jtorch.tensor(2.0)))
        assert jtorch.equal(b, c)


def test_a_buffer_that_is_a_view_of_another():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("all", jtorch.zeros(4))
            self.register_buffer("part", self.all[1:3])
            self.weight = nn.Parameter(jtorch.ones(4))

        def forward(self, x):
            self.part.add_(x.detach().sum())
            self.all.mul_(2)
            return (x * self.weight * self.all.clone()).sum()

    eager, model = Counting(), Counting()
    compiled = jtorch.compile(model)
    for k in range(4):
        for f in (eager, compiled):
            f(jtorch.arange(4.0) + k).backward()
        assert jtorch.equal(model.all, eager.all)
        assert jtorch.equal(model.part, eager.part)
        assert jtorch.equal(model.weight.grad, eager.weight.grad)


def test_a_view_that_gets_other_memory():
    b = jtorch.arange(6.0)
    v = b[1:3]

    @jtorch.compile
    def f(x):
        v.add_(x)
        b.mul_(2)
        return b.sum()

    f(jtorch.tensor(1.0))
    v.data = jtorch.zeros(2)
    before = b.clone()
    assert f(jtorch.tensor(1.0)).item() == (before * 2).sum().item()
    assert v.tolist() == [1.0, 1.0]
    assert jtorch.equal(b, before * 2)
