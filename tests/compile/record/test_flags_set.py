"""``requires_grad`` that a compiled function sets, of tensors that it may use for nothing else."""

from __future__ import annotations

import pytest

import jtorch


def program(f):
    PROGRAMS[f.__name__] = f
    return f


PROGRAMS = {}


@program
def of_a_tensor_that_is_not_used(wrap):
    w = jtorch.nn.Parameter(jtorch.ones(2))
    w.requires_grad_(False)

    @wrap
    def f(x):
        w.requires_grad_(False)
        return x * 2

    for _ in range(4):
        f(jtorch.ones(2))
        yield w.requires_grad
        w.requires_grad_(True)


@program
def in_a_branch(wrap):
    w = jtorch.nn.Parameter(jtorch.ones(2))

    @wrap
    def f(u):
        w.requires_grad = True
        if u:
            w.requires_grad = False

    for u in (True, True, False, True, False, False, True):
        f(u)
        yield w.requires_grad


@program
def of_the_other_network(wrap):
    jtorch.manual_seed(0)
    judge, maker = jtorch.nn.Linear(2, 1), jtorch.nn.Linear(2, 2)

    @wrap
    def step(x, k):
        for p in judge.parameters():
            p.requires_grad = False
        maker.zero_grad()
        maker(x).pow(2).sum().backward()
        for p in judge.parameters():
            p.requires_grad = k % 2 == 0

    for k in (0, 1, 2, 3, 2, 1, 1, 0):
        step(jtorch.ones(1, 2), k)
        yield judge.weight.requires_grad, judge.bias.requires_grad, maker.weight.grad.tolist()


@program
def of_a_module_that_is_frozen_at_the_end(wrap):
    jtorch.manual_seed(0)
    judge, maker = jtorch.nn.Linear(2, 1), jtorch.nn.Linear(2, 2)

    @wrap
    def step(x, freeze):
        judge.requires_grad_(True)
        loss = maker(x).sum()
        if freeze:
            judge.requires_grad_(False)
        return loss

    for freeze in (False, True, True, False, True):
        yield float(step(jtorch.ones(1, 2), freeze)), judge.weight.requires_grad


@program
def of_a_view_taken_inside(wrap):
    w = jtorch.ones(3)

    @wrap
    def f(x):
        w.detach().requires_grad_()
        return x + w

    for _ in range(3):
        yield f(jtorch.ones(3)).requires_grad, w.requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_flags_are_those_of_eager_mode_after_each_call(name):
    expected = [*PROGRAMS[name](lambda f: f)]
    for k, (found, wanted) in enumerate(zip(PROGRAMS[name](jtorch.compile), expected, strict=True)):
        assert found == wanted, k
