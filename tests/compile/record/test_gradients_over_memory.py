"""A gradient that a compiled function sets to a view of a tensor that it was given or holds shows that memory
after the call, as in eager mode."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch

VIEWS = {
    "all": lambda t: t[:], "part": lambda t: t.view(-1)[0:2], "detached": lambda t: t.detach(),
    "data": lambda t: t.data, "viewed": lambda t: t.view(2), "detached part": lambda t: t.detach()[:],
    "itself": lambda t: t,
}  # fmt: skip
PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def of_a_buffer(wrap, view):
    w, buffer = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)

    @wrap
    def f():
        w.grad = view(buffer)

    for _ in range(3):
        f()
        (w * 3).sum().backward()
        yield buffer.tolist(), w.grad.tolist(), np.shares_memory(buffer.numpy(), w.grad.numpy())
        w.grad.add_(1)
        yield buffer.tolist()


@program
def of_an_argument(wrap, view):
    w = jtorch.nn.Parameter(jtorch.ones(2))

    @wrap
    def f(x):
        w.grad = view(x)
        return x * 2

    for _ in range(3):
        x = jtorch.ones(2)
        yield f(x).tolist()
        (w * 3).sum().backward()
        yield x.tolist(), w.grad.tolist()


@program
def stepped_by(wrap, view):
    w, buffer = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)
    optimizer = jtorch.optim.SGD([w], 0.1)

    @wrap
    def f(x):
        w.grad = view(buffer)
        (w * x).sum().backward()
        optimizer.step()
        return buffer * 1

    for _ in range(3):
        yield f(jtorch.ones(2)).tolist(), w.tolist(), buffer.tolist()
        optimizer.zero_grad(set_to_none=False)
        yield buffer.tolist()


@program
def returned_as_well(wrap, view):
    w, buffer = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)

    @wrap
    def f():
        w.grad = view(buffer)
        return w.grad, view(buffer)

    for _ in range(3):
        first, second = f()
        first.add_(1)
        yield first is w.grad, second.tolist(), buffer.tolist()


@program
def of_the_tensor_itself(wrap, view):
    w = jtorch.nn.Parameter(jtorch.ones(2))

    @wrap
    def f(x):
        w.grad = view(w.detach())
        return x * 2

    for _ in range(2):
        f(jtorch.ones(2))
        (w * 3).sum().backward()
        yield w.tolist(), w.grad.tolist()


def test_a_flat_vector_holds_all_gradients():
    def trained(wrap):
        jtorch.manual_seed(0)
        flat, layer = jtorch.zeros(6), jtorch.nn.Linear(2, 2)

        @wrap
        def forward(x):
            layer.weight.grad, layer.bias.grad = flat[:4].view(2, 2), flat[4:]
            return layer(x)

        for _ in range(3):
            forward(jtorch.ones(1, 2)).sum().backward()
            yield flat.tolist()

    assert [*trained(jtorch.compile)] == [*trained(lambda f: f)]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_shared_as_in_eager_mode(name, view):
    made = PROGRAMS[name](jtorch.compile, VIEWS[view])
    for found, expected in zip(made, PROGRAMS[name](lambda f: f, VIEWS[view]), strict=True):
        assert found == expected
