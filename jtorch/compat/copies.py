"""Views of PyTorch's that have a function which copies instead: ``torch.t_copy(x)`` is ``x.t().clone()``;
and those that the tape takes for no views: ``torch.unsafe_split``.

Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.binding import accepting
from jtorch.eager.functions.complex_numbers import view_as_complex, view_as_real
from jtorch.eager.tensor import Tensor, wrap

VIEWS = {
    "alias_copy": "view_as", "as_strided_copy": "as_strided", "detach_copy": "detach",
    "diagonal_copy": "diagonal", "expand_copy": "expand", "narrow_copy": "narrow", "permute_copy": "permute",
    "select_copy": "select", "split_copy": "split", "split_with_sizes_copy": "split",
    "squeeze_copy": "squeeze",
    "t_copy": "t", "transpose_copy": "transpose", "unbind_copy": "unbind", "unfold_copy": "unfold",
    "unsqueeze_copy": "unsqueeze", "view_copy": "view",
}  # fmt: skip
UNSAFE = {"unsafe_chunk": "chunk", "unsafe_split": "split", "unsafe_split_with_sizes": "split"}


def __getattr__(name: str) -> Callable:
    """``t_copy`` and its kin, ``unsafe_split`` and its kin."""
    if name in UNSAFE:
        return globals().setdefault(name, _unsafe(name))
    if name not in VIEWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def copied(input: Tensor, *args: Any, **options: Any) -> Any:
        given = (input,) if name == "alias_copy" else args
        found = getattr(input, VIEWS[name])(*given, **options)
        return tuple(t.clone() for t in found) if isinstance(found, (tuple, list)) else found.clone()

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"What ``Tensor.{VIEWS[name]}`` gives, in memory of its own."
    globals()[name] = copied
    return copied


@accepting
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:  # fmt: skip
    """``input[start:end:step]`` along ``dim``, in memory of its own.

    Raises RuntimeError for a ``step`` below 1, IndexError for a ``dim`` that is not there.

    >>> import jtorch
    >>> jtorch.slice_copy(jtorch.arange(6), 0, 1, 6, 2)
    tensor([1, 3, 5])
    """
    if step < 1:
        raise RuntimeError("slice step must be positive")
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got "
            f"{dim})"
        )
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()


@accepting
def view_as_real_copy(input: Tensor) -> Tensor:
    """What ``view_as_real`` gives, in memory of its own: (..., 2)."""
    return view_as_real(input).clone()


@accepting
def view_as_complex_copy(input: Tensor) -> Tensor:
    """What ``view_as_complex`` gives of (..., 2), in memory of its own."""
    return view_as_complex(input).clone()


def _unsafe(name: str) -> Callable:
    def parted(input: Tensor, *args: Any, **options: Any) -> tuple[Tensor, ...]:
        return tuple(_unmarked(part) for part in getattr(input, UNSAFE[name])(*args, **options))

    parted.__name__ = parted.__qualname__ = name
    parted.__doc__ = (
        f"What ``Tensor.{UNSAFE[name]}`` gives, of the same memory, but no views to the tape: they may be "
        "written to where gradients flow, and count writes each by itself. Whether gradients are right "
        "then is the program's own affair."
    )
    return parted


def _unmarked(part: Tensor) -> Tensor:
    """``part`` as a tensor that is nobody's view."""
    return wrap(part._data, (part._node, part._index) if part._node is not None else None)
