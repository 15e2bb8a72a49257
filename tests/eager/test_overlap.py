"""In-place ops on memory that is written in several places at once, or read while it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import jtorch

WITHIN, BETWEEN = "more than one element of the written-to tensor", "some elements of the input tensor"


def _assign(y: jtorch.Tensor) -> None:
    y[1:] = y[:-1]


def _assign_expanded(y: jtorch.Tensor) -> None:
    y.expand(2, 5)[:] = jtorch.ones(5)


REFUSED: dict[str, tuple[Callable, str]] = {
    "assigned": (_assign, BETWEEN),
    "copied": (lambda y: y[1:].copy_(y[:-1]), BETWEEN),
    "added": (lambda y: y[1:].add_(y[:-1]), BETWEEN),
    "added by keyword": (lambda y: y[1:].add_(other=y[:-1]), BETWEEN),
    "one of its own elements": (lambda y: y.div_(y[0]), BETWEEN),
    "three operands": (lambda y: y[1:].addcmul_(y[:-1], y[:-1]), BETWEEN),
    "indexed": (lambda y: y.index_copy_(0, jtorch.tensor([1, 2]), y[:2]), BETWEEN),
    "transposed": (lambda y: y[:4].view(2, 2).add_(y[:4].view(2, 2).t()), BETWEEN),
    "expanded": (lambda y: y.expand(2, 5).add_(1), WITHIN),
    "windows": (lambda y: y.unfold(0, 2, 1).add_(1), WITHIN),
    "windows filled": (lambda y: y.unfold(0, 2, 1).zero_(), WITHIN),
    "windows assigned": (lambda y: y.unfold(0, 2, 1).__setitem__(slice(2), 1), WITHIN),
    "windows drawn": (lambda y: y.unfold(0, 2, 1).uniform_(), WITHIN),
    "windows out": (lambda y: jtorch.add(jtorch.ones(4, 2), 1, out=y.unfold(0, 2, 1)), WITHIN),
    "windows of every other": (lambda y: y[::2].unfold(0, 2, 1).add_(1), WITHIN),
    "strided": (lambda y: y.as_strided((2, 4), (1, 1)).mul_(2), WITHIN),
    "rows of what is strided": (lambda y: y.as_strided((3, 3), (1, 1))[1:].add_(jtorch.ones(2, 3)), WITHIN),
    "strided and turned": (lambda y: y.as_strided((2, 4), (1, 1)).t().exp_(), WITHIN),
    "expanded and assigned": (_assign_expanded, WITHIN),
    "expanded and drawn": (lambda y: y.expand(2, 5).normal_(), WITHIN),
    "expanded out": (lambda y: jtorch.add(jtorch.ones(2, 5), 1, out=y.expand(2, 5)), WITHIN),
    "out": (lambda y: jtorch.exp(y[:2], out=y[1:3]), BETWEEN),
    "out of a sum": (lambda y: jtorch.sub(y[:2], 1, out=y[1:3]), BETWEEN),
    "out of three operands": (lambda y: jtorch.addcmul(y[:2], y[:2], y[:2], out=y[1:3]), BETWEEN),
    "out of a list": (lambda y: jtorch.cat([y[:1], y[1:2]], out=y[1:3]), BETWEEN),
    "out turned": (lambda y: jtorch.sub(y[:4].view(2, 2).t(), 1, out=y[:4].view(2, 2)), BETWEEN),
    "expanded and masked": (lambda y: y.expand(2, 5).masked_fill_(jtorch.eye(2, 5) > 0, 1), WITHIN),
}
ALLOWED: dict[str, tuple[Callable, list]] = {
    "itself": (lambda y: y.add_(y), [0, 2, 4, 6, 8]),
    "the same places": (lambda y: y.view(5, 1).add_(y.view(5, 1)), [0, 2, 4, 6, 8]),
    "apart": (lambda y: y[:2].copy_(y[3:]), [3, 4, 2, 3, 4]),
    "interleaved": (lambda y: y[:4:2].add_(y[1:5:2]), [1, 1, 5, 3, 4]),
    "filled": (lambda y: y.expand(2, 5).fill_(7), [7] * 5),
    "a number of its own": (lambda y: y.__setitem__(slice(None), y[1]), [1] * 5),
    "a number of its own where a mask holds": (lambda y: y.__setitem__(y > 2, y[1]), [0, 1, 2, 1, 1]),
    "a number of its own where no mask holds": (
        lambda y: y.__setitem__(y > 9, y.view(5, 1)[1]),
        [0, 1, 2, 3, 4],
    ),
    "a row that a tensor names": (
        lambda y: y[:4].view(2, 2).__setitem__(jtorch.tensor(0), y[2:4]),
        [2, 3, 2, 3, 4],
    ),
    "an element that tensors name": (
        lambda y: y[:4].view(2, 2).__setitem__((jtorch.tensor(1), jtorch.tensor(0)), y[1]),
        [0, 1, 1, 3, 4],
    ),
    "a masked number of its own": (lambda y: y.masked_fill_(y > 2, y[1]), [0, 1, 2, 1, 1]),
    "a window": (lambda y: y.unfold(0, 2, 1)[1].add_(10), [0, 11, 12, 3, 4]),
    "a window assigned": (lambda y: y.unfold(0, 2, 1).__setitem__(0, 7), [7, 7, 2, 3, 4]),
    "a column of windows": (lambda y: y[1:].unfold(0, 2, 1)[:, 1].mul_(2), [0, 1, 4, 6, 8]),
    "windows of every other one": (lambda y: y.unfold(0, 2, 1)[::2].zero_(), [0, 0, 0, 0, 4]),
    "strided apart": (lambda y: y.as_strided((2, 2), (1, 3)).mul_(2), [0, 2, 2, 6, 8]),
    "strided crosswise": (lambda y: y.as_strided((2, 2), (2, 1)).mul_(2), [0, 2, 4, 6, 4]),
    "a row of what is strided": (lambda y: y.as_strided((2, 4), (1, 1))[1].mul_(2), [0, 2, 4, 6, 8]),
    "expanded by nothing": (lambda y: y[:4].view(2, 2).t().expand(2, 2).sub_(1), [-1, 0, 1, 2, 4]),
    "every other expanded by nothing": (lambda y: y[::2].expand(3).sub_(1), [-1, 1, 1, 3, 3]),
    "one row of an expanded one": (lambda y: y.expand(2, 5)[0].add_(1), [1, 2, 3, 4, 5]),
    "out itself": (lambda y: jtorch.sub(y, 1, out=y), [-1, 0, 1, 2, 3]),
    "out of a total": (lambda y: jtorch.sum(y, 0, out=y[0]), [10, 1, 2, 3, 4]),
    "out interleaved": (lambda y: jtorch.neg(y[:4:2], out=y[1:5:2]), [0, 0, 2, -2, 4]),
    "a clone": (lambda y: y[1:].copy_(y[:-1].clone()), [0, 0, 1, 2, 3]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_a_result_that_depends_on_the_order_of_writing_is_refused(
    name: str, inside: bool, compiled: bool
) -> None:
    write, sentence = REFUSED[name]

    def program(x: jtorch.Tensor) -> jtorch.Tensor:
        y = x * 1 if inside else x
        write(y)
        return y

    x = jtorch.arange(5.0)
    with pytest.raises(RuntimeError, match=sentence):
        (jtorch.compile(program) if compiled else program)(x)
    assert x.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ALLOWED)
def test_other_writes_into_shared_memory_go_on(name: str) -> None:
    write, expected = ALLOWED[name]
    for compiled in (False, True):
        if compiled and name == "filled":  # compiled code refuses all writes to expanded ones
            continue
        y = jtorch.arange(5.0)
        (jtorch.compile(write) if compiled else write)(y)
        assert y.tolist() == expected, f"compiled: {compiled}"


def test_out_may_be_a_leaf_where_nothing_is_recorded() -> None:
    leaf = jtorch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        jtorch.sub(jtorch.ones(3), 1, out=leaf)
    with jtorch.no_grad():
        jtorch.sub(leaf, 1, out=leaf)
    assert leaf.tolist() == [0, 0, 0]
    assert leaf.requires_grad
    assert leaf.is_leaf
