"""Where views of no elements begin, and their strides: NumPy does not keep that, and PyTorch shows it, and
counts the offsets of further views from there."""

from __future__ import annotations

import math
from typing import Any

from jtorch.eager.rebase import FromFunction, steps_of
from jtorch.eager.tensor import Tensor


def layout(view: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """(elements from the first one of its base to where ``view`` begins, its strides), by the ops that made
    it; None where these don't tell."""
    steps: list[tuple[Any, dict[str, Any]]] = []
    base = view
    while base._base is not None:
        if base._how is None or base._how.__class__ is FromFunction:
            return None
        base, made = steps_of(base._how)
        steps += reversed(made)
    place, strides, dense = 0, list(base.stride()), base.is_contiguous()
    for op, statics in reversed(steps):
        dense = dense and op.name == "reshape"
        if op.name == "slice":
            place += sum(start * s for start, s in zip(statics["start"], strides, strict=True))
            strides = [s * step for s, step in zip(strides, statics["step"], strict=True)]
        elif op.name == "expand":
            strides = [0] * (len(statics["shape"]) - len(strides)) + strides
        elif op.name == "select":
            place += statics["index"] * strides.pop(statics["axis"])
        elif op.name == "unsqueeze":
            for axis in statics["axes"]:
                strides.insert(axis, 0)
        elif op.name in ("permute", "t", "transpose"):
            strides = [strides[k] for k in statics["axes"]]
        elif dense:
            sizes = [max(n, 1) for n in statics["shape"]]
            strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        else:
            return None
    return place, tuple(strides)
