"""Samples: optimizer updates."""

from __future__ import annotations

import numpy as np

from tests.ops.sampling import Sample, entry


@entry("sgd_update")
def _(draw):
    return [Sample((draw.floats(3, 4), draw.floats(3, 4), 0.1, 0.01), {"decay": d}) for d in (False, True)]


@entry("momentum_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4)
    numbers = 0.1, 0.01, 0.9, 0.2
    return [
        Sample((*arrays, *numbers), {"decay": d, "nesterov": n, "first": f})
        for d, n, f in [(False, False, True), (True, False, False), (True, True, False)]
    ]


@entry("adam_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in ("", "l2", "decoupled")]


@entry("amsgrad_update")
def _(draw):
    moments = draw.floats(3, 4, low=0.01), draw.floats(3, 4, low=0.01)
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), *moments
    rest = np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in ("", "l2", "decoupled")]


@entry("adamax_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in (False, True)]


@entry("nadam_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(0.4), np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01, 0.004
    return [Sample((*arrays, *rest), {"decay": d}) for d in ("", "l2", "decoupled")]


@entry("radam_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = 0.1, 0.9, 0.999, 1e-8, 0.01
    return [
        Sample((*arrays, np.asarray(step), *rest), {"decay": d})
        for d, step in (("", 1.0), ("l2", 9.0), ("decoupled", 9.0))
    ]


@entry("rmsprop_update")
def _(draw):
    square, mean = draw.floats(3, 4, low=4.0, high=5.0), draw.floats(3, 4, low=0.1, high=0.9)
    arrays = draw.floats(3, 4), draw.floats(3, 4), square, mean, draw.floats(3, 4)
    rest = np.asarray(3.0), 0.1, 0.9, 1e-8, 0.01, 0.8
    return [
        Sample((*arrays, *rest), {"decay": d, "centered": c, "moving": m})
        for d, c, m in [(False, False, False), (True, True, False), (True, True, True)]
    ]


@entry("adagrad_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.2, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in (False, True)]


@entry("adadelta_update")
def _(draw):
    moments = draw.floats(3, 4, low=0.01), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.9, 1e-6, 0.01
    return [
        Sample((draw.floats(3, 4), draw.floats(3, 4), *moments, *rest), {"decay": d}) for d in (False, True)
    ]


@entry("rprop_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = 0.1, 0.5, 1.2, 1e-6, 0.5
    return [Sample((*arrays, np.asarray(step), *rest), {}) for step in (0.0, 3.0)]


@entry("asgd_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4)
    rest = 0.1, 0.01, 0.75, 2.0, 0.01
    return [
        Sample((*arrays, np.asarray(mu), np.asarray(0.05), np.asarray(step), *rest), {"decay": d})
        for mu, step, d in ((1.0, 0.0, False), (0.25, 6.0, True))
    ]


@entry("adafactor_update")
def _(draw):
    numbers = np.asarray(3.0), 0.1, -0.8, 1.0, 0.01
    matrix = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 1, low=0.1), draw.floats(1, 4, low=0.1)
    vector = draw.floats(5), draw.floats(5), draw.floats(5, low=0.1), np.asarray(0.0)
    return [
        Sample((*matrix, *numbers), {"eps1": 2.0**-23, "eps2": 1e-3, "decay": False}),
        Sample((*matrix, *numbers), {"eps1": 1e-3, "eps2": 1e-2, "decay": True}),
        Sample((*vector, *numbers), {"eps1": 2.0**-23, "eps2": 1e-3, "decay": True}),
    ]
