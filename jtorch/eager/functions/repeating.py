"""Functions that repeat elements: whole tensors, single positions, or without memory of their own.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module, sizes
from jtorch.eager.binding import APPLY
from jtorch.eager.placement import beside
from jtorch.eager.tensor import Tensor, _concrete, reads_elements, wrap
from jtorch.eager.views import apart
from jtorch.ops import axes as ax


def repeat(input: Tensor, *repeats: ax.Numbers) -> Tensor:
    """``input`` tiled ``repeats`` times along its dims, of which more may come in front."""
    times = ax.sizes(repeats)
    new = len(times) - input.ndim
    if new < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(t < 0 for t in times):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(times)}: {list(times)}")
    shape = (1,) * new + tuple(input.shape)
    paired = input.reshape([m for n in shape for m in (1, n)])
    wide = paired.expand([m for t, n in zip(times, shape, strict=True) for m in (t, n)])
    return apart(wide.reshape([t * n for t, n in zip(times, shape, strict=True)]), input)


def tile(input: Tensor, *dims: ax.Numbers) -> Tensor:
    """``repeat``, with ones in front of ``dims`` where they are fewer than those of ``input``."""
    times = ax.sizes(dims)
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each position of ``dim`` repeated: an int, or a tensor of one count per position.

    Without ``dim`` the elements of the flattened input; of counts alone, their positions.
    """
    if repeats is None:
        _check_counts(input, None)
        return _places(input, input.numel(), output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = ax.one(dim, input.ndim)
    if not isinstance(repeats, Tensor) and hasattr(repeats, "as_runtime_scalar"):
        repeats = sizes.integer(ax.integer("repeat_interleave", "repeats", repeats))
    if not isinstance(repeats, Tensor) and not isinstance(repeats, int):
        raise TypeError("repeat_interleave(): argument 'repeats' must be int or Tensor")
    if isinstance(repeats, Tensor) and repeats.numel() == 1 and not reads_elements():
        repeats = repeats.reshape(1).expand(input.shape[axis])  # the count of each is a symbol, this one too
    elif isinstance(repeats, int) or repeats.numel() == 1:
        count = repeats if isinstance(repeats, int) else int(repeats.item())
        if count < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = input.shape
        wide = input.unsqueeze(axis + 1).expand(*shape[: axis + 1], count, *shape[axis + 1 :])
        return apart(wide.reshape(*shape[:axis], shape[axis] * count, *shape[axis + 1 :]), input)
    _check_counts(repeats, input.shape[axis])
    places = beside(input, _places(repeats, input.shape[axis], output_size))
    return APPLY["index_select"](input, places, axis=axis)


def _places(repeats: Tensor, n: int, output_size: int | None) -> Tensor:
    """Which of ``n`` positions stands at each place of the result. Its length must be known: by
    ``output_size`` where the elements of ``repeats`` are not."""
    if output_size is None:
        return wrap(op_module.CONTEXT.get().evaluator.repeated_places(repeats._data))
    if reads_elements():
        places = np.repeat(np.arange(n), _concrete(repeats, "repeat_interleave()"))
        if places.size != output_size:
            raise RuntimeError(_OTHER_SIZE)
        return wrap(places)
    ends = APPLY["cumsum"](repeats.long(), axis=0)
    if output_size < 0 or (n == 0 and output_size) or (n and ends[-1] != output_size):
        raise RuntimeError(_OTHER_SIZE)
    line = op_module.CONTEXT.get().xp.iota(shape=(output_size,), axis=0, dtype=np.dtype(np.int64))
    return APPLY["searchsorted"](ends, wrap(line), right=True)


_OTHER_SIZE = "allocated size does not match required size"


def _check_counts(repeats: Tensor, n: int | None) -> None:
    if repeats.ndim > 1 or (n is None and repeats.ndim != 1):
        raise RuntimeError(
            "repeats must be 0-dim or 1-dim tensor" if n is not None else
            "repeat_interleave only accept 1D vector as repeat"
        )  # fmt: skip
    if repeats.dtype not in (dt.int64, dt.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if n is not None and repeats.numel() != n:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.numel()} and input.size(0) = {n}"
        )
    if (repeats < 0).any():
        raise RuntimeError("repeats can not be negative")


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """``expand``"""
    if hasattr(size, "__index__"):
        raise TypeError(
            f"broadcast_to(): argument 'size' (position 2) must be tuple of ints, not {type(size).__name__}"
        )
    return input.expand(*size)


def _broadcast_to(self: Tensor, *size: ax.Numbers) -> Tensor:
    """``expand``, to sizes one by one or as a sequence."""
    if not size:
        raise TypeError('broadcast_to() missing 1 required positional arguments: "size"')
    return self.expand(*ax.sizes(size))


_broadcast_to.__name__ = "broadcast_to"


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``expand`` to the shape of ``other``."""
    return input.expand(other.shape)


FUNCTIONS: dict[str, Callable] = {f.__name__: f for f in (tile, repeat_interleave, broadcast_to)}
METHODS: dict[str, Any] = FUNCTIONS | {
    "repeat": repeat, "expand_as": expand_as, "broadcast_to": _broadcast_to,
}  # fmt: skip
