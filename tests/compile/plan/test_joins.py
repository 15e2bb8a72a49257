"""Concatenations whose parts are computed in place: what is left out, what is copied, the same numbers."""

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.nn import rnn
from tests.compile.chain import assert_chain
from tests.compile.plan.test_memory import assert_sound, floats, plan_of

ONES = jtorch.ones(5, 5)


def names(plan):
    return [task.name for task in plan.tasks]


def checked(function, *leaves):
    """The plan, once it is sound and all ways of computing it give the same."""
    plan = plan_of(function, *leaves)
    assert_sound(plan)
    assert_chain(function, leaves)
    return plan


def test_what_products_make_is_made_in_place():
    def function(x, y):
        return jtorch.cat((x @ ONES, y @ ONES)) @ ONES

    plan = checked(function, floats(3, 5), floats(4, 5, seed=1))
    assert "map_cat" not in names(plan)
    assert len(plan.parts) == 2


def test_inputs_and_what_stands_there_twice_are_copied():
    def function(x, y):
        z = y @ ONES
        return jtorch.cat((x, z, z, z[1:2])) @ ONES

    plan = checked(function, floats(3, 5), floats(4, 5, seed=1))
    assert len(plan.parts) == 4
    assert sum("clone" in name for name in names(plan)) == 3


@pytest.mark.parametrize("axis", [0, 1])
def test_along_the_first_axis_alone(axis):
    def function(x, y):
        return jtorch.cat((x @ ONES, y @ ONES), axis).reshape(-1, 5) @ ONES

    plan = checked(function, floats(5, 5), floats(5, 5, seed=1))
    assert len(plan.parts) == 2 * (axis == 0)


def test_axes_of_one_position_before_it_decide_nothing():
    def function(x, y):
        return jtorch.cat(((x @ ONES)[None], (y @ ONES)[None]), 1) @ ONES

    assert not checked(function, floats(5, 5), floats(5, 5, seed=1)).parts


def test_a_part_of_one_is_no_part_of_another():
    def function(x, y):
        x, y = x @ ONES, y @ ONES
        both = jtorch.cat((x, y))
        return both @ ONES, jtorch.cat((y, x)) @ ONES, jtorch.cat((both, y)) @ ONES

    checked(function, floats(5, 5), floats(5, 5, seed=1))


def test_what_leaves_the_call_is_no_part():
    def function(x, y):
        x, y = x @ ONES, y @ ONES
        return x, jtorch.cat((x, y)) @ ONES, jtorch.cat((y, x))

    plan = checked(function, floats(5, 5), floats(5, 5, seed=1))
    assert all(var not in plan.fused.graph.outputs for var in plan.parts)


def test_parts_that_are_transposed_or_repeated():
    def function(x, y):
        x, y = x @ ONES, y @ ONES
        return jtorch.cat((x.t(), y, x[:1].expand(2, 5), y.flip(0))) @ ONES

    checked(function, floats(5, 5), floats(5, 5, seed=1))


def test_empty_parts():
    def function(x, y):
        return jtorch.cat((x @ ONES, (y @ ONES)[:0], y @ ONES)) @ ONES

    checked(function, floats(0, 5), floats(3, 5, seed=1))
    checked(function, floats(3, 5), floats(0, 5, seed=1))


def twice(x):
    return jtorch.stack([x, x])


NUMBERS = {
    "twice": lambda x: twice(x) * 1,
    "expanded": lambda x: jtorch.cat([x.expand(4)]),
    "below": lambda x: jtorch.cat([x[None], x[None]]).sum(),
    "product": lambda x: jtorch.stack([x, x, x]) @ jtorch.ones(3, 3),
    "rows": lambda x: jtorch.stack([x.expand(4)] * 2) * 1,
}


@pytest.mark.parametrize("form", NUMBERS)
def test_numbers_whose_origin_is_overwritten(form):
    """A copy of a number would compute it again, from what is there then."""

    def function(a):
        found = NUMBERS[form](a + 1)
        a.add_(5)
        return found

    expected = function(jtorch.tensor(1.0))
    np.testing.assert_array_equal(jtorch.compile(function)(jtorch.tensor(1.0)).numpy(), expected.numpy())


def test_what_is_copied_is_what_it_was_before_it_is_overwritten():
    def function(a, y):
        found = jtorch.cat((a, y @ ONES, a[1:])) @ ONES
        a.add_(5)
        return found

    for _ in range(2):
        a, y = floats(3, 5), floats(4, 5, seed=1)
        expected = function(a.clone(), y)
        np.testing.assert_allclose(jtorch.compile(function)(a, y).numpy(), expected.numpy(), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 400])
def test_many_parts(n):
    def function(x):
        return jtorch.stack([jtorch.tanh(x[k % 5] * (k + 1.0)) for k in range(n)])

    x = floats(5, 3)
    np.testing.assert_allclose(jtorch.compile(function)(x).numpy(), function(x).numpy(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_the_states_of_a_recurrence_are_not_copied(layer, monkeypatch):
    monkeypatch.setattr(rnn, "EqualSteps", lambda rows, steps: (rows,) * steps)  # no loop in the graph
    jtorch.manual_seed(0)
    net = layer(4, 4, batch_first=True)
    x = floats(3, 6, 4)

    @jtorch.compile
    def step(x):
        net.zero_grad()
        loss = net(x)[0].square().sum()
        loss.backward()
        return loss

    found = step(x)
    plan = step._newest().program.plan
    assert_sound(plan)
    assert len(plan.parts) >= 6  # its states, at least
    gradients = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    loss = net(x)[0].square().sum()
    loss.backward()
    np.testing.assert_allclose(found.item(), loss.item(), rtol=1e-5)
    for p, g in zip(net.parameters(), gradients, strict=True):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-4, atol=1e-5)
