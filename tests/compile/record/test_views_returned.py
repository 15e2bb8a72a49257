"""Results that are views of arguments and parameters which require grad: eager mode's own views of them."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError

pytestmark = pytest.mark.usefixtures("whole_heap")

W = nn.Parameter(jtorch.arange(6.0).reshape(2, 3))
VIEWS = {
    "last": lambda h: h[-1],
    "transposed": lambda h: h.t(),
    "flat": lambda h: h.view(-1),
    "column": lambda h: h[:, 0],
    "chain": lambda h: h[0].unsqueeze(0).expand(4, 3),
    "diagonal": lambda h: h.diagonal(),
    "windows": lambda h: h.unfold(1, 2, 1),
    "of a parameter": lambda h: W.t(),
    "several": lambda h: h.unbind(0),
    "overlapping": lambda h: (h[0], h[0]),
    "beside what is computed": lambda h: (h[0], h * 2),
    "of both": lambda h: {"a": h[0], "b": W[1]},
    "of a view": lambda h: (lambda v: (v, v[1:]))(h[0]),
    "and computed from": lambda h: (lambda v: (v, (v * v).sum()))(h[-1]),
    "whole": lambda h: h.view_as(h),
}
ARGUMENTS = {
    "a leaf": lambda x: x,
    "computed": lambda x: x * 2,
    "a view": lambda x: (x * 1).view(2, 3),
}


def _leaves(result):
    result = tuple(result.values()) if isinstance(result, dict) else result
    return result if isinstance(result, (tuple, list)) else (result,)


def _told(f, make):
    found = []
    for k in range(2):
        W.grad = None
        x = (jtorch.arange(6.0).reshape(2, 3) + k).requires_grad_()
        h = make(x)
        results = _leaves(f(h))
        for r in results:
            view = r._base is not None
            found.append(
                (r.tolist(), r.requires_grad, r.is_leaf, r.stride(), view, view and r._base is not W)
            )
        sum((r * r * (j + 1)).sum() for j, r in enumerate(results)).backward()
        found += [None if t.grad is None else t.grad.tolist() for t in (x, W)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_a_view_is_differentiated_outside(argument):
    for name, f in VIEWS.items():
        make = ARGUMENTS[argument]
        assert _told(jtorch.compile(f), make) == _told(f, make), name


def test_what_is_computed_of_nothing_is_no_view():
    """Along an axis without elements softmax computes nothing, and has a graph of its own all the same."""
    for f in (lambda x: x.softmax(-1), lambda x: x.log_softmax(-1), lambda x: nn.functional.softmin(x, -1)):
        for shape in ((3, 0), (0,)):
            x = jtorch.ones(shape, requires_grad=True)
            for g in (f, jtorch.compile(f)):
                y = g(x)
                assert y is not x and y._base is None and not y.is_leaf
                y.sum().backward()
                assert x.grad.shape == y.shape == shape


def test_a_write_through_such_a_view_is_seen():
    first = jtorch.compile(lambda h: h[0])
    x = jtorch.ones(2, 3, requires_grad=True)
    h = x * 1
    first(h).mul_(3)
    h.sum().backward()
    assert h.tolist() == [[3, 3, 3], [1, 1, 1]]
    assert x.grad.tolist() == [[3, 3, 3], [1, 1, 1]]
    leaf = jtorch.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf Variable that requires grad"):
        first(leaf).mul_(3)


def test_views_share_what_lies_between_them():
    f = jtorch.compile(lambda h: (lambda v: (v, v[1:]))(h[0]))
    v, part = f(jtorch.ones(2, 3, requires_grad=True))
    (gradient,) = jtorch.autograd.grad(part.sum(), v)
    assert gradient.tolist() == [0, 1, 1]


def test_a_grad_mode_inside_holds():
    def f(h):
        with jtorch.enable_grad():
            first = h[0]
        with jtorch.no_grad():
            return first, h[1]

    x = jtorch.ones(2, 3, requires_grad=True)
    compiled = jtorch.compile(f)
    for g in (f, compiled):
        assert [r.requires_grad for r in g(x)] == [True, False]
        with jtorch.no_grad():
            assert [r.requires_grad for r in g(x)] == [True, False]


def test_the_gradient_of_a_view_from_which_a_result_was_computed_is_refused():
    f = jtorch.compile(lambda h: (lambda v: (v, (v * 2).sum()))(h[-1]))
    x = jtorch.ones(2, 3, requires_grad=True)
    for ask in (
        lambda v, loss: jtorch.autograd.grad(loss, v),
        lambda v, loss: jtorch.autograd.grad(loss, v, allow_unused=True),
        lambda v, loss: v.register_hook(print),
        lambda v, loss: v.retain_grad(),
    ):
        with pytest.raises(CompileError, match="from which another of its results was computed"):
            ask(*f(x))
    v, loss = f(x)
    assert jtorch.autograd.grad(v.sum() + loss, x)[0].tolist() == [[0, 0, 0], [3, 3, 3]]


class _Tripled(jtorch.autograd.Function):
    """A view whose gradient is another one than a view's."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return 3 * g.view(2, 3)


def test_a_graph_that_is_more_than_views_is_refused_with_its_line():
    def hooked(h):
        v = h[0]
        v.register_hook(lambda g: g * 2)
        return v

    for f, line in ((lambda h: _Tripled.apply(h), 0), (hooked, 1)):
        with pytest.raises(CompileError, match=r"more than views of it: return its \.clone\(\)") as caught:
            jtorch.compile(f)(jtorch.ones(2, 3, requires_grad=True))
        assert f"{__file__}:{f.__code__.co_firstlineno + line} in" in str(caught.value)


# -- views that are changed in place outside -----------------------------------------------------------------

RETURNED = {
    "last step": lambda y: (y[:, -1],),
    "transposed": lambda y: (y.t(),),
    "view of a view": lambda y: (y.t()[1],),
    "with its base": lambda y: (y, y[0], y.t()[1]),
    "overlapping": lambda y: (y[0], y[:, 0]),
    "detached": lambda y: (y, y.detach().t()),
    "leaf": lambda y: (y.detach().t().requires_grad_(),),
    "several": lambda y: (y.t().unbind(0)[1],),
}


@pytest.mark.slow
def test_views_that_are_changed_outside_have_the_gradients_of_eager_mode():
    def outcome(wrap, parts, write, k):
        w = jtorch.arange(6.0).reshape(2, 3).clone().requires_grad_()
        outs = wrap(lambda x: parts(w * x))(jtorch.full((3,), 2.0))
        try:
            write(outs[k], w)
        except RuntimeError as error:
            return str(error)
        loss = sum((out * out).sum() for out in outs)
        (g,) = jtorch.autograd.grad(loss, w, allow_unused=True)
        return [out.tolist() for out in outs], None if g is None else g.tolist()

    writes = (
        lambda out, w: out.mul_(3),
        lambda out, w: out.add_(w.sum()),
        lambda out, w: out[0].mul_(w[0, 1]),
    )
    for name, parts in RETURNED.items():
        for write in writes:
            for k in range(len(parts(jtorch.ones(2, 3)))):
                expected = outcome(lambda f: f, parts, write, k)
                assert outcome(jtorch.compile, parts, write, k) == expected, (name, k)
