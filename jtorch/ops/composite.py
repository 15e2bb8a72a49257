"""Composites: one node on the tape, many primitives in the graph, where fusion sees through them."""

from __future__ import annotations

import numpy as np

from jtorch.core.dtypes import LONG_NAMES
from jtorch.core.op import composite
from jtorch.ops import axes as ax
from jtorch.ops.routines import direct

# -- softmax ---------------------------------------------------------------------------------------------


def _nothing_along(x, axis):
    return any(x.shape[a] == 0 for a in axis)


def _softmax(xp, x, axis):
    if _nothing_along(x, axis):  # the maximum of none is an error; the result has memory of its own, as ever
        return xp.clone(x)
    found = direct(xp, "_softmax", "forward", x, axis, own=False)
    if found is not None:
        return found
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


def softmax_gradient(xp, g, out, axis):
    found = direct(xp, "_softmax", "gradient", g, out, axis)
    if found is not None:
        return found
    return (g - xp.sum(g * out, axis=axis, keepdims=True)) * out


def _softmax_face(input, dim=None, dtype=None):
    if dim is None:
        raise TypeError("softmax() needs dim: the axis whose elements sum to one, e.g. dim=-1")
    if dtype is not None:
        input = input.to(dtype)
    axis = ax.one(dim, input.ndim)
    return (input,), {"axis": (axis,) if input.ndim else ()}


@composite(dtype="floating", fuses_small=True, axes=("axis",), autocast={"cuda": "float32"}, ordered=True)
def softmax(xp, x, *, axis):
    """exp(x) divided by its sum along ``dim``."""
    return _softmax(xp, x, axis)


@softmax.vjp
def _(xp, g, out, axis):
    return softmax_gradient(xp, g, out, axis)


@composite(dtype="floating", fuses_small=True, axes=("axis",), autocast={"cuda": "float32"}, ordered=True)
def log_softmax(xp, x, *, axis):
    """The logarithm of ``softmax``, without overflow."""
    if _nothing_along(x, axis):
        return xp.clone(x)
    z = x - xp.max(x, axis=axis, keepdims=True)
    return z - xp.log(xp.sum(xp.exp(z), axis=axis, keepdims=True))


@log_softmax.vjp
def _(xp, g, out, axis):
    return g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True)


softmax.face(_softmax_face)
log_softmax.face(_softmax_face)

# -- classification losses -------------------------------------------------------------------------------

_INT = np.dtype(np.int64)


def _pick(xp, x, target, ignore_index):
    """(x[i, target[i]], whether row i counts): rows whose target is ``ignore_index`` read class 0."""
    counts = xp.ne(target, ignore_index)
    safe = xp.where(counts, target, 0 * target)
    rows = xp.iota(shape=tuple(target.shape), axis=0, dtype=_INT)
    return xp.index(x, rows, safe, axes=(0, 1)), counts


def _reduce_rows(xp, losses, counts, reduction):
    losses = xp.where(counts, losses, 0.0)  # not times 0: what does not count may be NaN, or behind a mask
    if reduction == "none":
        return losses
    total = xp.sum(losses, axis=(0,), keepdims=False)
    if reduction == "sum":
        return total
    return total / xp.sum(xp.cast(counts, dtype=losses.dtype), axis=(0,), keepdims=False)


def _row_scale(xp, g, target, ignore_index, reduction):
    """d(reduced loss)/d(loss of row i), of shape (N, 1)."""
    weight = xp.cast(xp.ne(target, ignore_index), dtype=g.dtype)
    if reduction == "mean":  # where no row counts none gets a gradient, though the loss is NaN
        g = g / xp.clamp_min(xp.sum(weight, axis=(0,), keepdims=False), 1.0)
    return xp.unsqueeze(weight * g, axes=(1,))


def _is_target(xp, shape, target):
    classes = xp.iota(shape=(1, shape[1]), axis=1, dtype=_INT)
    return xp.eq(classes, xp.unsqueeze(target, axes=(1,)))


@composite(dtype="as_is", grad_name="NllLossBackward0", methods=(), fuses_small=True, autocast="float32")
def nll_loss(xp, x, target, *, reduction, ignore_index):
    picked, counts = _pick(xp, x, target, ignore_index)
    return _reduce_rows(xp, -picked, counts, reduction)


@nll_loss.vjp
def _(xp, g, x_shape, target, reduction, ignore_index):
    scale = xp.expand(_row_scale(xp, g, target, ignore_index, reduction), shape=tuple(x_shape))
    return xp.where(_is_target(xp, x_shape, target), -scale, 0.0), None


@composite(dtype="as_is", grad_name="NllLossBackward0", methods=(), fuses_small=True, autocast="float32")
def cross_entropy(xp, x, target, *, reduction, ignore_index):
    if not x.shape[1]:  # of no classes none is the largest, and only no rows have targets
        picked, counts = _pick(xp, x, target, ignore_index)
        return _reduce_rows(xp, -picked, counts, reduction)
    largest = xp.max(x, axis=(1,), keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(x - largest), axis=(1,), keepdims=False))
    picked, counts = _pick(xp, x, target, ignore_index)  # of x, which is in memory, as x - largest is not
    return _reduce_rows(xp, log_sum - (picked - xp.squeeze(largest, axes=(1,))), counts, reduction)


@cross_entropy.vjp
def _(xp, g, x, target, reduction, ignore_index):
    scale = _row_scale(xp, g, target, ignore_index, reduction)
    p = _softmax(xp, x, (1,))
    hit = xp.cast(_is_target(xp, x.shape, target), dtype=p.dtype)
    return (p - hit) * scale, None


def _class_face(name):
    def face(input, target, ignore_index=-100, reduction="mean"):
        """One row of scores per example and its class; see ``nn/functional/class_losses.py``."""
        check_classes(name, input, target, reduction)
        if target.dtype.name == "uint8":  # beside which ignore_index may be no number of its dtype
            target = target.long()
        return (input, target), {"reduction": reduction, "ignore_index": ignore_index}

    return face


def check_classes(name, input, target, reduction):
    """Raise PyTorch's errors where scores (N, C, ...) and classes (N, ...) don't fit."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not input.is_floating_point():
        raise RuntimeError(f"{name}(): expected floating-point scores, got {input.dtype}")
    if target.dtype.name not in ("int64", "uint8"):
        found = LONG_NAMES[target.dtype.name]
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {found}")
    _check_class_shapes(tuple(input.shape), tuple(target.shape))


def _check_class_shapes(scores, classes):
    """Raise PyTorch's errors: (C,) goes with () or (1,), (N, C, ...) with (N, ...)."""
    if not scores:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    batch = classes[0] if classes else 0
    if len(scores) > 1 and scores[0] != batch:
        raise ValueError(f"Expected input batch_size ({scores[0]}) to match target batch_size ({batch}).")
    if len(scores) > 1 and not classes:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if len(scores) < 3:
        if len(classes) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if len(scores) == 1 and classes not in ((), (1,)):
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {batch}")
        return
    expected = (scores[0], *scores[2:])
    if len(scores) == 4 and len(classes) != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{len(classes)}"
        )
    if len(scores) == 4 and classes != expected:
        raise RuntimeError(f"size mismatch (got input: {list(scores)} , target: {list(classes)}")
    if classes != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(classes)}")


cross_entropy.face(_class_face("cross_entropy"))
nll_loss.face(_class_face("nll_loss"))
