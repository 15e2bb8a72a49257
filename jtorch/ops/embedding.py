"""Rows of a table, looked up by number."""

from __future__ import annotations

from jtorch.core.op import composite


def _without_padding(xp, g, ids, padding):
    """``g`` (*ids, width) with zeros where the id is ``padding``."""
    counts = xp.unsqueeze(xp.ne(ids, padding), axes=(ids.ndim,))
    return xp.where(xp.expand(counts, shape=tuple(g.shape)), g, 0.0)


def _over_frequency(xp, g, ids, rows):
    """``g`` over the number of times that its id is among ``ids``."""
    ones = xp.full(1.0, shape=tuple(ids.shape), dtype=g.dtype)
    counts = xp.index_add(ones, ids, axes=(0,), shape=(rows,))
    return g / xp.unsqueeze(xp.index(counts, ids, axes=(0,)), axes=(ids.ndim,))


@composite(methods=(), dtype="as_is", fuses=False)
def embedding(xp, weight, ids, *, padding, by_frequency):
    """(*ids, width) from a table (rows, width); ``padding`` is an id without gradient, or None."""
    return xp.index(weight, ids, axes=(0,))


@embedding.vjp
def _(xp, g, weight_shape, ids, padding, by_frequency):
    if padding is not None:
        g = _without_padding(xp, g, ids, padding)
    if by_frequency:
        g = _over_frequency(xp, g, ids, weight_shape[0])
    return xp.index_add(g, ids, axes=(0,), shape=weight_shape), None


@embedding.face
def _(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Rows of ``weight``; ``nn.functional.embedding`` has the usual order of arguments."""
    if sparse:
        raise NotImplementedError("embedding: nn.functional.embedding is what takes sparse=True")
    check_ids(indices, "embedding")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    statics = {"padding": None if padding_idx < 0 else padding_idx, "by_frequency": scale_grad_by_freq}
    return (weight, indices), statics


def check_ids(ids, name):
    """Raise PyTorch's error for ids that are not integers."""
    if ids.dtype.numpy.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
            f"Int; but got {ids.dtype} instead (while checking arguments for {name})"
        )
