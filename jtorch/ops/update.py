"""Optimizer updates: pure functions from (parameter, gradient, state) to their next values.

Each is one composite, so that an eager step is a handful of NumPy calls and a compiled step sees the
primitives and fuses all parameters into one kernel. Hyper-parameters are runtime scalars.
"""

from __future__ import annotations

import numpy as np

from jtorch.op import composite

_DOUBLE = np.dtype(np.float64)


def _decayed(p, g, weight_decay, decay):
    return g + p * weight_decay if decay else g


@composite(dtype="as_is", public=None, differentiable=False)
def sgd_update(xp, p, g, lr, weight_decay, *, decay):
    """p - lr (g + weight_decay p)"""
    return p - _decayed(p, g, weight_decay, decay) * lr


@composite(n_outputs=2, dtype="as_is", public=None, differentiable=False)
def momentum_update(
    xp, p, g, buffer, lr, weight_decay, momentum, dampening, *, decay, nesterov, first
):
    """Sutskever et al. 2013, in PyTorch's form: the first buffer is the first gradient."""
    g = _decayed(p, g, weight_decay, decay)
    buffer = xp.clone(g) if first else buffer * momentum + g * (1.0 - dampening)
    step = g + buffer * momentum if nesterov else buffer
    return p - step * lr, buffer


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def adam_update(xp, p, g, m, v, step, lr, beta1, beta2, eps, weight_decay, *, decay):
    """Kingma and Ba 2015; ``decay`` is "l2", "decoupled" (AdamW, Loshchilov and Hutter 2019) or "".

    ``step`` counts the updates before this one. The bias corrections are float64, as in PyTorch, which
    computes them with Python's floats. Returns (p, m, v, step).
    """
    step = step + 1.0
    if decay == "decoupled":
        p = p * (1.0 - lr * weight_decay)
    g = _decayed(p, g, weight_decay, decay == "l2")
    m = m + (g - m) * (1.0 - beta1)
    v = v * beta2 + g * g * (1.0 - beta2)
    count = xp.cast(step, dtype=_DOUBLE)
    size = xp.cast(lr / (1.0 - xp.pow(beta1, count)), dtype=p.dtype)
    # the reciprocal, once: a division for each element takes a quarter of the kernel's time
    over_root = xp.cast(1.0 / xp.sqrt(1.0 - xp.pow(beta2, count)), dtype=p.dtype)
    return p - m * size / (xp.sqrt(v) * over_root + eps), m, v, step
