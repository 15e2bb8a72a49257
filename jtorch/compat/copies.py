"""Views of PyTorch's that have a function which copies instead: ``torch.t_copy(x)`` is ``x.t().clone()``.

Source: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.eager.tensor import Tensor

VIEWS = {
    "alias_copy": "view_as", "as_strided_copy": "as_strided", "detach_copy": "detach",
    "diagonal_copy": "diagonal", "expand_copy": "expand", "narrow_copy": "narrow", "permute_copy": "permute",
    "select_copy": "select", "split_copy": "split", "split_with_sizes_copy": "split",
    "squeeze_copy": "squeeze",
    "t_copy": "t", "transpose_copy": "transpose", "unbind_copy": "unbind", "unfold_copy": "unfold",
    "unsafe_chunk": "chunk", "unsafe_split": "split", "unsafe_split_with_sizes": "split",
    "unsqueeze_copy": "unsqueeze", "view_copy": "view",
}  # fmt: skip


def __getattr__(name: str) -> Callable:
    """``t_copy`` and its kin."""
    if name not in VIEWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def copied(input: Tensor, *args: Any, **options: Any) -> Any:
        given = (input,) if name == "alias_copy" else args
        found = getattr(input, VIEWS[name])(*given, **options)
        return [t.clone() for t in found] if isinstance(found, (tuple, list)) else found.clone()

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"What ``Tensor.{VIEWS[name]}`` gives, in memory of its own."
    globals()[name] = copied
    return copied
