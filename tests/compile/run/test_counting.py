"""How many elements masks name where a plan has no instance for what it expected."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run import counting


def split(x, weight, bound):
    """Two masks, the second of which rests on what the first one took."""
    inside = x.abs() < bound
    taken = (x[inside] * weight).tanh()
    large = taken > 0.2
    return taken[large].square().sum() + taken.sum() - x[~inside].sum()


def example(n, first):
    values = jtorch.linspace(-3, 3, n)
    values[:first] = 0.9
    return values


@pytest.mark.parametrize("bound", [0.5, 1.0, 2.5])
@pytest.mark.parametrize(("n", "first"), [(12, 0), (12, 1), (33, 5)])
def test_numbers_are_those_of_eager_mode(n, first, bound):
    x, weight = example(n, first), jtorch.tensor(0.7)
    compiled = jtorch.compile(split, fullgraph=True)
    compiled(example(n, 3), weight, 1.5)
    plan = next(iter(compiled.plans.values()))[0]
    space = plan._space(plan.capture.sizing, [x, weight, bound])
    inside = x.abs() < bound
    large = (x[inside] * weight).tanh() > 0.2
    assert [space[name] for name in plan.capture.sizing.counts] == [
        inside.sum().item(), large.sum().item(), (~inside).sum().item()
    ]  # fmt: skip


def test_what_masks_do_not_rest_on_is_not_computed(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = jtorch.optim.Adam(model.parameters())

    @jtorch.compile
    def step(x, bound):
        optimizer.zero_grad()
        loss = split(model(x), model[0].bias[0], bound) + x.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = jtorch.linspace(-1, 1, 48).reshape(12, 4)
    step(x, 0.3), step(x, 0.2)
    computed = []

    def noted(eqn, values, compute=counting.compute):
        computed.append(eqn.op.name)
        return compute(eqn, values)

    monkeypatch.setattr(counting, "compute", noted)
    step(x, 10.0)  # nothing is outside: no plan has that number
    plan = next(iter(step.plans.values()))[0]
    assert computed
    assert "square" not in computed
    assert len(computed) < len(plan.forward.eqns) / 2


def test_where_several_numbers_are_others_a_call_begins_again_once():
    def shares(x, weight):
        scores = (x.cumsum(0) * weight).sin()  # more than is looked up before a call
        return sum(
            scores[(scores > low) & (scores < low + 0.5)].square().sum() for low in (-1.0, -0.5, 0.0, 0.5)
        )

    compiled, weight = jtorch.compile(shares, fullgraph=True), jtorch.tensor(0.9)
    calls = [jtorch.linspace(0, 1 + k / 4, 40) for k in range(6)]
    compiled(calls[0], weight), compiled(calls[1], weight)
    plan = next(iter(compiled.plans.values()))[0]
    made = []
    for x in calls[2:]:
        before = {*plan.runner.found}
        assert jtorch.allclose(compiled(x, weight), shares(x, weight))
        made.append(len({*plan.runner.found} - before))
    assert max(made) == 1
    assert sum(made) > 1
    assert sum(map(len, compiled.plans.values())) == 1
