"""``detach_()`` of a tensor with a graph from outside, as truncated backpropagation through time does."""

from __future__ import annotations

import pytest

import jtorch

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def of_a_kept_state(wrap):
    c, kept = jtorch.nn.Parameter(jtorch.ones(2)), {"h": jtorch.zeros(2)}

    @wrap
    def f(x):
        kept["h"].detach_()
        kept["h"] = jtorch.tanh(c * kept["h"] + x)
        return kept["h"].sum()

    for _ in range(4):
        f(jtorch.ones(2)).backward()
        yield c.grad.tolist(), kept["h"].tolist(), kept["h"].requires_grad


@program
def of_an_argument(wrap):
    w = jtorch.nn.Parameter(jtorch.ones(2))

    @wrap
    def f(h, x):
        h.detach_()
        return jtorch.tanh(w * h + x)

    h = jtorch.zeros(2)
    for _ in range(4):
        before = h
        h = f(h, jtorch.ones(2))
        yield before.requires_grad, before.is_leaf, h.requires_grad
        h.sum().backward(retain_graph=True)
        yield w.grad.tolist()


@program
def after_its_use(wrap):
    w = jtorch.nn.Parameter(jtorch.ones(2))

    @wrap
    def f(h):
        y = h * 3
        h.detach_()
        return y + h

    for k in range(4):
        h = w * (k + 2.0)
        y = f(h)
        y.sum().backward()
        yield w.grad.tolist(), h.requires_grad, h.is_leaf, y.tolist()


@program
def with_backward_inside(wrap):
    w, state = jtorch.nn.Parameter(jtorch.ones(2)), {"h": jtorch.zeros(2)}
    optimizer = jtorch.optim.SGD([w], 0.1)

    @wrap
    def step(x):
        state["h"].detach_()
        optimizer.zero_grad()
        state["h"] = jtorch.tanh(w * state["h"] + x)
        loss = state["h"].square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        yield float(step(jtorch.ones(2))), w.tolist(), state["h"].tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_is_that_of_eager_mode(name):
    def rounded(value):
        if isinstance(value, float):
            return round(value, 5)
        return [rounded(part) for part in value] if isinstance(value, (list, tuple)) else value

    for found, expected in zip(PROGRAMS[name](jtorch.compile), PROGRAMS[name](lambda f: f), strict=True):
        assert rounded(found) == rounded(expected)
