"""Functions that take tensors apart into views, and their opposites that write a part.

Source: https://docs.pytorch.org/docs/stable/torch.html#indexing-slicing-joining-mutating-ops
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import sizes
from jtorch.core.dim import most
from jtorch.core.op import BY_NAME, CONTEXT, Op
from jtorch.eager.binding import APPLY
from jtorch.eager.index_items import is_array
from jtorch.eager.indexing import getitem
from jtorch.eager.rebase import OneOfSeveral, several
from jtorch.eager.results import needs_no_op, note_view, off_tape
from jtorch.eager.tensor import Tensor
from jtorch.ops import axes as ax


def cut(input: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Positions ``start`` to ``stop`` of ``axis``, as a view."""
    shape = input._data.shape
    ndim = len(shape)
    begin = (0,) * axis + (start,) + (0,) * (ndim - axis - 1)
    return APPLY["slice"](
        input, start=begin, stop=(*shape[:axis], stop, *shape[axis + 1 :]), step=(1,) * ndim
    )


def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` positions of ``dim`` from ``start`` on, as a view."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis, n = ax.one(dim, input.ndim), input.shape[ax.one(dim, input.ndim)]
    start = int(start) if is_array(start) else sizes.integer(ax.integer("narrow", "start", start))
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start += n if start < 0 else 0
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return cut(input, axis, start, start + length)


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``narrow`` in memory of its own."""
    return APPLY["clone"](narrow(input, dim, start, length))


def select(input: Tensor, dim: int, index: Any) -> Tensor:
    """One position of ``dim``, which disappears; a view."""
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = ax.one(dim, input.ndim)
    if is_array(index) and not index.ndim:
        return getitem(input, (*[slice(None)] * axis, index.long()))
    return APPLY["select"](input, axis=axis, index=_position(input, axis, index))


def _position(input: Tensor, axis: int, index: Any) -> int:
    n, index = input.shape[axis], sizes.index(ax.integer("select", "index", index))
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {axis}"
        )
    return index + n if index < 0 else index


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """One view per position of ``dim``."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    axis = ax.one(dim, input.ndim)
    before = (slice(None),) * axis
    indices = [(*before, k, ...) for k in range(input._data.shape[axis])]
    return _views(input, BY_NAME["select"], indices, lambda k: (axis, k), "Unbind")


def _parts(input: Tensor, axis: int, pairs: Sequence[tuple[int, int]], name: str = "") -> tuple[Tensor, ...]:
    """The views of positions from one number to another; ``name`` is for ``several``, where they are."""
    shape, before = input._data.shape, (slice(None),) * axis

    def statics(k: int) -> tuple:
        start, stop = pairs[k]
        begin = (0,) * axis + (start,) + (0,) * (len(shape) - axis - 1)
        return begin, (*shape[:axis], stop, *shape[axis + 1 :]), (1,) * len(shape)

    return _views(input, BY_NAME["slice"], [(*before, slice(*pair)) for pair in pairs], statics, name)


def _views(
    input: Tensor, op: Op, indices: Sequence[tuple], statics: Callable[[int], tuple], name: str
) -> tuple[Tensor, ...]:
    """Views by ``op``, each by NumPy's index or by the op's statics."""
    context, data = CONTEXT.get(), input._data
    if not needs_no_op(input, context):
        view, each = APPLY[op.name], range(len(indices))
        views = tuple([view(input, **dict(zip(op.statics, statics(k), strict=True))) for k in each])
        return several(views, name) if name else views
    cell, made = input._cell, []
    how: Any = None
    for place, index in enumerate(indices):  # without a node nothing else is left of what an op does
        part = off_tape(data[index], cell)
        if context.grad:
            how = OneOfSeveral(input, op, statics, place, name) if name else (input, op, *statics(place))
        note_view(part, input, how)
        made.append(part)
    return tuple(made)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of ``split_size`` positions each (the last may be smaller), or of the given lengths."""
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    size, axis = split_size_or_sections, ax.one(dim, tensor.ndim)
    n = tensor.shape[axis]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0:
        if n:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}"
            )
        return several((cut(tensor, axis, 0, 0),), "Split")
    count = int(-(-most(n, 1) // size))
    bounds = [*(k * size for k in range(count)), n]
    return _parts(tensor, axis, [*itertools.pairwise(bounds)], "Split")


def _split_method(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of ``split_size`` positions each (the last may be smaller), or of the given lengths."""
    return split(self, split_size, dim)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given lengths, which add up to the size of ``dim``."""
    axis = ax.one(dim, input.ndim)
    lengths = [sizes.integer(ax.integer("split_with_sizes", "split_sizes", k)) for k in split_sizes]
    if any(k < 0 for k in lengths):
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={lengths}"
        )
    n = input.shape[axis]
    if sum(lengths) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension "
            f"{dim}), but got split_sizes={lengths}"
        )
    return _parts(input, axis, _side_by_side(lengths), "SplitWithSizes")


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` views of equal length."""
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[ax.one(dim, input.ndim)]
    if n == 0:
        return tuple(cut(input, ax.one(dim, input.ndim), 0, 0) for _ in range(chunks))
    return split(input, max(-(-n // chunks), 1), dim)


def _one_of(name: str, both: Any, indices: Any, sections: Any) -> Any:
    """Where to split: PyTorch's overloads call it ``indices`` or ``sections``."""
    given = [value for value in (both, indices, sections) if value is not None]
    if len(given) != 1:
        raise TypeError(f"{name}() takes either indices or sections")
    return given[0]


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: int | None = None, tensor_indices_or_sections: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Views between the given positions; or ``sections`` of them, the first ones longer by one."""
    given = indices_or_sections if tensor_indices_or_sections is None else tensor_indices_or_sections
    indices_or_sections = _one_of("tensor_split", given, indices, sections)
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = ax.one(dim, input.ndim)
    n = input.shape[axis]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                "one-dimensional tensor, but got a tensor with "
                f"{indices_or_sections.ndim} dims"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
        small, longer = divmod(n, sections)
        lengths = [small + (k < longer) for k in range(sections)]
        return _parts(input, axis, _side_by_side(lengths))
    places = [slice(None, k).indices(n)[1] for k in indices_or_sections]
    return _parts(input, axis, [(a, most(a, b)) for a, b in itertools.pairwise([0, *places, n])])


def _side_by_side(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Where pieces of these lengths begin and end."""
    return [*itertools.pairwise(itertools.accumulate(lengths, initial=0))]


