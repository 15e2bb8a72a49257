"""Writes through views of views whose elements share places in memory."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.core.errors import CompileError
from jtorch.core.strides import is_crowded


def a_window_of_windows(b):
    v = jtorch.as_strided(b, (3, 2), (1, 1))
    v[1] += 10
    return b * 1


def two_windows(b):
    v = b.as_strided((2, 4), (2, 1))
    v[0].mul_(3)
    v[1, 1:] = 7.0
    return v * 1, b * 1


def rows_of_windows_of_a_permuted_tensor(b):
    v = b.view(2, 3).t().reshape(-1).as_strided((3, 2), (1, 1))
    v[2] = -1.0
    return v * 1, b * 1


def a_row_of_an_expanded_tensor(b):
    v = b[:2].expand(3, 2)
    v[1].add_(1)
    return b * 1, v * 1


def a_column_of_a_row_expanded(b):
    v = b.view(2, 3)[1].expand(4, 3)
    v[0][1:] = jtorch.ones(2) * b[0]
    return b * 1


def the_other_way(b):
    v = b.flip(0).as_strided((2, 2), (1, 1))
    v[1] += 1
    return v * 1, b * 1


def with_gradients(b):
    w = (b * 2).requires_grad_()
    y = w * 3
    v = y.as_strided((3, 2), (1, 1))
    v[1] *= 2
    (y * y).sum().backward()
    return w.grad, y.detach() * 1


def test_what_shares_places_is_written_where_it_lies(unjitted):
    for function in (
        a_window_of_windows, two_windows, rows_of_windows_of_a_permuted_tensor, a_row_of_an_expanded_tensor,
        a_column_of_a_row_expanded, the_other_way, with_gradients,
    ):  # fmt: skip
        compiled = jtorch.compile(function)
        for k in range(2):
            wanted, found = (jtorch.arange(6.0) + k for _ in range(2))
            expected, got = function(wanted), compiled(found)
            assert repr(got) == repr(expected), function.__name__
            assert found.tolist() == wanted.tolist(), function.__name__


def test_arguments_whose_elements_share_places_are_not_changed():
    @jtorch.compile
    def scaled(w):
        w[1].mul_(10)
        return w.sum()

    memory = jtorch.arange(4.0)
    said = r"test_view_chains.py:\d+ in scaled: 'scaled' changes a tensor in place of which several elements"
    for w in (memory.as_strided((2, 3), (1, 1)), memory[:3].expand(2, 3)):
        with pytest.raises(CompileError, match=said):
            scaled(w)
    assert memory.tolist() == [0, 1, 2, 3]
    assert jtorch.compile(lambda w: w.sum())(memory.as_strided((2, 3), (1, 1))).item() == 9.0


EMPTY = [lambda x: x.expand(0, 3, 3), lambda x: x.expand(3, 0, 1, 1), lambda x: x.expand(0, 3).t()]
WRITES = {
    "add_": lambda b: b.add_(1),
    "fill_": lambda b: b.fill_(2),
    "copy_": lambda b: b.copy_(jtorch.ones(())),
    "number": lambda b: b.__setitem__((..., slice(0, 1)), 1),
    "index_fill_": lambda b: b.index_fill_(0, jtorch.tensor([], dtype=jtorch.int64), 1.0),
}


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("view", EMPTY)
def test_expanded_views_without_elements_are_written(view, graph):
    """Nothing is, and nothing refuses it: no two of no elements lie at one place."""

    for name, write in WRITES.items():

        def written(x, write=write):
            y = x * 2
            write(view(y))
            return y

        for f in (written, jtorch.compile(written)):
            x = jtorch.ones(1, 1, requires_grad=graph)
            y = f(x)
            assert y.tolist() == [[2.0]], name
            if graph:
                y.backward()
                assert x.grad.tolist() == [[2.0]], name


def test_which_layouts_are_crowded():
    crowded = (((3, 2), (1, 1)), ((2, 3), (0, 1)), ((2, 2), (2, 2)))
    apart = (((3, 2), (2, 1)), ((2, 3), (1, 2)), ((4,), (-1,)), ((1, 3), (0, 1)), ((0, 5), (0, 0)), ((), ()))
    assert all(is_crowded(*layout) for layout in crowded)
    assert not any(is_crowded(*layout) for layout in apart)


WHOLE = jtorch.arange(8.0)
STRIDED, PART = WHOLE[::2], WHOLE[2:]


def test_strides_of_a_view():
    programs = [
        (lambda x: x[1:].as_strided((2,), (1,)) + 1, [3.0, 4.0]),
        (lambda x: (x * 2)[1:].as_strided((2,), (2,)), [4.0, 8.0]),
        (lambda x: x.view(2, 2)[1].as_strided((2,), (1,)), [3.0, 4.0]),
        (lambda x: STRIDED[1:].as_strided((2,), (1,)) + 1, [3.0, 4.0]),
        (lambda x: PART.as_strided((2,), (3,)), [2.0, 5.0]),
        (lambda x: WHOLE[1:4].as_strided((2,), (2,)).mul_(x[:2]).clone(), [1.0, 6.0]),
    ]
    for program, right in programs:
        for step in (program, jtorch.compile(program)):
            for _ in range(3):
                with jtorch.no_grad():
                    WHOLE.copy_(jtorch.arange(8.0))
                assert step(jtorch.arange(1.0, 5.0)).tolist() == right


def test_strides_of_a_part_that_is_passed():
    f = jtorch.compile(lambda x: x.as_strided((2,), (1,)) + 1)
    assert f(jtorch.arange(4.0)).tolist() == [1.0, 2.0]
    with pytest.raises(CompileError, match=r"test_view_chains.*as_strided\(\) of a part of another tensor"):
        f(WHOLE[2:6])
