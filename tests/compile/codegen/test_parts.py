"""Loops that are cut where a choice depends on the position: as many parts, the same values."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.codegen.source import emit
from jtorch.compile.graph.finalise import finalise
from tests.compile.chain import assert_chain, destinations_of, optimised, planned, trace


def numbers(*shape: int) -> jtorch.Tensor:
    return jtorch.from_numpy(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def texts(program, *leaves) -> str:
    made = trace(program, leaves)
    return "\n".join(emit(planned(finalise(optimised(made.graph)), destinations_of(made))).texts())


def joined(*parts):
    return jtorch.cat([part * 2.0 for part in parts], dim=1)


def test_a_loop_is_cut_at_the_joints():
    text = texts(joined, numbers(5, 3), numbers(5, 4), numbers(5, 7))
    assert " if " not in text
    assert text.count("for i1 in range(") - text.count("for i1 in range(n1)") == 3


def test_with_too_many_parts_each_position_chooses():
    assert " if " in texts(joined, *[numbers(5, 3)] * 9)


def test_steps_of_two_are_numbers_of_the_text():
    """LLVM makes vectors of neighbours two apart, but not of those a number of the call apart."""
    image = numbers(2, 3, 8, 10).requires_grad_()
    text = texts(lambda x: jtorch.autograd.grad(F.max_pool2d(x, 2).sum(), x), image)
    assert text.count("i1 * 2]") == text.count("i1 * 2 + 1]") == 4


@pytest.mark.parametrize("pad", [(1, 1), (0, 2), (1, 1, 1, 1)])
def test_padding_is_not_cut(pad):
    text = texts(lambda x: F.pad(x * 2.0, pad), numbers(3, 4, 5))
    assert "min(max(" not in text


def test_long_bodies_are_not_cut():
    def program(x, y):
        z = jtorch.cat([x, y], 1)
        for _ in range(3):
            z = jtorch.tanh(z).exp()
        return z

    assert "min(max(" not in texts(program, numbers(5, 3), numbers(5, 4))


def test_where_it_is_cut_is_no_part_of_the_text():
    assert texts(joined, numbers(5, 3), numbers(5, 4)) == texts(joined, numbers(2, 8), numbers(2, 2))


WIDTHS = [(3,), (1, 1), (0, 4), (4, 0), (0, 0, 1), (5, 1, 17, 33), (2,) * 8, (3,) * 9]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 6])
def test_joined_along_the_last_axis(rows, widths):
    assert_chain(joined, [numbers(rows, width) for width in widths])


@pytest.mark.parametrize("pad", [(1, 2), (0, 3), (2, 0), (-1, 2), (2, -1), (-1, -1), (-3, -2), (4, 4, 1, 1)])
@pytest.mark.parametrize("width", [5, 16, 40])
def test_padded(width, pad):
    assert_chain(lambda x: F.pad(x * 2.0, pad) + 1.0, [numbers(3, width)])


PROGRAMS = {
    "joined and joined again": lambda x, y: jtorch.cat([jtorch.cat([x, y], 1).exp(), x], 1) * 2.0,
    "joined, with choices inside": lambda x, y: jtorch.cat([F.pad(x, (1, 1)), F.pad(y, (2, 0))], 1).abs(),
    "sum of two that are cut elsewhere": lambda x, y: jtorch.cat([x, y, x], 1) + jtorch.cat([y, x, x], 1),
    "halves turned": lambda x, y: jtorch.cat([-x[:, 2:], x[:, :2]], 1) * x,
    "one axis": lambda x, y: jtorch.cat([x.reshape(-1), y.reshape(-1)]) * 2.0,
    "turned round": lambda x, y: jtorch.cat([x, y], 1).flip(1) * 2.0,
    "transposed": lambda x, y: jtorch.cat([x, y], 1).t() + 1.0,
    "a part of it": lambda x, y: jtorch.cat([x, y], 1)[:, 1:-1] * 3.0,
    "every second": lambda x, y: jtorch.cat([x, y], 1)[:, ::2] * 3.0,
    "along the rows": lambda x, y: (jtorch.cat([x, x]) + 1.0).exp(),
    "rolled": lambda x, y: x.roll(1, 1) + jtorch.cat([y, x], 1)[:, :4],
    "stacked last": lambda x, y: jtorch.stack([x, x + 1.0, x * 2.0], -1) * 0.5,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert_chain(PROGRAMS[name], [numbers(6, 4), numbers(6, 3)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name):
    def program(x, y):
        return jtorch.autograd.grad((PROGRAMS[name](x, y) ** 2).sum(), [x, y], allow_unused=True)[0]

    assert_chain(program, [numbers(6, 4).requires_grad_(), numbers(6, 3).requires_grad_()])


def test_large_enough_to_be_cut_for_threads():
    def flat(x, y):
        return jtorch.cat([x.abs(), y]) * 2.0

    def rows(x, y):
        return jtorch.cat([x.abs(), y], 1) * 2.0

    for program, shapes in ((flat, ((300_000,), (200_001,))), (rows, ((3000, 100), (3000, 37)))):
        leaves = [numbers(*shape) for shape in shapes]
        assert jtorch.equal(jtorch.compile(program)(*leaves), program(*leaves))
