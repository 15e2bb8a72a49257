"""500 random functions under ``vmap`` against loops over their examples; every tenth is compiled, too."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch import func
from tests.each import each
from tests.func.programs import Inputs, function, gradients, looped, mapped

SEEDS = 500


def _compare(want, have):
    for w, h in zip(want, have, strict=True):
        assert h.shape == w.shape and h.dtype == w.dtype
        np.testing.assert_allclose(h.detach().numpy(), w.detach().numpy(), rtol=1e-7, atol=1e-8)


def _of_loops(program, inputs, twice=False):
    tensors = inputs.tensors()
    outs = looped(program, inputs.dims, tensors)
    return [*outs, *gradients(outs, tensors, twice)]


@pytest.mark.slow
@each("seed", range(SEEDS))
def test_values_and_two_gradients(seed):
    program, inputs = function(seed), Inputs(seed)
    for twice in (False, True):
        tensors = inputs.tensors()
        outs = mapped(program, inputs.dims, tensors)
        _compare(_of_loops(program, inputs, twice), [*outs, *gradients(outs, tensors, twice)])


@each("seed", range(0, SEEDS, 4))
def test_gradients_inside(seed):
    program, inputs = function(seed), Inputs(seed)

    def inside(*args):
        return func.grad(lambda *a: sum((o * o).sum() for o in program(*a)), argnums=(0, 1, 2, 3))(*args)

    tensors = inputs.tensors()
    outs = mapped(inside, inputs.dims, tensors)
    _compare(_of_loops(inside, inputs), [*outs, *gradients(outs, tensors, False)])


@each("seed", range(1, SEEDS, 4))
def test_a_batch_of_batches(seed):
    program, inputs = function(seed), Inputs(seed)

    def several(args):
        return [jtorch.stack([t, t * 0.9]) for t in args]

    def in_batch(*args):
        x, v, _, u = several(args)
        return func.vmap(program, in_dims=(0, 0, None, 0))(x, v, args[2], u)

    def one_by_one(*args):
        x, v, _, u = several(args)
        rows = [program(x[k], v[k], args[2], u[k]) for k in range(2)]
        return tuple(jtorch.stack(list(column)) for column in zip(*rows, strict=True))

    tensors = inputs.tensors()
    outs = mapped(in_batch, inputs.dims, tensors)
    _compare(_of_loops(one_by_one, inputs), [*outs, *gradients(outs, tensors, False)])


@each("seed", range(2, SEEDS, 4))
def test_jacobians_inside(seed):
    program, inputs = function(seed), Inputs(seed)

    def inside(*args):
        rows = func.jacrev(lambda x: program(x, *args[1:])[0].reshape(-1)[:3])(args[0])
        return rows, func.jacfwd(lambda v: program(args[0], v, *args[2:])[0].reshape(-1)[:5])(args[1])

    tensors = inputs.tensors()
    outs = mapped(inside, inputs.dims, tensors)
    _compare(_of_loops(inside, inputs), [*outs, *gradients(outs, tensors, False)])


@pytest.mark.slow
@each("seed", range(0, SEEDS, 10), parts=2)
def test_compiled_with_its_gradient(seed):
    program, inputs = function(seed), Inputs(seed)

    @jtorch.compile
    def whole(*tensors):
        outs = mapped(program, inputs.dims, list(tensors))
        return outs, gradients(outs, list(tensors), False)

    outs, grads = whole(*inputs.tensors())
    _compare(_of_loops(program, inputs), [*outs, *grads])


@pytest.mark.slow
@each("seed", range(0, SEEDS, 20))
def test_compiled_under_a_gradient_outside(seed):
    program, inputs = function(seed), Inputs(seed)
    tensors = inputs.tensors()
    outs = jtorch.compile(lambda *args: mapped(program, inputs.dims, list(args)))(*tensors)
    _compare(_of_loops(program, inputs), [*outs, *gradients(outs, tensors, False)])
