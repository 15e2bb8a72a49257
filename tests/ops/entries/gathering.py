"""Samples: indexing and scatter."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("index")
def _(draw):
    rows, columns = draw.ints(4, low=0, high=5), draw.ints(4, low=0, high=3)
    return [
        Sample((draw.apart(5, 3), rows), {"axes": (0,)}),
        Sample((draw.apart(5, 3), rows, columns), {"axes": (0, 1)}),
        Sample((draw.apart(2, 5, 3), draw.ints(2, 2, low=0, high=5)), {"axes": (1,)}),
        Sample((draw.apart(5, 3), np.zeros((0,), np.int64)), {"axes": (0,)}),
    ]


@entry("index_add")
def _(draw):
    rows, columns = np.array([0, 2, 2, 4]), np.array([1, 0, 0, 2])
    return [
        Sample((draw.apart(4, 3), rows), {"axes": (0,), "shape": (5, 3)}),
        Sample((draw.apart(4), rows, columns), {"axes": (0, 1), "shape": (5, 3)}),
        Sample((draw.apart(2, 4, 3), rows), {"axes": (1,), "shape": (2, 5, 3)}),
        Sample((draw.apart(0, 3), np.zeros((0,), np.int64)), {"axes": (0,), "shape": (5, 3)}),
    ]


@entry("index_put")
def _(draw):
    rows, columns = np.array([0, 2, 3]), np.array([1, 0, 2])
    return [
        Sample((draw.apart(5, 3), draw.apart(3, 3), rows), {"axes": (0,)}),
        Sample((draw.apart(5, 3), draw.apart(3), rows, columns), {"axes": (0, 1)}),
        Sample((draw.apart(2, 5), draw.apart(2, 3), rows), {"axes": (1,)}),
    ]


@entry("mask_put")
def _(draw):
    return [
        Sample((draw.apart(5, 3), draw.apart(5, 3), draw.ints(5, 3, low=0, high=2).astype(bool))),
        Sample((draw.apart(4), draw.apart(4), np.zeros(4, bool))),
        Sample((draw.apart(0, 3), draw.apart(0, 3), np.zeros((0, 3), bool))),
    ]


@entry("fold")
def _(draw):
    return [
        Sample((draw.apart(2, 3, 3, 3, 2),),
               {"shape": (2, 5, 6), "kernel": (3, 2), "stride": (1, 2), "dilation": (1, 1)}),
        Sample((draw.apart(1, 2, 2, 2, 2),),
               {"shape": (1, 4, 4), "kernel": (2, 2), "stride": (2, 2), "dilation": (1, 1)}),
        Sample((draw.apart(3, 3),), {"shape": (7,), "kernel": (3,), "stride": (2,), "dilation": (1,)}),
    ]  # fmt: skip


@entry("sort_order")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"axis": 1, "descending": False}),
        Sample((draw.ints(6, low=0, high=3),), {"axis": 0, "descending": False}),
        Sample((draw.ints(2, 6, low=0, high=3),), {"axis": 0, "descending": True}),
    ]


@entry("top_order")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"axis": 1, "k": 2, "largest": True}),
        Sample((draw.ints(6, low=0, high=3),), {"axis": 0, "k": 6, "largest": False}),
    ]


@entry("top")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"axis": 1, "k": 2, "largest": True}),
        Sample((draw.apart(6, 7),), {"axis": 0, "k": 3, "largest": False}),
        Sample((draw.ints(6, low=0, high=3),), {"axis": 0, "k": 6, "largest": False}),
    ]


@entry("one_hot")
def _(draw):
    return [
        Sample((draw.ints(6, low=0, high=3),), {"classes": 3}),
        Sample((draw.ints(2, 3, low=0, high=3),), {"classes": 5}),
    ]


@entry("median_place")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"axis": 1, "of_numbers": False}),
        Sample((draw.ints(6, low=0, high=3),), {"axis": 0, "of_numbers": True}),
    ]
