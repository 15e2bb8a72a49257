"""The tape of a recording: the gradients it starts from, graphs from outside, and what becomes of its own."""

import pytest

import jtorch
from jtorch import nn

# -- gradients that are handed in -----------------------------------------------------------------------------


class _Gives(jtorch.autograd.Function):
    """The identity, with ``given`` as its gradient."""

    @staticmethod
    def forward(ctx, x, given):
        ctx.given = given
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return ctx.given, None


def _set_grad(w, found):
    w.grad = found[0]


def _hooked(w, g, which):
    y = w * 3
    if which == "tensor":
        y.register_hook(lambda _: g)
    elif which == "pre":
        y.grad_fn.register_prehook(lambda _: (g,))
    elif which == "post":
        y.grad_fn.register_hook(lambda *_: (g, None))
    (y * 2).sum().backward()


def _custom(w, g):
    _Gives.apply(w, g).sum().backward()


def _leaf_hook(w, g):
    v = w.detach().clone().requires_grad_()
    v.register_hook(lambda _: g)
    v.sum().backward()
    w.grad = v.grad


def _packed(w, g):
    with jtorch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = w * w
    y.backward(g)


def _twice(w, g):
    w.backward(g)
    w.backward(g)


def _two(w, g):
    jtorch.autograd.backward([w * 3, w, w], [g, g, g])


def _kept(w, g):
    y = w * 1
    y.retain_grad()
    y.backward(g)
    w.grad.add_(y.grad)


GIVEN = {
    "positional": lambda w, g: (w * 3).backward(g),
    "by keyword": lambda w, g: (w * 3).backward(gradient=g),
    "computed": lambda w, g: (w * 3).backward(g * 1),
    "a view": lambda w, g: (w * 3).backward(g[:1].expand(2)),
    "autograd.backward": lambda w, g: jtorch.autograd.backward([w * 3], [g]),
    "to several": _two,
    "grad_tensors": lambda w, g: jtorch.autograd.backward(w * 3, grad_tensors=g),
    "autograd.grad": lambda w, g: _set_grad(w, jtorch.autograd.grad(w * 3, w, g)),
    "autograd.grad of the tensor": lambda w, g: _set_grad(w, jtorch.autograd.grad(w * 1, w, g)),
    "grad_outputs": lambda w, g: _set_grad(w, jtorch.autograd.grad([w * 3, w], w, grad_outputs=[g, g])),
    "batched": lambda w, g: _set_grad(
        w, jtorch.autograd.grad(w * 3, w, grad_outputs=jtorch.stack([g, g]), is_grads_batched=True)[0]
    ),
    "inputs": lambda w, g: (w * 3).backward(g, inputs=[w]),
    "create_graph": lambda w, g: _set_grad(w, jtorch.autograd.grad(w * w, w, g, create_graph=True)),
    "a leaf": lambda w, g: w.backward(g),
    "a leaf, twice": _twice,
    "another dtype": lambda w, g: (w * 3).double().backward(g.double()),
    "retained": _kept,
    "a hook on a tensor": lambda w, g: _hooked(w, g, "tensor"),
    "a hook before a node": lambda w, g: _hooked(w, g, "pre"),
    "a hook after a node": lambda w, g: _hooked(w, g, "post"),
    "a hook on a leaf": _leaf_hook,
    "a custom Function": _custom,
    "hooks on what is saved": _packed,
}  # fmt: skip


def _gradients(way, compiled, captured):
    w, outside = nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)

    def f(g):
        w.grad = None
        way(w, outside if captured else g)

    if compiled:
        f = jtorch.compile(f)
    found = []
    for k in range(3):
        given = jtorch.tensor([k + 1.0, k + 5.0])
        outside.copy_(given)
        f(given)
        found.append((w.grad.tolist(), given.tolist(), outside.tolist()))
    return found


@pytest.mark.parametrize("captured", [False, True], ids=["argument", "captured"])
@pytest.mark.parametrize("way", GIVEN)
def test_gradients_that_are_handed_in_are_those_of_each_call(way, captured):
    assert _gradients(GIVEN[way], True, captured) == _gradients(GIVEN[way], False, captured)
