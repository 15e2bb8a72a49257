"""Functions that copy what views show."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.compat.copies import UNSAFE, VIEWS

ARGUMENTS = {
    "alias_copy": (), "as_strided_copy": ((2, 2), (1, 4)), "detach_copy": (), "diagonal_copy": (),
    "expand_copy": ((2, 3, 4),), "narrow_copy": (0, 1, 2), "permute_copy": ((1, 0),), "select_copy": (0, 1),
    "split_copy": (2,), "split_with_sizes_copy": ((1, 2),), "squeeze_copy": (), "t_copy": (),
    "transpose_copy": (0, 1), "unbind_copy": (), "unfold_copy": (1, 2, 1), "unsqueeze_copy": (0,),
    "view_copy": ((4, 3),),
}  # fmt: skip


def values(library, name):
    x = library.arange(12.0).reshape(3, 4)
    found = getattr(library, name)(x, *ARGUMENTS[name])
    parts = [found] if isinstance(found, library.Tensor) else list(found)
    told = [(tuple(t.shape), t.tolist()) for t in parts]
    x.zero_()
    return told, [(tuple(t.shape), t.tolist()) for t in parts]


@pytest.mark.parametrize("name", VIEWS)
def test_copies(name):
    before, after = values(jtorch, name)
    assert before == after  # memory of their own
    torch = pytest.importorskip("torch")
    assert before == values(torch, name)[0]


def unsafe_parts(library, name, compiled=False):
    """What writes to the parts, and to what they are parts of, show in each other, and do to the tape."""
    x = library.ones(4, requires_grad=True)

    def write(x):
        whole = x * 1
        first, second = getattr(library, name)(whole, (2, 2) if name.endswith("sizes") else 2)
        first.mul_(3)
        with library.no_grad():
            whole[3] = 7.0
        return whole, first, second

    whole, first, second = (jtorch.compile(write) if compiled else write)(x)
    versions = [t._version for t in (whole, first, second)]
    (whole * 2 + 0).sum().backward(retain_graph=True)
    (first.sum() + second.sum()).backward()
    return whole.tolist(), first.tolist(), second.tolist(), versions, x.grad.tolist()


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_parts_share_memory_and_are_no_views(name):
    expected = ([3.0, 3.0, 1.0, 7.0], [3.0, 3.0], [1.0, 7.0], [1, 1, 0], [5.0, 5.0, 3.0, 3.0])
    assert unsafe_parts(jtorch, name) == expected
    assert unsafe_parts(jtorch, name, compiled=True) == expected
    assert unsafe_parts(pytest.importorskip("torch"), name) == expected


@pytest.mark.parametrize("size", [(3, 4), (1, 4), (4,), (1, 1), (), (3, 1)], ids=str)
def test_sum_to_size(size):
    x = jtorch.arange(24.0).reshape(2, 3, 4)
    torch = pytest.importorskip("torch")
    wanted = torch.arange(24.0).reshape(2, 3, 4).sum_to_size(size)
    found = x.sum_to_size(size=size)
    assert (tuple(found.shape), found.tolist()) == (tuple(wanted.shape), wanted.tolist())
    with pytest.raises(RuntimeError, match="not expandable"):
        x.sum_to_size(2, 4)


def _dtypes_of_sums_to_sizes(library):
    flags = library.ones(3, dtype=library.bool), library.ones((), dtype=library.int32)
    return [str(x.sum_to_size(()).dtype).partition(".")[2] for x in (*flags, flags[0][0])]


def test_sum_to_size_without_dims_is_a_sum():
    assert _dtypes_of_sums_to_sizes(jtorch) == ["int64"] * 3
    assert _dtypes_of_sums_to_sizes(pytest.importorskip("torch")) == ["int64"] * 3


def _parts_of_complex_numbers(library):
    x = library.tensor([[1 + 2j, 3 - 1j]])
    pairs = library.view_as_real_copy(x)
    back = library.view_as_complex_copy(pairs)
    assert x.conj_physical_() is x
    return [pairs.tolist(), back.tolist(), x.tolist(), library.conj_physical_(back).tolist()]


def test_parts_of_complex_numbers():
    assert _parts_of_complex_numbers(jtorch) == [
        [[[1.0, 2.0], [3.0, -1.0]]], [[1 + 2j, 3 - 1j]], [[1 - 2j, 3 + 1j]], [[1 - 2j, 3 + 1j]],
    ]  # fmt: skip
    torch = pytest.importorskip("torch")
    assert _parts_of_complex_numbers(jtorch) == _parts_of_complex_numbers(torch)


def test_a_real_tensor_is_its_own_conjugate():
    x = jtorch.tensor([1.0, 2.0])
    assert x.conj_physical_() is x
    assert jtorch.compile(lambda x: (x * 2).conj_physical_())(x).tolist() == [2.0, 4.0]


def test_slices():
    x = jtorch.arange(12).reshape(3, 4)
    assert jtorch.slice_copy(x, -1, 1).tolist() == x[:, 1:].tolist()
    assert jtorch.slice_copy(x).tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="slice step must be positive"):
        jtorch.slice_copy(x, 0, step=0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        jtorch.slice_copy(x, 2)
