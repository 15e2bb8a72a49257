"""Reductions of parts of a tensor that follow each other, and ``hash_tensor``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.hash_tensor.html
"""

from __future__ import annotations

import math
from typing import Any

import jtorch
from jtorch.eager.binding import accepting
from jtorch.eager.tensor import Tensor

_IDENTITY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SCATTER = {"max": "amax", "min": "amin"}


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """The "sum", "mean", "max", "min" or "prod" of each segment of ``data`` along ``axis``.

    ``lengths`` (\\*data.shape[:axis], n) says how long each is, or ``offsets``, of one more, where each
    begins and the last ends. ``initial`` counts as one more element; it is all that is in an empty segment:
    without it these are 0, NaN, -inf, inf and 1. Raises RuntimeError for lengths that don't fit (``unsafe``
    leaves out what looks at elements), NotImplementedError for ``indices``.

    >>> import jtorch
    >>> data = jtorch.tensor([1.0, 2.0, 3.0, 4.0])
    >>> jtorch.segment_reduce(data, "sum", lengths=jtorch.tensor([3, 0, 1]))
    tensor([6., 0., 4.])
    """
    if reduce not in _IDENTITY:
        raise RuntimeError(f"segment_reduce(): Unsupported reduction {reduce!r}: one of {list(_IDENTITY)}")
    if indices is not None:
        raise NotImplementedError("segment_reduce(): indices based reduction is not supported yet")
    ends, lengths = _bounds(data, lengths, offsets, axis, unsafe)
    before, n, segments = data.shape[:axis], data.shape[axis], lengths.shape[-1]
    outer = math.prod(before)
    flat = data.reshape(outer * n, *data.shape[axis + 1 :])
    places = jtorch.arange(n).expand(*before, n).contiguous()
    which = jtorch.searchsorted(ends, places, right=True).reshape(outer, n)  # ``segments`` after the last
    which = (which + jtorch.arange(outer).unsqueeze(1) * (segments + 1)).reshape(-1)
    found = _reduced(flat, which, reduce, outer * (segments + 1), initial)
    found = found.reshape(*before, segments + 1, *data.shape[axis + 1 :]).narrow(axis, 0, segments)
    if reduce != "mean":
        return found
    counts = lengths.reshape(*lengths.shape, *[1] * (data.ndim - axis - 1)).to(data.dtype)
    return found / (counts if initial is None else counts.clamp(min=1))


def _bounds(
    data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool
) -> tuple[Tensor, Tensor]:
    """(where each segment ends, how long it is)"""
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given: Any = offsets if lengths is None else lengths
    if given.ndim != axis + 1 or given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): lengths or offsets {tuple(given.shape)} for axis {axis} of "
            f"{tuple(data.shape)}: expected {(*data.shape[:axis], 'n')}"
        )
    if lengths is None:
        given = given.long()
        if not unsafe and bool((given[..., :1] != 0).any() | (given[..., -1:] != data.shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected offsets to begin with 0 and end with data.size(axis)"
            )
        return given[..., 1:].contiguous(), given[..., 1:] - given[..., :-1]
    given = given.long()
    ends = given.cumsum(-1)
    if not unsafe:
        if bool((given < 0).any()):
            raise RuntimeError("lengths contains negative value!")
        if bool((ends[..., -1:] != data.shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis)"
            )
    return ends.contiguous(), given


def _reduced(flat: Tensor, which: Tensor, reduce: str, count: int, initial: Any) -> Tensor:
    start = _IDENTITY[reduce] if initial is None else initial
    into = jtorch.full((count, *flat.shape[1:]), start, dtype=flat.dtype)
    if reduce in ("sum", "mean"):
        return into.index_add(0, which, flat)
    rows = which.reshape(-1, *[1] * (flat.ndim - 1)).expand_as(flat)
    if reduce == "prod":
        return into.scatter_reduce(0, rows, flat, "prod")
    # A gradient is shared by the elements that tie, and not by what a segment begins with.
    empty, nans = jtorch.full_like(into, _IDENTITY[reduce]), flat.isnan()
    numbers = flat.masked_fill(nans, _IDENTITY[reduce])
    found = empty.scatter_reduce(0, rows, numbers, _SCATTER[reduce], include_self=False)
    better = into > found if reduce == "max" else into < found
    found = jtorch.where(better | into.isnan(), into, found)
    return _with_nans(found, flat, nans, which)


def _with_nans(found: Tensor, flat: Tensor, nans: Tensor, which: Tensor) -> Tensor:
    """``found`` with NaN for the segments that have some, whose mean it is: they share its gradient."""
    none = jtorch.zeros_like(found)
    counts = none.long().index_add(0, which, nans.long())
    mean = none.index_add(0, which, flat.masked_fill(~nans, 0)) / counts.clamp(min=1).to(found.dtype)
    return jtorch.where(counts > 0, mean, found)


@accepting
def hash_tensor(input: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """The exclusive or of the bits of all elements, or of those along ``dim``, as uint64.

    Floats count as float64, other numbers as int64. Raises RuntimeError for complex numbers, for nothing to
    hash without ``dim`` and for another ``mode`` than 0. Compiled functions run it eagerly.

    >>> import jtorch
    >>> jtorch.hash_tensor(jtorch.tensor([[1, 2], [4, 8]]), 1)
    tensor([ 3, 12], dtype=jtorch.uint64)
    """
    if mode != 0:
        raise RuntimeError("hash_tensor: Unknown HashMode: 0 (exclusive or) is the only one")
    if input.is_complex():
        raise RuntimeError(f"hash_tensor: a hash of {input.dtype} is not there")
    if not input.numel() and dim in (None, ()):
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    wide = input.to(jtorch.float64).view(jtorch.int64) if input.is_floating_point() else input.long()
    dims = range(wide.ndim) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
    dims = [d % max(wide.ndim, 1) for d in dims]
    for d in dims if wide.ndim else ():
        wide = _folded(wide, d)
    if not keepdim:
        kept = [n for d, n in enumerate(wide.shape) if d not in dims]
        wide = wide.reshape(kept)
    return wide.view(jtorch.uint64)


def _folded(x: Tensor, dim: int) -> Tensor:
    """The exclusive or along ``dim``, which is 1 long then: halves on halves."""
    if x.shape[dim] == 0:
        return jtorch.zeros([1 if d == dim else n for d, n in enumerate(x.shape)], dtype=x.dtype)
    while (n := x.shape[dim]) > 1:
        half = n // 2
        both = x.narrow(dim, 0, half) ^ x.narrow(dim, half, half)
        x = jtorch.cat([both, x.narrow(dim, n - 1, 1)], dim) if n % 2 else both
    return x
