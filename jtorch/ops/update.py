"""Optimizer updates: pure functions from (parameter, gradient, state) to their next values.

Each is one composite, so that an eager step is a handful of NumPy calls and a compiled step sees the
primitives and fuses all parameters into one kernel. Hyper-parameters are runtime scalars.
"""

from __future__ import annotations

import math

import numpy as np

from jtorch.core.op import composite

_DOUBLE = np.dtype(np.float64)


def _decayed(p, g, weight_decay, decay):
    return g + p * weight_decay if decay else g


def _regularised(p, g, lr, weight_decay, decay):
    """(p, g) with weight decay; ``decay`` is "l2", "decoupled" (Loshchilov and Hutter 2019) or ""."""
    if decay == "decoupled":
        return p * (1.0 - lr * weight_decay), g
    return p, _decayed(p, g, weight_decay, decay)


def _moments(g, m, v, beta1, beta2):
    """The running means of the gradient and of its square."""
    return m + (g - m) * (1.0 - beta1), v * beta2 + g * g * (1.0 - beta2)


@composite(dtype="as_is", public=None, differentiable=False)
def sgd_update(xp, p, g, lr, weight_decay, *, decay):
    """p - lr (g + weight_decay p)"""
    return p - _decayed(p, g, weight_decay, decay) * lr


@composite(n_outputs=2, dtype="as_is", public=None, differentiable=False)
def momentum_update(xp, p, g, buffer, lr, weight_decay, momentum, dampening, *, decay, nesterov, first):
    """Sutskever et al. 2013, in PyTorch's form: the first buffer is the first gradient."""
    g = _decayed(p, g, weight_decay, decay)
    buffer = xp.clone(g) if first else buffer * momentum + g * (1.0 - dampening)
    step = g + buffer * momentum if nesterov else buffer
    return p - step * lr, buffer


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def adam_update(xp, p, g, m, v, step, lr, beta1, beta2, eps, weight_decay, *, decay):
    """Kingma and Ba 2015.

    ``step`` counts the updates before this one. The bias corrections are float64, as in PyTorch, which
    computes them with Python's floats. Returns (p, m, v, step).
    """
    step = step + 1.0
    if decay:
        p, g = _regularised(p, g, lr, weight_decay, decay)
    m, v = _moments(g, m, v, beta1, beta2)
    count = xp.cast(step, dtype=_DOUBLE)
    size = xp.cast(lr / (1.0 - xp.pow(beta1, count)), dtype=p.dtype)
    # the reciprocal, once: a division for each element takes a quarter of the kernel's time
    over_root = xp.cast(1.0 / xp.sqrt(1.0 - xp.pow(beta2, count)), dtype=p.dtype)
    return p - m * size / (xp.sqrt(v) * over_root + eps), m, v, step


@composite(n_outputs=5, dtype="as_is", public=None, differentiable=False)
def amsgrad_update(xp, p, g, m, v, largest, step, lr, beta1, beta2, eps, weight_decay, *, decay):
    """Adam with the largest second moment so far, so that steps never grow. Reddi et al. 2018.

    Returns (p, m, v, largest, step).
    """
    step = step + 1.0
    p, g = _regularised(p, g, lr, weight_decay, decay)
    m, v = _moments(g, m, v, beta1, beta2)
    largest = xp.maximum(largest, v)
    count = xp.cast(step, dtype=_DOUBLE)
    size = xp.cast(lr / (1.0 - xp.pow(beta1, count)), dtype=p.dtype)
    over_root = xp.cast(1.0 / xp.sqrt(1.0 - xp.pow(beta2, count)), dtype=p.dtype)
    return p - m * size / (xp.sqrt(largest) * over_root + eps), m, v, largest, step


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def adamax_update(xp, p, g, m, norm, step, lr, beta1, beta2, eps, weight_decay, *, decay):
    """Adam in the infinity norm: ``norm`` is the decaying largest gradient. Kingma and Ba 2015, section 7.1.

    Returns (p, m, norm, step).
    """
    step = step + 1.0
    g = _decayed(p, g, weight_decay, decay)
    m = m + (g - m) * (1.0 - beta1)
    norm = xp.maximum(norm * beta2, xp.abs(g) + eps)
    count = xp.cast(step, dtype=_DOUBLE)
    size = xp.cast(lr / (1.0 - xp.pow(beta1, count)), dtype=p.dtype)
    return p - m * size / norm, m, norm, step


