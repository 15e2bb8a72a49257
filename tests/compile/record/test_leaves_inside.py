"""Gradients of tensors that the function makes itself: each call gives its results theirs."""

import types

import pytest

import jtorch
from jtorch import nn
from jtorch.errors import CompileError
from tests.compile.observe.observing import t

CASES = {}


def case(make):
    """``make()`` gives a function of x, and what to look at in what it returns."""
    CASES[make.__name__] = make
    return make


def grad(made):
    return made.grad, made.is_leaf, made.requires_grad, type(made).__name__


@case
def an_attack():
    def f(x):
        a = x.detach().clone().requires_grad_()
        (a**2).sum().backward()
        return a

    return f, grad


@case
def a_leaf_over_the_memory_of_an_argument():
    def f(x):
        a = x.detach().requires_grad_()
        (a**2).sum().backward()
        return a

    return f, grad


@case
def a_gradient_alone():
    def f(x):
        a = x.detach().requires_grad_()
        (a**2).sum().backward()
        return a.grad

    return f, lambda made: made


@case
def a_parameter_and_its_gradient():
    weight = nn.Parameter(t(1, 2))
    weight.grad = t(0, 0)

    def f(x):
        w = nn.Parameter(jtorch.ones(2))
        (w * x * weight).sum().backward()
        return {"w": w, "again": [w, w.grad]}

    def look(made):
        return grad(made["w"]), made["again"][0] is made["w"], made["again"][1] is made["w"].grad, weight.grad

    return f, look


@case
def a_retained_gradient():
    def f(x):
        y = x * jtorch.ones(2, requires_grad=True)
        y.retain_grad()
        (y**2).sum().backward()
        return y

    return f, grad


@case
def an_assigned_gradient():
    def f(x):
        w = jtorch.ones(2, requires_grad=True)
        w.grad = x
        return w, x

    return f, lambda made: (made[0].grad is made[1], made[0].grad)


@case
def a_gradient_of_a_gradient():
    def f(x):
        w = jtorch.ones(2, requires_grad=True)
        (w**2 * x).sum().backward(create_graph=True)
        g = w.grad
        g.retain_grad()
        (g**2).sum().backward()
        return w

    return f, lambda made: (made.grad.detach(), made.grad.requires_grad, made.grad.grad)


@case
def a_leaf_that_others_go_back_to():
    def f(x):
        w = jtorch.ones(2, requires_grad=True)
        (w * x).sum().backward()
        return w, (w**2 * x).sum()

    def look(made):
        w, loss = made
        loss.backward()
        return w.grad

    return f, look


@case
def gradients_to_which_a_later_pass_adds():
    def f(x):
        w, v, unused = (x.detach().requires_grad_() for _ in range(3))
        (w.sin() * v * unused).sum().backward()
        return (w * 2 + v.exp()).sum(), w.grad, v.grad[1:], unused.grad

    def look(made):
        made[0].backward()
        return made[1:]

    return f, look


@case
def a_kept_gradient_to_which_a_later_pass_adds():
    kept = []

    def f(x):
        w = nn.Parameter(x.detach().clone())
        w.sin().sum().backward()
        kept.append(w.grad)
        return (w * 2).sum()

    def look(made):
        made.backward()
        return kept

    return f, look


@case
def a_weight_made_by_the_first_call():
    state = types.SimpleNamespace(w=None)

    def f(x):
        if state.w is None:
            state.w = jtorch.ones(2, requires_grad=True)
        (state.w * x).sum().backward()
        with jtorch.no_grad():
            state.w -= 0.1 * state.w.grad
        return state.w * 1

    return f, lambda made: (made.detach(), state.w, state.w.grad)


@case
def leaves_that_are_kept():
    kept = []

    def f(x):
        w = jtorch.ones(2, requires_grad=True)
        (w * x).sum().backward()
        kept.append(w)
        return x

    return f, lambda _: [grad(w) for w in kept]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("mode", ["default", "interpret"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_eager_mode(name, mode):
    seen = []
    for wrap in (lambda f: f, lambda f: jtorch.compile(f, mode=mode)):
        function, look = CASES[name]()
        function = wrap(function)
        seen.append([repr(look(function(t(k, k + 1)))) for k in range(1, 5)])
    assert seen[0] == seen[1]
    assert len(function.retraces) <= 2 * (name == "a_weight_made_by_the_first_call")


def test_gradients_of_earlier_calls_stay():
    @jtorch.compile
    def f(x):
        a = x.detach().requires_grad_()
        (a**2).sum().backward()
        return a

    first, second = f(t(1)), f(t(2))
    assert (first.grad.item(), second.grad.item()) == (2.0, 4.0)
    first.grad.zero_()
    assert f(t(2)).grad.item() == second.grad.item() == 4.0


OUTER = jtorch.ones(2)


def test_a_hook_on_a_leaf_that_is_made_inside():
    def hooked(leaf):
        leaf.register_hook(lambda g: g * 2)
        return leaf

    def backward_inside(of):
        def step(x):
            leaf = hooked(of(x))
            loss = (leaf * x).sum()
            loss.backward()
            return leaf.grad, loss

        return step

    makers = [
        lambda x: (x * 1).requires_grad_(),
        lambda x: x.detach().requires_grad_(),
        lambda x: OUTER.detach().requires_grad_(),
        lambda x: jtorch.nn.Parameter(OUTER),
    ]
    for of in makers:
        inside = jtorch.compile(backward_inside(of))
        for k in range(3):
            assert inside(jtorch.ones(2) * k)[0].tolist() == [2.0 * k] * 2
        for outside in (
            lambda x, of=of: hooked(of(x)),
            lambda x, of=of: hooked(of(x)) * 3,
            lambda x, of=of: {"leaf": hooked(of(x)), "more": x * 2},
        ):
            with pytest.raises(
                CompileError, match=r"test_leaves_inside.*registers a hook on a tensor that it"
            ):
                jtorch.compile(outside)(jtorch.ones(2))