def _split_along(name: str, least: int, axis_of: Callable[[Tensor], int]) -> Callable:
    def function(
        input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: int | None = None
    ) -> tuple[Tensor, ...]:
        indices_or_sections = _one_of(name, indices_or_sections, indices, sections)
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'' if least == 1 else 's'}, but got a tensor with {input.ndim} dimensions!"
            )
        axis = axis_of(input)
        if isinstance(indices_or_sections, int):
            n, sections = input.shape[axis], indices_or_sections
            if sections <= 0 or n % sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {axis}, but the size of the dimension "
                    f"{n} is not divisible by the split_size {sections}!"
                )
        return tensor_split(input, indices_or_sections, axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "``tensor_split`` along the dim that the name says, into equal parts."
    return function


hsplit = _split_along("hsplit", 1, lambda t: 0 if t.ndim == 1 else 1)
vsplit = _split_along("vsplit", 2, lambda t: 0)
dsplit = _split_along("dsplit", 3, lambda t: 2)


# -- a part replaced -------------------------------------------------------------------------------


def _write_part(input: Tensor, src: Tensor, start: Any, stop: Any, step: Any, name: str) -> Tensor:
    shape = tuple(max(0, -(-(e - b) // s)) for b, e, s in zip(start, stop, step, strict=True))
    if tuple(src.shape) != shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )
    return APPLY["slice_put"](input, src.to(input.dtype), start=start, stop=stop, step=step)


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` at one position of ``dim``."""
    axis = ax.one(dim, input.ndim)
    place = _position(input, axis, index)
    if tuple(src.shape) != (*input.shape[:axis], *input.shape[axis + 1 :]):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {[*input.shape[:axis], *input.shape[axis + 1 :]]}"
        )
    start = tuple(place if k == axis else 0 for k in range(input.ndim))
    stop = tuple(place + 1 if k == axis else n for k, n in enumerate(input.shape))
    return _write_part(input, src.unsqueeze(axis), start, stop, (1,) * input.ndim, "select_scatter")


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of ``input`` with ``src`` at the positions ``start:end:step`` of ``dim``."""
    axis = ax.one(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    b, e, _ = slice(start, end, step).indices(input.shape[axis])
    begin = tuple(b if k == axis else 0 for k in range(input.ndim))
    stop = tuple(max(b, e) if k == axis else n for k, n in enumerate(input.shape))
    steps = tuple(step if k == axis else 1 for k in range(input.ndim))
    return _write_part(input, src, begin, stop, steps, "slice_scatter")


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of ``input`` with ``src`` on one of its diagonals."""
    seen = input.diagonal(offset, dim1, dim2)
    if seen.shape != src.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(seen.shape)}"
        )
    axis1, axis2 = ax.one(dim1, input.ndim), ax.one(dim2, input.ndim)
    return APPLY["diagonal_put"](input, src.to(input.dtype), offset=offset, axis1=axis1, axis2=axis2)


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        narrow, narrow_copy, select, unbind, split, split_with_sizes, chunk, tensor_split, hsplit, vsplit,
        dsplit, select_scatter, slice_scatter, diagonal_scatter,
    )
}  # fmt: skip
METHODS: dict[str, Any] = FUNCTIONS | {"split": _split_method}
