"""What a function hangs on tensors that it makes, as meta-learning do: ``p.update = -lr * g``."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from jtorch.errors import CompileError


def adapted(weight, x, y, rate):
    """One step of gradient descent on a copy, with the update hung on it, and what the copy gives then."""
    copy = weight.clone()
    (g,) = jtorch.autograd.grad((x @ copy - y).square().mean(), [copy], create_graph=True)
    copy.update = -rate * g
    assert hasattr(copy, "update")
    new = copy + copy.update
    copy.update = None
    return (x @ new - y).square().mean()


def test_it_is_read_and_forgotten_with_the_tensor():
    def trained(compiled):
        weight = nn.Parameter(jtorch.tensor([1.0, -2.0]))

        def step(x, y, rate):
            loss = adapted(weight, x, y, rate)
            loss.backward()
            with jtorch.no_grad():
                weight.sub_(0.1 * weight.grad)
            weight.grad = None
            return loss

        step = jtorch.compile(step, fullgraph=True) if compiled else step
        x, y = jtorch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]]), jtorch.tensor([1.0, 0.0, 2.0])
        found = [step(x, y, rate).item() for rate in (0.1, 0.05, 0.2, 0.1)]
        return found, weight.tolist()

    (losses, weight), (expected, theirs) = trained(True), trained(False)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert weight == pytest.approx(theirs, rel=1e-5)


def test_it_is_in_vars_and_may_be_deleted():
    @jtorch.compile(fullgraph=True)
    def f(x):
        made = x * 2
        made.tag = 3
        total = made.sum() * vars(made)["tag"]
        del made.tag
        return made * (1 if hasattr(made, "tag") else 2), total

    for k in range(3):
        found, total = f(jtorch.ones(2) * k)
        assert found.tolist() == [4 * k, 4 * k]
        assert total.item() == 12 * k
        assert not hasattr(found, "tag")


KEPT: list = []
OUTSIDE = jtorch.zeros(2)


def returned(made):
    return made


def in_a_list(made):
    return [made, 1]


def kept(made):
    KEPT.append(made)


def on_another(made):
    OUTSIDE.other = made


def as_a_gradient(made):
    OUTSIDE.grad = made


@jtorch.compiler.disable
def outside(made):
    return made.tag


@pytest.mark.parametrize("leave", [returned, in_a_list, kept, on_another, as_a_gradient, outside])
def test_a_tensor_that_outlives_the_call_is_refused(leave):
    def f(x):
        made = x * 2
        made.tag = 3
        return leave(made)

    told = (
        "a tensor with attributes" if leave is outside else "hangs 'tag' on a tensor that it makes and keeps"
    )
    with pytest.raises(CompileError, match=told):
        jtorch.compile(f, fullgraph=True)(jtorch.ones(2))
    KEPT.clear()


def test_a_function_that_has_seen_the_tensor_before_may_not_see_less():
    @jtorch.compiler.disable
    def keep(made):
        KEPT.append(made)

    @jtorch.compiler.disable
    def tag_of_kept():
        return getattr(KEPT.pop(), "tag", 0)

    def f(x):
        made = x * 2
        keep(made)
        made.tag = 3
        return tag_of_kept()

    with pytest.raises(CompileError, match=r"hangs 'tag' on a tensor|is passed a tensor"):
        jtorch.compile(f, fullgraph=True)(jtorch.ones(2))
    KEPT.clear()


def test_a_loop_that_hangs_something_on_its_carry_is_recorded_step_by_step():
    def turn(carry, x):
        seen = getattr(carry, "seen", 0)
        carry = carry + x + seen
        carry.seen = 1
        return carry, carry * 2

    def f(xs):
        return jtorch.compiler.scan(turn, xs[0] * 0, xs)[1]

    xs = jtorch.arange(8.0).reshape(4, 2)
    assert jtorch.equal(jtorch.compile(f, fullgraph=True)(xs), f(xs))