@composite(n_outputs=5, dtype="as_is", public=None, differentiable=False)
def nadam_update(
    xp, p, g, m, v, product, step, lr, beta1, beta2, eps, weight_decay, momentum_decay, *, decay
):
    """Adam with Nesterov's momentum. Dozat 2016. ``product`` is that of the momenta so far.

    Returns (p, m, v, product, step).
    """
    step = step + 1.0
    count = xp.cast(step, dtype=_DOUBLE)
    p, g = _regularised(p, g, lr, weight_decay, decay)
    mu = (1.0 - xp.pow(0.96, count * momentum_decay) * 0.5) * beta1
    mu_next = (1.0 - xp.pow(0.96, (count + 1.0) * momentum_decay) * 0.5) * beta1
    product = product * xp.cast(mu, dtype=product.dtype)
    m, v = _moments(g, m, v, beta1, beta2)
    so_far = xp.cast(product, dtype=_DOUBLE)
    over_root = xp.cast(1.0 / xp.sqrt(1.0 - xp.pow(beta2, count)), dtype=p.dtype)
    of_gradient = xp.cast((1.0 - mu) * lr / (1.0 - so_far), dtype=p.dtype)
    of_mean = xp.cast(mu_next * lr / (1.0 - so_far * mu_next), dtype=p.dtype)
    step_taken = (g * of_gradient + m * of_mean) / (xp.sqrt(v) * over_root + eps)
    return p - step_taken, m, v, product, step


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def radam_update(xp, p, g, m, v, step, lr, beta1, beta2, eps, weight_decay, *, decay):
    """Adam that ignores the second moment while its variance is unknown. Liu et al. 2020.

    Returns (p, m, v, step).
    """
    step = step + 1.0
    count = xp.cast(step, dtype=_DOUBLE)
    p, g = _regularised(p, g, lr, weight_decay, decay)
    m, v = _moments(g, m, v, beta1, beta2)
    left = xp.pow(beta2, count)
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - count * 2.0 * left / (1.0 - left)
    known = xp.gt(length, 5.0)
    rest = xp.where(known, length, 6.0)  # any length that has a root
    ratio = (rest - 4.0) * (rest - 2.0) * longest / (rest * ((longest - 4.0) * (longest - 2.0)))
    ratio = xp.where(known, ratio, 1.0)
    rectified = xp.cast(xp.sqrt(ratio) * xp.sqrt(1.0 - left), dtype=p.dtype)
    size = xp.cast(lr / (1.0 - xp.pow(beta1, count)), dtype=p.dtype)
    scale = xp.where(known, rectified / (xp.sqrt(v) + eps), 1.0)
    return p - m * size * scale, m, v, step


@composite(n_outputs=5, dtype="as_is", public=None, differentiable=False)
def rmsprop_update(
    xp, p, g, square, mean, buffer, step,
    lr, alpha, eps, weight_decay, momentum, *, decay, centered, moving,
):  # fmt: skip
    """Steps over the root of a running mean of squares. Tieleman and Hinton 2012; centered: Graves 2013.

    ``mean`` is used where ``centered``, ``buffer`` where ``moving`` (with momentum).
    Returns (p, square, mean, buffer, step), with ``square`` in the place of what is not used.
    """
    g = _decayed(p, g, weight_decay, decay)
    square = square * alpha + g * g * (1.0 - alpha)
    spread = square
    mean, buffer = mean if centered else square, buffer if moving else square
    if centered:
        mean = mean + (g - mean) * (1.0 - alpha)
        spread = square - mean * mean
    scaled = g / (xp.sqrt(spread) + eps)
    if moving:
        buffer = scaled = buffer * momentum + scaled
    return p - scaled * lr, square, mean, buffer, step + 1.0


