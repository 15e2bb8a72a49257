"""Tensors that a compiled function begins over memory from outside: each call gives ones of its own."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.eager.begun import BEGUN
from jtorch.errors import CompileError

ARRAY = np.ones((2, 2), np.float32)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jtorch.ones(2, 2))
        self.register_buffer("buffer", jtorch.ones(2, 2))
        self.held = jtorch.zeros(2, 2)
        self.pair = [jtorch.ones(2, 2), jtorch.full((2, 2), 2.0)]


def of_detach(net, x):
    return net.weight.detach()


def of_data(net, x):
    return net.buffer.data, x * 1


def several(net, x):
    return [p.detach() for p in (net.weight, net.buffer)]


def as_parameter(net, x):
    return nn.Parameter(net.buffer)


def as_frozen_parameter(net, x):
    return nn.Parameter(net.weight.detach(), requires_grad=False), x * 1


def of_numpy(net, x):
    return jtorch.from_numpy(ARRAY)


def twice(net, x):
    d = net.weight.detach()
    return d, d.detach(), net.weight.detach()


def with_a_view(net, x):
    d = net.weight.detach()
    return d, d[0], d.view(-1)[1:]


def a_view_alone(net, x):
    return net.weight.detach()[0], x.detach()[1:]


def a_view_without_grad(net, x):
    d = x.detach()
    with jtorch.no_grad():
        return d[0], net.buffer.detach()[0]


def of_the_argument(net, x):
    return x.detach(), x.data, x[0].detach()[1:]


def written_inside(net, x):
    d = net.buffer.data
    d.mul_(2)
    return d


def kept(net, x):
    net.held = net.weight.detach()
    return net.held


def kept_and_exchanged(net, x):
    net.pair[1].mul_(0.25)
    net.held = net.pair[0].detach()
    net.pair[0], net.pair[1] = net.pair[1], net.pair[0]
    return net.held * x


def put_in_a_list(net, x):
    d = net.buffer.detach()
    net.pair.append(d)
    return d


def a_leaf(net, x):
    d = net.weight.detach().requires_grad_()
    return (d * x * d).sum(), d


def a_leaf_of_the_argument(net, x):
    d = x.detach().requires_grad_()
    return (d * d).sum(), d


PROGRAMS = [
    of_detach, of_data, several, as_parameter, as_frozen_parameter, of_numpy, twice, with_a_view,
    a_view_alone, a_view_without_grad, of_the_argument, written_inside, kept, kept_and_exchanged,
    put_in_a_list, a_leaf,
    a_leaf_of_the_argument,
]  # fmt: skip


def tensors(result):
    return [t for t in (result if isinstance(result, (list, tuple)) else [result]) if t.is_leaf]


def history(program, compile):
    """What one sees of results and state in four calls, in between which the results are changed."""
    ARRAY[...] = 1
    net = Net()
    step = compile(lambda x: program(net, x))
    seen, before = [], []
    for k in range(4):
        x = jtorch.ones(2, 2) * (k + 1)
        result = step(x)
        if program in (a_leaf, a_leaf_of_the_argument):
            result[0].backward()
        found = tensors(result)
        of_net = [net.weight, net.buffer, net.held, *net.pair]
        seen.append([
            (any(t is b for b in before), t.requires_grad, t._version, type(t), t.tolist(), t._base is None,
             None if t.grad is None else t.grad.tolist())
            for t in found
        ])  # fmt: skip
        before += found
        for t in found:  # these are this call's, but for their elements
            t.detach().add_(1)
        for t in found:
            if t._base is None and not any(t is held for held in of_net):
                t.requires_grad_()
        seen.append([(t.tolist(), t.requires_grad) for t in (*of_net, x)])
    return seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_begins_inside_is_of_one_call(program):
    assert history(program, jtorch.compile) == history(program, lambda f: f)


def test_a_graph_that_results_get_later_is_of_one_call():
    weight, factor = jtorch.ones(2, 2).requires_grad_(), jtorch.full((2, 2), 3.0).requires_grad_()

    @jtorch.compile
    def f(x):
        d = weight.detach()
        return d, d[0]

    for _ in range(3):
        whole, row = f(jtorch.ones(1))
        assert not whole.requires_grad and not row.requires_grad
        whole.mul_(factor)
        assert row.requires_grad  # a view of what was written
        factor.grad = None
        (row * 2).sum().backward()
        with jtorch.no_grad():
            weight.fill_(1.0)
        assert factor.grad.tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_a_number_fills_an_expanded_tensor():
    def f(x):
        y = x * 2
        y.expand(2, 3)[:, 1:].zero_()
        x.expand(4, 3).fill_(7.0)
        return y

    for step in (f, jtorch.compile(f)):
        for k in range(3):
            x = jtorch.ones(3) * k
            assert step(x).tolist() == [2.0 * k, 0.0, 0.0] and x.tolist() == [7.0] * 3


def test_a_tensor_fills_no_expanded_one():
    def f(x):
        return x.expand(2, 3).fill_(jtorch.tensor(1.0))

    for step in (f, jtorch.compile(f)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            step(jtorch.ones(3))


def test_nothing_is_noted_after_a_recording():
    def fails(x):
        x.detach()
        raise KeyError("of the user's")

    jtorch.compile(lambda x: x.detach())(jtorch.ones(2))
    with pytest.raises(KeyError):
        jtorch.compile(fails)(jtorch.ones(2))
    with pytest.raises(CompileError):
        jtorch.compile(lambda x: x.data.repeat(20).tolist())(jtorch.ones(2))
    assert BEGUN == []


def test_what_hangs_on_such_a_tensor_is_refused():
    for of in (of_detach, as_parameter, lambda net, x: x.detach()):

        def f(x, of=of):
            made = of(NET, x)
            made.tag = "a"
            return made

        with pytest.raises(CompileError, match="hangs 'tag' on a tensor that it makes"):
            jtorch.compile(f)(jtorch.ones(2, 2))


NET = Net()
