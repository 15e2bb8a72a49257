"""Samples: normalisation, probabilities and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("softmax", "log_softmax")
def _(draw):
    cases = [((3, 4), (1,)), ((3, 4), (0,)), ((2, 3, 4), (1,)), ((5,), (0,))]
    return [Sample((draw.floats(*s),), {"axis": a}) for s, a in cases]


@entry("layer_norm")
def _(draw):
    return [
        Sample((draw.floats(3, 4), draw.floats(4), draw.floats(4)), {"axes": (1,), "eps": 1e-5}),
        Sample((draw.floats(2, 3, 4), draw.floats(3, 4), None), {"axes": (1, 2), "eps": 1e-3}),
        Sample((draw.floats(3, 4), None, None), {"axes": (1,), "eps": 1e-5}),
    ]


@entry("cross_entropy", "nll_loss")
def _(draw):
    found = []
    for reduction in ("mean", "sum", "none"):
        target = draw.ints(5, low=0, high=4)
        statics = {"reduction": reduction, "ignore_index": -100}
        found.append(Sample((draw.floats(5, 4), target), statics))
        ignored = target.copy()
        ignored[2] = -100
        found.append(Sample((draw.floats(5, 4), ignored), statics))
    return found


def _reductions_of(make: Callable[[], tuple], **statics: Any) -> list[Sample]:
    return [Sample(make(), {"reduction": r, **statics}) for r in ("mean", "sum", "none")]


@entry("mse_loss", "l1_loss")
def _(draw):
    return _reductions_of(lambda: (draw.apart(3, 4), draw.apart(3, 4, shift=0.013)))


@entry("smooth_l1_loss", "huber_loss")
def _(draw):
    return _reductions_of(lambda: (draw.apart(3, 4), draw.apart(3, 4, shift=0.013), 0.2))


@entry("binary_cross_entropy")
def _(draw):
    p = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    return _reductions_of(lambda: (p(), p(), None)) + _reductions_of(lambda: (p(), p(), p()))


@entry("binary_cross_entropy_with_logits")
def _(draw):
    t = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    plain = _reductions_of(lambda: (draw.apart(3, 4), t(), None, None))
    return plain + _reductions_of(lambda: (draw.apart(3, 4), t(), t(), draw.floats(4, low=0.5)))


@entry("kl_div")
def _(draw):
    p = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    logs = _reductions_of(lambda: (np.log(p()), np.log(p())), log_target=True)
    return _reductions_of(lambda: (np.log(p()), p()), log_target=False) + logs


@entry("soft_margin_loss")
def _(draw):
    return _reductions_of(lambda: (draw.apart(3, 4), draw.apart(3, 4, shift=0.013)))


@entry("cosine")
def _(draw):
    pairs = lambda *shape: (draw.floats(*shape), draw.floats(*shape))  # noqa: E731
    cases = [((3, 4), (1,)), ((2, 3, 4), (0,)), ((5,), (0,))]
    return [Sample(pairs(*shape), {"axis": axis, "eps": 1e-8}) for shape, axis in cases]


@entry("ctc_losses")
def _(draw):
    def sample(lengths, sizes):
        scores = draw.floats(4, 2, 3)
        log_probs = scores - np.log(np.exp(scores).sum(2, keepdims=True))
        targets = np.array([[1, 2], [1, 1]])
        arrays = (log_probs, targets, np.array(lengths), np.array(sizes))
        return Sample(arrays, {"blank": 0})

    return [sample([4, 3], [2, 2]), sample([4, 3], [1, 1])]
