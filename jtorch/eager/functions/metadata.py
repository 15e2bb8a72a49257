"""Questions about tensors, and in-place changes of shape: the same memory under another shape.

Source: https://docs.pytorch.org/docs/stable/torch.html#tensors
"""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable
from typing import Any

from jtorch.core import op as op_module
from jtorch.core.errors import CompileError, user_source
from jtorch.eager.captured import UNDER_WAY, refuse_captured
from jtorch.eager.duals import tangent_of
from jtorch.eager.grad_mode import enable_grad
from jtorch.eager.rebase import LEAF, VIEW_OF_LEAF, leaf_renamed, renamed
from jtorch.eager.tensor import Tensor, has_elements, is_held_outside, put_on_tape
from jtorch.eager.views import list_all, living


def numel(input: Tensor) -> int:
    """How many elements there are."""
    if not isinstance(input, Tensor):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input.numel()


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floats."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0. Raises RuntimeError where there are more or none."""
    if input.numel() != 1:
        many = "more than one value" if input.numel() else "no values"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""
    return input.shape == other.shape


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates in ``shape`` of positions in its flattened elements."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.is_floating_point() or indices._data.dtype.kind == "b":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices = indices.long()
    return tuple((indices // math.prod(sizes[k + 1 :])) % n for k, n in enumerate(sizes))


# -- the same memory under another shape --------------------------------------------------------------------


def _renamed(name: str, function: Callable) -> Callable:
    """The method ``name``: this very tensor becomes the view that ``function`` makes of it."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if UNDER_WAY:
            refuse_captured(self, name)
        tracked = self._requires_grad and op_module.CONTEXT.get().grad
        if tracked and self._node is None:
            raise RuntimeError(LEAF if self._base is None else VIEW_OF_LEAF)
        # a view is made anew from its base where that is asked for under no_grad, too, as in PyTorch
        followed = tracked or (self._requires_grad and self._node is not None and self._base is not None)
        if tracked:
            list_all(self)
            if self._base is not None or living(self):
                raise NotImplementedError(
                    f"{name}() of a tensor that has views, or is one, where gradients flow through it: use "
                    f"{name.rstrip('_')}()"
                )
        with enable_grad() if followed else contextlib.nullcontext():
            made = function(self, *args, **kwargs)
        outside = is_held_outside(self) and not has_elements(made)
        if outside and (self._requires_grad or not op_module.CONTEXT.get().evaluator.made(self)):
            raise CompileError(
                f"{user_source()}: {name}() of a tensor made outside, which a recording would do once: "
                f"use {name.rstrip('_')}(), or call it outside."
            )
        tangent = tangent_of(made)
        may_be_followed = self._node is not None or not self._requires_grad  # what is written to it, later
        if has_elements(self) and not tracked and may_be_followed:
            renamed(self, name)
        elif has_elements(self) and not tracked and not gc.get_freeze_count():
            leaf_renamed(self, name)
        self.data = made
        if followed:
            put_on_tape(self, (made._node, made._index, True))
        self._how = None  # how the view was made no longer tells its shape
        if tangent is not None:
            op_module.CONTEXT.get().level.give(self, tangent)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name.rstrip('_')}``, changing the shape of this very tensor."
    return method


def _method_of(name: str) -> Callable:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(self, name)(*args, **kwargs)

    return call


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal of a matrix, or of a tensor of equal sizes."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if wrap:
        raise NotImplementedError("fill_diagonal_(): wrap=True is not there yet")
    if self.ndim == 2:
        self.diagonal().fill_(fill_value)
        return self
    places = tuple(range(n) for n in self.shape)
    self[places] = fill_value
    return self


FUNCTIONS: dict[str, Callable] = {
    f.__name__: f
    for f in (
        numel, is_tensor, is_floating_point, is_complex, is_nonzero, is_same_size, unravel_index,
    )
}  # fmt: skip
METHODS: dict[str, Any] = {"is_nonzero": is_nonzero, "is_same_size": is_same_size}
METHODS["fill_diagonal_"] = fill_diagonal_
METHODS |= {
    f"{name}_": _renamed(f"{name}_", _method_of(name))
    for name in ("unsqueeze", "squeeze", "t", "transpose", "swapaxes", "swapdims", "as_strided")
}
