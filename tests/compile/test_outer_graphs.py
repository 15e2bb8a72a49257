"""Tensors from outside that get a graph between calls, or would get one inside."""

import types

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from jtorch.testing import assert_no_retrace
from tests.each import each

# -- between calls -------------------------------------------------------------------------------------------


class Dirty(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        x.add_(p)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, g


def _through_the_base(h, p):
    h._base[1:4].add_(p)


def _beside(h, p):
    h._base[3:].mul_(p)


WRITES = {
    "add_": lambda h, p: h.add_(p),
    "copy_": lambda h, p: h.copy_(p * 2),
    "[0] =": lambda h, p: h.__setitem__(0, p[0]),
    "[mask] =": lambda h, p: h.__setitem__(h > 0, p[0]),
    "fill_": lambda h, p: h.fill_(p[1]),
    "index_put_": lambda h, p: h.index_put_((jtorch.tensor([0, 2]),), p[:2]),
    "lerp_": lambda h, p: h.lerp_(p, 0.5),
    "a view": lambda h, p: h[1:].add_(p[1:]),
    "a view of a view": lambda h, p: h.view(1, 3)[0].add_(p),
    "the base": lambda h, p: h._base.add_(p.sum()),
    "another view": _through_the_base,
    "a view beside it": _beside,
    "a custom Function": lambda h, p: Dirty.apply(h, p),
}


class Holder(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.register_buffer("h", h)

    def forward(self, x):
        return self.h * x


def captured(wrap, h):
    return wrap(lambda x: h * x)


def attribute(wrap, h):
    state = types.SimpleNamespace(h=h)
    return wrap(lambda x: state.h * x)


def entries(wrap, h):
    state = {"h": [h]}
    return wrap(lambda x: state["h"][0] * x)


def buffer(wrap, h):
    return wrap(Holder(h))


def nested(wrap, h):
    inner = wrap(lambda x: h * x)
    return wrap(lambda x: inner(x) + 0)


def asked(wrap, h):
    return wrap(lambda x: (h * 0 + 2 if h.requires_grad else h * 0 + 3).detach() * x)


def part(wrap, h):
    view = h[:2]
    return wrap(lambda x: view * x[:2])


def as_eager(program):
    """Whether ``program`` of compiled functions gives what it gives in eager mode, or a CompileError that
    says why a recording cannot use that graph."""
    expected = program(lambda function: function)
    try:
        found = program(jtorch.compile)
    except CompileError as error:
        return "one that was built outside" in str(error)
    return found == expected


@each("write", WRITES.values(), ids=[*WRITES])
@each("hold", [captured, attribute, entries, buffer, nested, asked, part])
def test_a_graph_that_a_tensor_gets_between_calls_is_noticed(hold, write):
    def program(wrap):
        h = jtorch.arange(6.0)[1:4]
        p = jtorch.full((3,), 2.0).requires_grad_()
        f = hold(wrap, h)
        calls = [f(jtorch.ones(3)), f(jtorch.ones(3))]
        write(h, p)
        calls.append(f(jtorch.ones(3)))
        if calls[-1].requires_grad:
            calls[-1].sum().backward()
        return [(y.tolist(), y.requires_grad) for y in calls], None if p.grad is None else p.grad.tolist()

    assert as_eager(program)


@each("write", WRITES.values(), ids=[*WRITES])
def test_backward_inside_reaches_that_graph_or_is_refused(write):
    def program(wrap):
        state = types.SimpleNamespace(h=jtorch.arange(6.0)[1:4])
        w, p = jtorch.ones(3, requires_grad=True), jtorch.full((3,), 2.0).requires_grad_()
        f = wrap(lambda: (state.h * w).sum().backward())
        f()
        f()
        write(state.h, p)
        f()
        return w.grad.tolist(), p.grad.tolist()

    assert as_eager(program)


def test_a_second_graph_of_a_tensor_is_noticed_where_the_first_is_used():
    def program(wrap):
        h = jtorch.zeros(3)
        p, q = jtorch.ones(3, requires_grad=True), jtorch.ones(3, requires_grad=True)
        f = wrap(lambda x: (h * x).sum())
        h[0] = p[0]
        f(jtorch.ones(3)).backward()
        h[1] = q[1]
        f(jtorch.ones(3)).backward()
        return p.grad.tolist(), q.grad.tolist()

    assert program(jtorch.compile) == program(lambda function: function) == ([2, 0, 0], [0, 1, 0])


def test_a_graph_that_is_taken_off_again_costs_no_recording():
    h, p = jtorch.zeros(3), jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: h * x)
    f(jtorch.ones(3))
    with assert_no_retrace():
        h.add_(p)
        h.detach_()
        assert f(jtorch.ones(3)).tolist() == [1, 1, 1]
        for alias in (h.detach, lambda: h.data):  # gone when the next call comes
            alias().add_(p)
            assert not f(jtorch.ones(3)).requires_grad
    assert h.tolist() == [3, 3, 3]


def test_a_graph_that_no_call_uses_costs_no_recording():
    h, p = jtorch.zeros(3), jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: h.detach() * x)
    f(jtorch.ones(3))
    h.add_(p)
    assert f(jtorch.ones(3)).tolist() == [1, 1, 1]
    with assert_no_retrace():
        for k in (2, 3):
            h.add_(p)
            assert f(jtorch.ones(3)).tolist() == [k, k, k]
