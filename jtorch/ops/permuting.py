"""Views with the axes in another order, or walked backwards."""

from __future__ import annotations

from jtorch.core.op import composite, view
from jtorch.ops import axes as ax


def _inverse(axes):
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


@view(
    shape=lambda x, axes: tuple(x[a] for a in axes),
    affine=lambda shape, strides, axes: (0, tuple(strides[a] for a in axes)),
    keeps_all=True,
    put=lambda xp, base, value, axes: xp.permute(value, axes=_inverse(axes)),
)
def permute(xp, x, *, axes):
    """The dims in another order, as a view."""
    return xp.permute(x, axes=axes)


@permute.vjp
def _(xp, g, axes):
    return xp.permute(g, axes=_inverse(axes))


@permute.face
def _(input, *dims: ax.Numbers):
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
    """A matrix with its dims exchanged, as a view; vectors as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input, (1, 0) if input.ndim == 2 else (0,) * input.ndim


def _transpose_face(input, dim0, dim1):
    """Two dims exchanged, as a view."""
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
    axes=("axes",),
)
def flip(xp, x, *, axes):
    """The dims ``dims`` in reverse order: a copy."""
    return xp.flip(x, axes=axes)


@flip.vjp
def _(xp, g, axes):
    return xp.flip(g, axes=axes)


@flip.face
def _(input, *axes, dims=None):
    if dims is None and not axes:
        raise TypeError('flip() missing 1 required positional arguments: "dims"')
    dims = ax.sizes(axes if dims is None else (dims,))
    return (input,), {"axes": ax.many(dims, input.ndim) if dims else ()}
