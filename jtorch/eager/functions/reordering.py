"""Functions that give dims, or the elements along them, another order.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core.op import BY_NAME
from jtorch.core.sizes import index
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.functions.parting import cut
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax

_cat = public_function(BY_NAME["cat"])


# -- dims --------------------------------------------------------------------------------------------------


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The dims ``source`` at the places ``destination``, the others in their order; a view."""
    n = input.ndim
    if source.__class__ is int is destination.__class__:
        old, new = ax.one(source, n), ax.one(destination, n)
        order = [k for k in range(n) if k != old]
        order.insert(new, old)
        return APPLY["permute"](input, axes=tuple(order[:n]))  # without dims there are 0 and -1 all the same
    source, destination = ((d,) if isinstance(d, int) else tuple(d) for d in (source, destination))
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source (" + f"{list(source)} dims) should contain "
            f"the same number of dims as destination ({list(destination)} dims)"
        )
    olds, news = ([ax.one(d, n) for d in dims] for dims in (source, destination))
    for given, dims, name in ((source, olds, "source"), (destination, news, "destination")):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    order = [k for k in range(n) if k not in olds]
    for place, axis in sorted(zip(news, olds, strict=True)):
        order.insert(place, axis)
    return APPLY["permute"](input, axes=tuple(order[:n]))


def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """``movedim``"""
    return movedim(input, source, destination)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose``"""
    return input.transpose(axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose``"""
    return input.transpose(dim0, dim1)


def adjoint(input: Tensor) -> Tensor:
    """The last two dims exchanged, and complex numbers conjugated."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D "
            "tensor."
        )
    turned = input.transpose(-2, -1)
    return turned.conj() if input.is_complex() else turned


def _transposed(self: Tensor) -> Tensor:
    """All dims in reverse order, as a view."""
    return APPLY["permute"](self, axes=tuple(range(self.ndim - 1, -1, -1)))


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two dims exchanged, as a view."""
    if self.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return self.transpose(-2, -1)


def _hermitian(self: Tensor) -> Tensor:
    """A matrix with its dims exchanged, and complex numbers conjugated."""
    if self.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return adjoint(self) if self.ndim else self.conj()


# -- elements ----------------------------------------------------------------------------------------------


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return input.flip(0)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved by ``shifts`` along ``dims``, what leaves at the end coming back in front."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        if not hasattr(shifts, "__index__") and len(tuple(shifts)) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    shifts, dims = ((v,) if hasattr(v, "__index__") else tuple(v) for v in (shifts, dims))
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    out = input
    for shift, dim in zip(shifts, dims, strict=True):
        axis = ax.one(dim, input.ndim)
        n = input.shape[axis] if input.ndim else 0
        shift = index(ax.integer("roll", "shifts", shift))
        if n and shift % n:
            at = n - shift % n
            out = _cat([cut(out, axis, at, n), cut(out, axis, 0, at)], axis)
    return APPLY["clone"](input) if out is input else out


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The plane of ``dims`` turned ``k`` times by 90 degrees, from the first dim towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (ax.one(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 0:
        return APPLY["clone"](input)
    if turns == 1:
        return input.flip(b).transpose(a, b)
    return input.flip(a, b) if turns == 2 else input.flip(a).transpose(a, b)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f for f in (movedim, moveaxis, swapaxes, swapdims, adjoint, fliplr, flipud, roll, rot90)
}
METHODS: dict[str, Any] = FUNCTIONS | {
    "T": property(_transposed), "mT": property(_matrix_transposed),
    "H": property(_hermitian), "mH": property(adjoint),
}  # fmt: skip
