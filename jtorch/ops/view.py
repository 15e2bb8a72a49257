"""Views: ops that move elements and compute nothing.

``affine(shape, strides, **statics)`` gives (offset, strides) of the result in elements. It is linear in
``strides``, so the compiler also feeds it unit vectors to learn which coordinate of the input each
coordinate of the output moves. Where no strides can say it, ``index_map`` does (see ``jtorch.index``).
``put(xp, base, value, **statics)`` is ``base`` with ``value`` written through the view.
"""

from __future__ import annotations

import itertools
import math

from jtorch import dtypes as dt
from jtorch import index as ix
from jtorch.op import composite, view
from jtorch.ops import axes as ax

OVERLAPPING = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)

# -- same elements, other shape ---------------------------------------------------------------------------


def contiguous_strides(shape):
    """Strides in elements of a row-major array of ``shape``."""
    if not shape:
        return ()
    return tuple(itertools.accumulate(reversed((*shape[1:], 1)), lambda a, b: a * b))[::-1]


def _reshape_strides(x_shape, strides, *, shape):
    """NumPy's rule for a reshape without a copy, None where there is none. Not linear: axes get
    other radices.

    Runs of old axes and of new ones that hold equally many elements are matched from the left; each
    run of old axes must be one line of memory.
    """
    if 0 in x_shape:
        return 0, contiguous_strides(shape)
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
        found += [s * line[-1][1] for s in contiguous_strides(run)]
    strides, step = [], 1
    for n in reversed(shape):
        step = found.pop() if n != 1 else step  # an axis of size 1 gets the stride that any other size would
        strides.append(step)
        step *= n
    return 0, tuple(reversed(strides))


def _checked_shape(x, shape):
    if math.prod(x) != math.prod(shape) or (shape and min(shape) < 0):
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
    return xp.reshape(x, shape=shape)


@reshape.vjp
def _(xp, g, x_shape):
    return xp.reshape(g, shape=x_shape)


@reshape.lean_face(usual=("shape and -1 not in shape and shape[0].__class__ is int", "input, shape"))
def _(input, *shape):
    if len(shape) == 1 and shape[0].__class__ is not int:
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
    put=lambda xp, base, value, axes: xp.squeeze(value, axes=axes),
)
def unsqueeze(xp, x, *, axes):
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
    put=lambda xp, base, value, axes: xp.unsqueeze(value, axes=axes),
)
def squeeze(xp, x, *, axes):
    return xp.squeeze(x, axes=axes)


@squeeze.vjp
def _(xp, g, axes):
    return xp.unsqueeze(g, axes=axes)


@squeeze.face
def _(input, dim=None):
    shape = input.shape
    wanted = () if dim == () else ax.many(dim, input.ndim)
    return (input,), {"axes": tuple(a for a in wanted if shape[a] == 1)}


# -- other order ------------------------------------------------------------------------------------------


def _inverse(axes):
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@view(
    shape=lambda x, axes: tuple(x[a] for a in axes),
    affine=lambda shape, strides, axes: (0, tuple(strides[a] for a in axes)),
    put=lambda xp, base, value, axes: xp.permute(value, axes=_inverse(axes)),
)
def permute(xp, x, *, axes):
    return xp.permute(x, axes=axes)


@permute.vjp
def _(xp, g, axes):
    return xp.permute(g, axes=_inverse(axes))


@permute.face
def _(input, *dims):
    dims = ax.sizes(dims)
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
            f"of the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    axes = tuple(ax.one(d, input.ndim) for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return (input,), {"axes": axes}


def _permuting(name, grad_name, face):
    """A composite that is a permutation: the same view under PyTorch's other names."""

    @composite(
        aliases=True,
        name=name,
        grad_name=grad_name,
        renames="permute",
        put=lambda xp, base, value, axes: xp.permute(value, axes=_inverse(axes)),
    )
    def body(xp, x, *, axes):
        return xp.permute(x, axes=axes)

    @body.vjp
    def _(xp, g, axes):
        return xp.permute(g, axes=_inverse(axes))

    body.lean_face()(face)
    return body


def _t_face(input):
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D"
        )
    return input, (1, 0) if input.ndim == 2 else (0,) * input.ndim


def _transpose_face(input, dim0, dim1):
    axes = list(range(input.ndim))
    a, b = ax.one(dim0, input.ndim), ax.one(dim1, input.ndim)
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return input, tuple(axes)


t = _permuting("t", "TBackward0", _t_face)
transpose = _permuting("transpose", "TransposeBackward0", _transpose_face)


def _flip_affine(shape, strides, axes):
    offset = sum((shape[a] - 1) * strides[a] for a in axes)
    return offset, tuple(-s if k in axes else s for k, s in enumerate(strides))


@view(
    shape=lambda x, axes: x,
    affine=_flip_affine,
    aliases=False,  # PyTorch copies
)
def flip(xp, x, *, axes):
    return xp.flip(x, axes=axes)


@flip.vjp
def _(xp, g, axes):
    return xp.flip(g, axes=axes)


