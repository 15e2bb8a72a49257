"""Samples: views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ops.sampling import Draw, Sample, entry


def _views(*cases: tuple[tuple[int, ...], dict[str, Any]]) -> Callable[[Draw], list[Sample]]:
    return lambda draw: [Sample((draw.apart(*shape),), statics) for shape, statics in cases]


entry("reshape")(_views(
    ((3, 4), {"shape": (2, 6)}), ((3, 4), {"shape": (12,)}), ((1,), {"shape": ()}),
    ((0, 3), {"shape": (3, 0)}), ((2, 3, 4), {"shape": (6, 1, 4)}),
))  # fmt: skip
entry("unsqueeze")(_views(((3, 4), {"axes": (1,)}), ((), {"axes": (0,)}), ((3,), {"axes": (0, 2)})))
entry("squeeze")(_views(((3, 1, 4), {"axes": (1,)}), ((1, 2, 1), {"axes": (0, 2)}), ((2,), {"axes": ()})))
entry("permute")(_views(((2, 3, 4), {"axes": (2, 0, 1)}), ((2, 3), {"axes": (1, 0)}), ((), {"axes": ()})))
entry("t")(_views(((2, 3), {"axes": (1, 0)}), ((3,), {"axes": (0,)})))
entry("transpose")(_views(((2, 3, 4), {"axes": (2, 1, 0)}), ((2, 3), {"axes": (1, 0)})))
entry("flip")(_views(((2, 3), {"axes": (0,)}), ((2, 3, 4), {"axes": (0, 2)}), ((3,), {"axes": ()})))
entry("expand")(_views(
    ((3, 1), {"shape": (3, 4)}), ((4,), {"shape": (2, 3, 4)}), ((), {"shape": (2, 2)}),
    ((1,), {"shape": (0,)}),
))  # fmt: skip
entry("slice")(_views(
    ((5, 6), {"start": (1, 0), "stop": (4, 6), "step": (1, 2)}),
    ((5, 6), {"start": (2, 1), "stop": (2, 5), "step": (1, 3)}),
    ((7,), {"start": (1,), "stop": (7,), "step": (3,)}),
))  # fmt: skip
entry("select")(_views(((3, 4), {"axis": 0, "index": 2}), ((2, 3, 4), {"axis": 1, "index": 0})))
entry("windows")(_views(
    ((2, 5, 6), {"kernel": (3, 2), "stride": (1, 2), "dilation": (1, 1)}),
    ((2, 3, 6, 6), {"kernel": (2, 2), "stride": (2, 2), "dilation": (2, 1)}),
    ((7,), {"kernel": (3,), "stride": (2,), "dilation": (1,)}),
))  # fmt: skip
entry("pad")(_views(
    ((2, 3), {"low": (1, 0), "high": (0, 2), "interior": (0, 0)}),
    ((3, 2), {"low": (0, 1), "high": (1, 1), "interior": (2, 0)}),
    ((0, 2), {"low": (1, 0), "high": (1, 0), "interior": (0, 0)}),
))  # fmt: skip


@entry("slice_put")
def _(draw):
    where = {"start": (1, 0), "stop": (4, 6), "step": (1, 2)}
    whole = {"start": (0, 0), "stop": (2, 3), "step": (1, 1)}
    return [
        Sample((draw.apart(5, 6), draw.apart(3, 3)), where),
        Sample((draw.apart(2, 3), draw.apart(2, 3)), whole),
        Sample((draw.apart(4), draw.apart(0)), {"start": (2,), "stop": (2,), "step": (1,)}),
    ]


@entry("cat")
def _(draw):
    return [
        Sample((draw.apart(2, 3), draw.apart(4, 3)), {"axis": 0}),
        Sample((draw.apart(2, 1), draw.apart(2, 3), draw.apart(2, 0)), {"axis": 1}),
        Sample((draw.apart(3),), {"axis": 0}),
    ]


@entry("weave")
def _(draw):
    return [
        Sample(tuple(draw.apart(2, 3, 2) for _ in range(6)), {"kernel": (2, 3)}),
        Sample((draw.apart(3, 4), draw.apart(3, 4)), {"kernel": (2,)}),
        Sample(tuple(draw.apart(2, 0, 2) for _ in range(4)), {"kernel": (4, 1)}),
    ]


@entry("tril")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"diagonal": 0}),
        Sample((draw.apart(2, 4, 3),), {"diagonal": -1}),
        Sample((draw.ints(3, 3, low=0, high=9),), {"diagonal": 1}),
    ]


@entry("triu")
def _(draw):
    return [Sample((draw.apart(3, 4),), {"diagonal": 1}), Sample((draw.apart(2, 2, 3),), {"diagonal": -2})]
