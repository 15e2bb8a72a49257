"""Views with the same elements in another shape, or repeated along axes of it.

Source: https://docs.pytorch.org/docs/stable/tensor_view.html
"""

from __future__ import annotations

import itertools
import math

from jtorch.core.op import view
from jtorch.core.sizes import has_negative
from jtorch.core.strides import contiguous_strides, expanded_strides
from jtorch.ops import axes as ax
from jtorch.ops.slicing import OVERLAPPING


def _reshape_strides(x_shape, strides, *, shape):
    """NumPy's rule for a reshape without a copy, None where there is none. Not linear: axes get
    other radices.

    Runs of old axes and of new ones that hold equally many elements are matched from the left; each
    run of old axes must be one line of memory.
    """
    if 0 in x_shape:
        return 0, contiguous_strides(shape)
    if 1 in shape and x_shape == shape:  # axes of one element keep the strides they have
        return 0, strides
    old = [(n, s) for n, s in zip(x_shape, strides, strict=True) if n != 1]
    found, at = [], 0
    new = [n for n in shape if n != 1]
    while new:
        count, size, first = new.pop(0), 1, at
        run = [count]
        while size != count:
            if size < count:
                size, at = size * old[at][0], at + 1
            else:
                run.append(new.pop(0))
                count *= run[-1]
        line = old[first:at]
        if any(a[1] != b[0] * b[1] for a, b in itertools.pairwise(line)):
            return None
        found += [s * line[-1][1] for s in contiguous_strides(tuple(run))]
    strides, step = [], found[-1] if found else 1  # as NumPy steps over axes of size 1 at the end
    for n in reversed(shape):
        step = found.pop() if n != 1 else step  # an axis of size 1 gets the stride that any other size would
        strides.append(step)
        step *= n
    return 0, tuple(reversed(strides))


def _checked_shape(x, shape):
    if math.prod(x) != math.prod(shape) or has_negative(shape):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {math.prod(x)}")
    return shape


@view(
    shape=_checked_shape,
    affine=_reshape_strides,
    relabels=True,
    put=lambda xp, base, value, shape: xp.reshape(value, shape=base.shape),
    methods=("reshape",),
)
def reshape(xp, x, *, shape):
    """The same elements in another shape, one size of which may be -1: a view where possible."""
    return xp.reshape(x, shape=shape)


@reshape.vjp
def _(xp, g, x_shape):
    return xp.reshape(g, shape=x_shape)


@reshape.lean_face(
    # by position they are ``shape_``: ``shape`` is the keyword
    usual=("shape is None and shape_ and -1 not in shape_ and shape_[0].__class__ is int", "input, shape_")
)
def _(input, *shape: ax.Numbers):
    shape = ax.sizes(shape)
    return input, ax.infer_size(shape, input.numel()) if -1 in shape else shape


def _inserted(values, axes, new):
    out = list(values)
    for a in axes:
        out.insert(a, new)
    return tuple(out)


def _squeezed(shape, axes):
    return tuple(n for k, n in enumerate(shape) if k not in axes)


@view(
    shape=lambda x, axes: _inserted(x, axes, 1),
    affine=lambda shape, strides, axes: (0, _inserted(strides, axes, 0)),
    strides=lambda shape, strides, axes: _reshape_strides(shape, strides, shape=_inserted(shape, axes, 1))[1],
    keeps_all=True,
    put=lambda xp, base, value, axes: xp.squeeze(value, axes=axes),
    axes=("axes",),
)
def unsqueeze(xp, x, *, axes):
    """A dim of size 1 more, as a view."""
    return xp.unsqueeze(x, axes=axes)


@unsqueeze.vjp
def _(xp, g, axes):
    return xp.squeeze(g, axes=axes)


@unsqueeze.face
def _(input, dim):
    return (input,), {"axes": (ax.one(dim, input.ndim + 1),)}


@view(
    shape=lambda x, axes: _squeezed(x, axes),
    affine=lambda shape, strides, axes: (0, _squeezed(strides, axes)),
    keeps_all=True,
    put=lambda xp, base, value, axes: xp.unsqueeze(value, axes=axes),
    axes=("axes",),
)
def squeeze(xp, x, *, axes):
    """Without the dims of size 1, or without those of ``dim`` that are, as a view."""
    return xp.squeeze(x, axes=axes)


@squeeze.vjp
def _(xp, g, axes):
    return xp.unsqueeze(g, axes=axes)


@squeeze.face
def _(input, dim=None):
    shape = input.shape
    wanted = () if dim == () else ax.many(dim, input.ndim)
    return (input,), {"axes": tuple(a for a in wanted if shape[a] == 1)}


def _expand_strides(x_shape, strides, *, shape):
    new = len(shape) - len(x_shape)
    kept = (0 if n == 1 and m != 1 else s for n, m, s in zip(x_shape, shape[new:], strides, strict=True))
    return 0, (0,) * new + tuple(kept)


def _expand_put(xp, base, value, shape):
    """Where no axis was stretched there are only new axes of length 1; no elements change nothing."""
    if math.prod(base.shape) != math.prod(shape):
        if 0 in shape:
            return base
        raise RuntimeError(OVERLAPPING)
    return xp.reshape(value, shape=base.shape)


@view(
    shape=lambda x, shape: shape,
    affine=_expand_strides,
    strides=expanded_strides,
    put=_expand_put,
)
def expand(xp, x, *, shape):
    """Dims of size 1 as if they were repeated, and dims more in front, as a view; -1 keeps a size."""
    return xp.expand(x, shape=shape)


@expand.vjp
def _(xp, g):
    return g  # the engine sums over the repeated axes


@expand.face
def _(input, *size: ax.Numbers):
    sizes, shape = ax.sizes(size), input.shape
    new = len(sizes) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"expand({list(shape)}, size={list(sizes)}): the number of sizes provided ({len(sizes)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({len(shape)})"
        )
    out = []
    for k, n in enumerate(sizes):
        have = shape[k - new] if k >= new else 1
        if n == -1 and k < new:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) isn't allowed in a leading, "
                f"non-existing dimension {k}"
            )
        if n < -1:
            raise RuntimeError(f"expand(): the expanded size of dimension {k} is negative: {n}")
        if have not in (1, n) and n != -1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
                f"non-singleton dimension {k}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(shape)}"
            )
        out.append(have if n == -1 else n)
    return (input,), {"shape": tuple(out)}