@flip.face
def _(input, *dims):
    dims = ax.sizes(dims)
    return (input,), {"axes": ax.many(dims, input.ndim) if dims else ()}


# -- repeated elements ------------------------------------------------------------------------------------


def _expand_strides(x_shape, strides, *, shape):
    new = len(shape) - len(x_shape)
    kept = (
        0 if n == 1 and m != 1 else s
        for n, m, s in zip(x_shape, shape[new:], strides, strict=True)
    )
    return 0, (0,) * new + tuple(kept)


@view(shape=lambda x, shape: shape, affine=_expand_strides)
def expand(xp, x, *, shape):
    return xp.expand(x, shape=shape)


@expand.vjp
def _(xp, g):
    return g  # the engine sums over the repeated axes


@expand.face
def _(input, *sizes):
    sizes, shape = ax.sizes(sizes), input.shape
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
        if have not in (1, n) and n != -1:
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
                f"non-singleton dimension {k}.  Target sizes: {list(sizes)}.  Tensor sizes: {list(shape)}"
            )
        out.append(have if n == -1 else n)
    return (input,), {"shape": tuple(out)}


# -- parts ------------------------------------------------------------------------------------------------


def _slice_shape(x, start, stop, step):
    return tuple(max(0, -(-(e - b) // s)) for b, e, s in zip(start, stop, step, strict=True))


def _slice_affine(shape, strides, start, stop, step):
    offset = sum(b * s for b, s in zip(start, strides, strict=True))
    return offset, tuple(s * k for s, k in zip(strides, step, strict=True))


@view(
    shape=_slice_shape,
    affine=_slice_affine,
    put=lambda xp, base, value, **where: xp.slice_put(base, value, **where),
    public=None,
)
def slice(xp, x, *, start, stop, step):
    return xp.slice(x, start=start, stop=stop, step=step)


@slice.vjp
def _(xp, g, x_shape, start, stop, step):
    counts = _slice_shape(x_shape, start, stop, step)
    high = tuple(
        n - (b + (c - 1) * s + 1) if c else n - b
        for n, b, c, s in zip(x_shape, start, counts, step, strict=True)
    )
    return xp.pad(g, low=start, high=high, interior=tuple(s - 1 for s in step))


def _slice_put_map(coordinates, shapes, start, stop, step):
    counts = _slice_shape(shapes[0], start, stop, step)
    tests, places = [], []
    for c, n, b, k, s in zip(coordinates, shapes[0], start, counts, step, strict=True):
        whole = b == 0 and k == n and s == 1
        test, place = (None, c) if whole else ix.within(c, b, k, s)
        tests.append(test)
        places.append(place)
    written = ix.Read(1, tuple(places))
    wanted = [t for t in tests if t is not None]
    if not wanted:
        return written
    return ix.Select(ix.every(wanted), written, ix.Read(0, tuple(coordinates)))


@view(shape=lambda x, value, **_: x, index_map=_slice_put_map, aliases=False, public=None)
def slice_put(xp, x, value, *, start, stop, step):
    return xp.slice_put(x, value, start=start, stop=stop, step=step)


@slice_put.vjp
def _(xp, g, value_shape, start, stop, step):
    hole = xp.full(0.0, shape=value_shape, dtype=g.dtype)
    where = {"start": start, "stop": stop, "step": step}
    return xp.slice_put(g, hole, **where), xp.slice(g, **where)


def _without(values, axis):
    return values[:axis] + values[axis + 1 :]


def _select_put(xp, base, value, axis, index):
    start = tuple(index if k == axis else 0 for k in range(base.ndim))
    stop = tuple(index + 1 if k == axis else n for k, n in enumerate(base.shape))
    value = xp.unsqueeze(value, axes=(axis,))
    return xp.slice_put(base, value, start=start, stop=stop, step=(1,) * base.ndim)


@view(
    shape=lambda x, axis, index: _without(x, axis),
    affine=lambda shape, strides, axis, index: (index * strides[axis], _without(strides, axis)),
    put=_select_put,
    public=None,
)
def select(xp, x, *, axis, index):
    """One position along ``axis``, which disappears."""
    return xp.select(x, axis=axis, index=index)


@select.vjp
def _(xp, g, x_shape, axis, index):
    low = tuple(index if k == axis else 0 for k in range(len(x_shape)))
    high = tuple(n - index - 1 if k == axis else 0 for k, n in enumerate(x_shape))
    return xp.pad(xp.unsqueeze(g, axes=(axis,)), low=low, high=high, interior=(0,) * len(x_shape))


def _windows_shape(x, kernel, stride, dilation):
    k = len(x) - len(kernel)
    outer = tuple(
        (n - d * (w - 1) - 1) // s + 1
        for n, w, s, d in zip(x[k:], kernel, stride, dilation, strict=True)
    )
    return x[:k] + outer + kernel


def _windows_affine(shape, strides, kernel, stride, dilation):
    k = len(shape) - len(kernel)
    outer = tuple(b * s for b, s in zip(strides[k:], stride, strict=True))
    inner = tuple(b * d for b, d in zip(strides[k:], dilation, strict=True))
    return 0, strides[:k] + outer + inner


def _windows_put(xp, base, value, kernel, stride, dilation):
    """One strided slice for each place in a window; windows that share elements cannot be written."""
    k, r = base.ndim - len(kernel), len(kernel)
    for n, w, s, d in zip(value.shape[k : k + r], kernel, stride, dilation, strict=True):
        if len({i * s + j * d for i in range(n) for j in range(w)}) < n * w:
            raise RuntimeError(OVERLAPPING)
    for place in itertools.product(*map(range, kernel)):
        part = value
        for j in reversed(place):
            part = xp.select(part, axis=part.ndim - 1, index=j)
        low = tuple(j * d for j, d in zip(place, dilation, strict=True))
        start, step = (0,) * k + low, (1,) * k + tuple(stride)
        stop = tuple(
            b + (n - 1) * s + 1 if n else b for n, b, s in zip(part.shape, start, step, strict=True)
        )
        base = xp.slice_put(base, part, start=start, stop=stop, step=step)
    return base


@view(shape=_windows_shape, affine=_windows_affine, put=_windows_put, public=None)
def windows(xp, x, *, kernel, stride, dilation):
    return xp.windows(x, kernel=kernel, stride=stride, dilation=dilation)


@windows.vjp
def _(xp, g, x_shape, kernel, stride, dilation):
    return xp.fold(g, shape=x_shape, kernel=kernel, stride=stride, dilation=dilation)


# -- irregular moves ---------------------------------------------------------------------------------------


def _pad_shape(x, low, high, interior):
    grown = (n + (n - 1) * i if n else 0 for n, i in zip(x, interior, strict=True))
    return tuple(lo + n + hi for lo, n, hi in zip(low, grown, high, strict=True))


def _pad_map(coordinates, shapes, low, high, interior):
    tests, places = [], []
    for c, n, lo, hi, i in zip(coordinates, shapes[0], low, high, interior, strict=True):
        if lo == hi == i == 0:
            places.append(c)
            continue
        test, place = ix.within(c, lo, n, i + 1)
        tests.append(test)
        places.append(place)
    read = ix.Read(0, tuple(places))
    return ix.Select(ix.every(tests), read, ix.Fill(0)) if tests else read


@view(shape=_pad_shape, index_map=_pad_map, aliases=False, public=None)
def pad(xp, x, *, low, high, interior):
    return xp.pad(x, low=low, high=high, interior=interior)


@pad.vjp
def _(xp, g, x_shape, low, interior):
    step = tuple(i + 1 for i in interior)
    stop = tuple(
        lo + (n - 1) * s + 1 if n else lo for lo, n, s in zip(low, x_shape, step, strict=True)
    )
    return xp.slice(g, start=low, stop=stop, step=step)


def _cat_shape(*shapes, axis):
    total = sum(s[axis] for s in shapes)
    return shapes[0][:axis] + (total,) + shapes[0][axis + 1 :]


def _cat_map(coordinates, shapes, axis):
    starts = list(itertools.accumulate((s[axis] for s in shapes), initial=0))
    place = coordinates[axis]

    def read(k):
        at = list(coordinates)
        at[axis] = place - starts[k]
        return ix.Read(k, tuple(at))

    choice = read(len(shapes) - 1)
    for k in range(len(shapes) - 2, -1, -1):
        choice = ix.Select(place < starts[k + 1], read(k), choice)
    return choice


@view(shape=_cat_shape, index_map=_cat_map, aliases=False, methods=())
def cat(xp, *tensors, axis):
    return xp.cat(*tensors, axis=axis)


@cat.vjp
def _(xp, g, tensors_shape, axis):
    starts = list(itertools.accumulate((s[axis] for s in tensors_shape), initial=0))
    ones, zeros = (1,) * g.ndim, (0,) * g.ndim

    def part(k):
        start = zeros[:axis] + (starts[k],) + zeros[axis + 1 :]
        stop = g.shape[:axis] + (starts[k + 1],) + g.shape[axis + 1 :]
        return xp.slice(g, start=start, stop=stop, step=ones)

    return tuple(part(k) for k in range(len(tensors_shape)))


def _without_empty_vectors(tensors):
    """PyTorch joins an empty vector to anything; of it only the dtype counts."""
    kept = [t for t in tensors if t.ndim != 1 or t.shape[0]]
    if not kept or all(t.ndim == 1 for t in kept):
        return tensors
    wanted = dt.OF_NUMPY[dt.promote([(t.dtype.numpy, t.ndim) for t in tensors])]
    return tuple(t.to(wanted) for t in kept)


@cat.face
def _(tensors, dim=0):
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    if any(t.ndim == 1 and not t.shape[0] for t in tensors):
        tensors = _without_empty_vectors(tensors)
        first = tensors[0]
    axis = ax.one(dim, first.ndim)
    for k, other in enumerate(tensors):
        if other.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {other.ndim}"
            )
        for a in range(first.ndim):
            if a != axis and other.shape[a] != first.shape[a]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{first.shape[a]} but got size {other.shape[a]} for tensor number {k} in the list."
                )
    return tensors, {"axis": axis}
