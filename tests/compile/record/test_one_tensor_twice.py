"""Which tensors are the same counts where gradients are wanted, flags are set, gradients have two names."""

from __future__ import annotations

import warnings
from functools import partial

import pytest

import jtorch
from jtorch.autograd import Function, grad
from tests.each import each


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch):
    """What cannot be recorded runs eagerly."""
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)


def leaf():
    return jtorch.ones(2, requires_grad=True)


def plain():
    return jtorch.ones(2)


def listed(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist(), value.requires_grad
    return [listed(v) for v in value] if isinstance(value, (list, tuple)) else value


def twice(f, make=leaf):
    """Calls of two tensors, and of one twice."""

    def two():
        return f(make(), make())

    def one():
        x = make()
        return f(x, x)

    return two, one


class Pair:
    pass


def by_attributes(compiled, pair):
    def two():
        pair.a, pair.b = leaf(), leaf()
        return compiled(1.0)

    def one():
        pair.a = pair.b = leaf()
        return compiled(1.0)

    return two, one


def asks(a, b):
    return grad((a * b).sum(), a)[0]


def in_a_list(f, a, b):
    return f([a, b])


def asks_of_a_list(both):
    return grad((both[0] * both[1]).sum(), both[0])[0]


def goes_back_to_one(a, b):
    (a * b).sum().backward(inputs=[a])
    return a.grad


def sets_a_flag(a, b):
    a.requires_grad_(True)
    return (b * 2).sum()


def sets_a_flag_and_goes_back(a, b):
    a.requires_grad_(True)
    (a * b).sum().backward()
    return a.grad


def detaches(a, b):
    a.detach_()
    return b * 3


def compares_gradients(a, b):
    return a.grad is b.grad, len({a.grad, b.grad})


def with_gradients(f):
    def two():
        a, b = leaf(), leaf()
        a.grad, b.grad = jtorch.ones(2), jtorch.ones(2)
        return f(a, b)

    def one():
        a, b = leaf(), leaf()
        a.grad = b.grad = jtorch.ones(2)
        return f(a, b)

    return two, one


PAIR = Pair()
CASES = {
    "autograd.grad": lambda wrap: twice(wrap(asks)),
    "of a list": lambda wrap: twice(partial(in_a_list, wrap(asks_of_a_list))),
    "of attributes": lambda wrap: by_attributes(wrap(lambda k: asks(PAIR.a, PAIR.b) * k), PAIR),
    "backward(inputs=)": lambda wrap: twice(wrap(goes_back_to_one)),
    "a flag": lambda wrap: twice(wrap(sets_a_flag), plain),
    "a flag, then backward": lambda wrap: twice(wrap(sets_a_flag_and_goes_back), plain),
    "detach_": lambda wrap: twice(wrap(detaches)),
    "gradients": lambda wrap: with_gradients(wrap(compares_gradients)),
}


@each("name", CASES)
@each("order", ["221121", "112212", "121212"])
def test_two_tensors_and_one_twice(name, order):
    def run(wrap):
        two, one = CASES[name](wrap)
        return [listed(one() if n == "1" else two()) for n in order]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(jtorch.compile) == run(lambda f: f)


@pytest.mark.parametrize(
    "program",
    [
        lambda a: asks(a, a * 1),
        lambda a: grad((a * (a * 1)).sum(), a)[0],
    ],
    ids=["outside", "inside"],
)
def test_a_graph_of_one_argument_that_leads_to_another(program):
    f = jtorch.compile(asks) if program(leaf()) is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            a = leaf()
            assert f(a, a * 1).tolist() == [2.0, 2.0]
            other = leaf()
            assert f(leaf(), other * 1).tolist() == [1.0, 1.0]


def test_what_is_detached_gets_no_gradient():
    @jtorch.compile
    def f(a):
        t = a * 2
        a.detach_()
        t.sum().backward()
        return a.grad

    assert [f(leaf()) for _ in range(4)] == [None] * 4


def test_a_gradient_that_is_also_reached_otherwise():
    kept = Pair()
    f = jtorch.compile(lambda a: (a.grad is kept.tensor, a.grad * 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for same in (False, True, False, True, True):
            a, kept.tensor = leaf(), jtorch.ones(2)
            a.grad = kept.tensor if same else jtorch.ones(2)
            assert f(a)[0] is same
        kept.tensor = jtorch.ones(2)
        for same in (False, True, True, False):
            a = leaf()
            a.grad = kept.tensor if same else jtorch.ones(2)
            assert f(a)[0] is same


@pytest.mark.parametrize("part", [lambda t: t[:], lambda t: t.detach(), lambda t: t.data])
def test_a_gradient_shares_memory_with_the_result_that_it_is_a_view_of(part):
    def f(p):
        t = p.detach() * 2
        p.grad = part(t)
        return t

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jtorch.compile(f)
        for _ in range(4):
            p = leaf()
            t = compiled(p)
            t.add_(1)
            assert t.tolist() == p.grad.tolist() == [3.0, 3.0]


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def test_a_function_that_gives_what_it_gets():
    f = jtorch.compile(lambda x: Same.apply(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in (plain, leaf, plain):
            assert f(make()).tolist() == [1.0, 1.0]


def test_containers_that_hold_themselves_run_eagerly():
    def takes(x, d):
        return x * d["k"]

    def gives(x):
        made = [x]
        made.append(made)
        return made

    with pytest.warns(jtorch.errors.EagerWarning, match="holds itself"):
        takes, gives = jtorch.compile(takes), jtorch.compile(gives)
        for k in range(1, 4):
            d = {"k": k}
            d["me"] = d
            assert takes(plain(), d).tolist() == [k, k]
            found = gives(plain())
            assert found[1] is found and found[0].tolist() == [1.0, 1.0]


def test_repeats_that_move_are_sizes():
    def f(x, k):
        try:
            return x.repeat_interleave(k)
        except Exception:
            return x

    f = jtorch.compile(f)
    assert [f(jtorch.ones(2), k).shape[0] for k in (2, 3, 4, 5, 2)] == [4, 6, 8, 10, 4]


def test_inputs_that_are_named_twice_get_their_gradient_once():
    x = leaf()
    (x * 3).sum().backward(inputs=[x, x])
    assert x.grad.tolist() == [3.0, 3.0]
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        (x * 3).sum().backward(inputs=[plain()])
