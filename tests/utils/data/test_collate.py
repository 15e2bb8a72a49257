"""Collation and conversion."""

from __future__ import annotations

from collections import OrderedDict, UserList, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

import jtorch
from jtorch.utils.data import default_collate, default_convert

Point = namedtuple("Point", "x y")


def plain(tree):
    if hasattr(tree, "tolist") and hasattr(tree, "is_leaf"):  # a tensor of either library
        return tree.tolist(), str(tree.dtype).split(".")[1]
    if isinstance(tree, (dict, MappingProxyType)):
        return type(tree).__name__, {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple, UserList)):
        return type(tree).__name__, [plain(v) for v in tree]
    return tree


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [1.5, 2.5],
        [True, False],
        [np.float32(1), np.float32(2)],
        [np.ones(2), np.zeros(2)],
        ["a", "b"],
        [(1, 2.0), (3, 4.0)],
        [[1, 2], [3, 4]],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [Point(1, 2), Point(3, 4)],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [MappingProxyType({"a": 1}), MappingProxyType({"a": 2})],
        [UserList([1, 2.0]), UserList([3, 4.0])],
        [range(2), range(2)],
        [b"a", b"b"],
        [np.ones((2, 0)), np.ones((2, 0))],
        [(), ()],
        [{}, {}],
        [np.bool_(True), np.bool_(False)],
    ],
    ids=str,
)
def test_default_collate_equals_pytorch(batch):
    pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    from torch.utils.data import default_collate as theirs

    assert plain(default_collate(batch)) == plain(theirs(batch))


def test_collate_errors():
    with pytest.raises(RuntimeError, match="should be of equal size"):
        default_collate([(1, 2), (3,)])
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        default_collate([jtorch.ones(2), jtorch.ones(3)])


@pytest.mark.parametrize(
    "item",
    [
        np.arange(3),
        np.float32(2),
        np.array(["a"]),
        "text",
        3,
        None,
        {"a": np.ones(2), "b": [np.zeros(1), 1]},
        (np.ones(1), "x"),
        Point(np.ones(1), 2),
        UserList([np.ones(1)]),
    ],
    ids=str,
)
def test_default_convert_equals_pytorch(item):
    pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    from torch.utils.data import default_convert as theirs

    ours = default_convert(item)
    assert repr(plain(ours)) == repr(plain(theirs(item)))
    if isinstance(item, (str, int, type(None))):
        assert ours is item


def test_arrays_of_texts_are_no_batch():
    with pytest.raises(TypeError, match="found <U1"):
        default_collate([np.array(["a"]), np.array(["b"])])