@composite(n_outputs=3, dtype="as_is", public=None, differentiable=False)
def adagrad_update(xp, p, g, total, step, lr, lr_decay, eps, weight_decay, *, decay):
    """Steps over the root of the sum of all squares. Duchi et al. 2011. Returns (p, total, step)."""
    g = _decayed(p, g, weight_decay, decay)
    size = xp.cast(lr / (xp.cast(step, dtype=_DOUBLE) * lr_decay + 1.0), dtype=p.dtype)
    total = total + g * g
    return p - g * size / (xp.sqrt(total) + eps), total, step + 1.0


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def adadelta_update(xp, p, g, square, moved, step, lr, rho, eps, weight_decay, *, decay):
    """Steps in the parameter's own units. Zeiler 2012. Returns (p, square, moved, step)."""
    g = _decayed(p, g, weight_decay, decay)
    square = square * rho + g * g * (1.0 - rho)
    delta = xp.sqrt(moved + eps) / xp.sqrt(square + eps) * g
    moved = moved * rho + delta * delta * (1.0 - rho)
    return p - delta * lr, square, moved, step + 1.0


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def rprop_update(xp, p, g, before, size, step, lr, shrink, grow, smallest, largest):
    """Step sizes grow while the gradient keeps its sign. Riedmiller and Braun 1993.

    Before the first update ``size`` is ``lr``. Returns (p, before, size, step).
    """
    size = xp.where(xp.eq(step, 0.0), lr, size)
    sign = g * before
    turned, kept = xp.lt(sign, 0.0), xp.gt(sign, 0.0)
    bigger, smaller = size * grow, size * shrink
    size = xp.where(kept, bigger, xp.where(turned, smaller, size))
    size = xp.minimum(xp.maximum(size, smallest), largest)
    g = xp.where(turned, 0.0, g)
    return p - xp.sign(g) * size, g, size, step + 1.0


@composite(n_outputs=5, dtype="as_is", public=None, differentiable=False)
def asgd_update(xp, p, g, mean, mu, eta, step, lr, lambd, alpha, t0, weight_decay, *, decay):
    """Gradient descent with the mean of its path beside. Polyak and Juditsky 1992.

    ``eta`` is the next rate (``lr`` before the first update), ``mu`` the weight of the next value in
    ``mean``. Returns (p, mean, mu, eta, step).
    """
    rate_dtype = eta.dtype
    eta = xp.cast(xp.where(xp.eq(step, 0.0), lr, eta), dtype=_DOUBLE)
    g = _decayed(p, g, weight_decay, decay)
    p = p * xp.cast(1.0 - eta * lambd, dtype=p.dtype) - g * xp.cast(eta, dtype=p.dtype)
    moved = mean + (p - mean) * xp.cast(mu, dtype=p.dtype)
    mean = xp.where(xp.eq(mu, 1.0), p, moved)
    step = step + 1.0
    count = xp.cast(step, dtype=_DOUBLE)
    eta = xp.cast(lr / xp.pow(count * (lambd * lr) + 1.0, alpha), dtype=rate_dtype)
    mu = xp.cast(1.0 / xp.maximum(count - t0, 1.0), dtype=mu.dtype)
    return p, mean, mu, eta, step


@composite(n_outputs=4, dtype="as_is", public=None, differentiable=False)
def adafactor_update(xp, p, g, row, column, step, lr, beta2_decay, d, weight_decay, *, eps1, eps2, decay):
    """Second moments of a matrix from its row and column means. Shazeer and Stern 2018.

    A parameter of fewer than two axes has all of its second moments in ``row``, which is returned
    for ``column``, too. Returns (p, row, column, step).
    """
    step = step + 1.0
    count = xp.cast(step, dtype=_DOUBLE)
    new = xp.cast(xp.pow(count, beta2_decay), dtype=p.dtype)
    size = xp.minimum(1.0 / xp.sqrt(count), lr) * xp.maximum(_root_mean_square(xp, p), eps2)
    if decay:
        p = p * (1.0 - lr * weight_decay)
    if len(p.shape) > 1:
        last = len(p.shape) - 1
        row = row + (_mean(xp, g * g, last) - row) * new
        column = column + (_mean(xp, g * g, last - 1) - column) * new
        variance = row * column / xp.maximum(_mean(xp, row, last - 1), eps1)
    else:
        variance = row = column = row + (g * g - row) * new
    update = g / xp.sqrt(xp.maximum(variance, eps1 * eps1))
    limit = xp.maximum(_root_mean_square(xp, update) / d, 1.0)
    return p - update * xp.cast(size / limit, dtype=p.dtype), row, column, step


def _mean(xp, x, axis):
    return xp.sum(x, axis=(axis,), keepdims=True) / float(x.shape[axis])


def _root_mean_square(xp, x):
    """As a 0-d float64."""
    axes = tuple(range(len(x.shape)))
    total = xp.sum(x * x, axis=axes, keepdims=False) if axes else x * x
    return xp.cast(xp.sqrt(total), dtype=_DOUBLE) * (max(math.prod(x.shape), 1) ** -0.5)
