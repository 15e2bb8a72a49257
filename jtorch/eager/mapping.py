"""Python's functions, called for each element: on this host, one after the other, and on no tape.

Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.map_.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.eager.inplace import write
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor, _concrete, wrap


def map_(self: Tensor, other: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by ``callable(element, element of other)``, which broadcasts."""
    return _mapped("map_", self, (other,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Each element replaced by ``callable(element, element of x, element of y)``; both broadcast."""
    return _mapped("map2_", self, (x, y), callable)


def _mapped(name: str, self: Tensor, others: tuple[Any, ...], callable: Callable) -> Tensor:
    for k, other in enumerate(others, 1):
        said = "other" if len(others) == 1 else "xy"[k - 1]
        if not isinstance(other, Tensor):
            raise TypeError(
                f"{name}(): argument '{said}' (position {k}) must be Tensor, not {type(other).__name__}"
            )
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {_type_of(self)} for '{said}' (got {_type_of(other)})")
    if self.requires_grad or any(other.requires_grad for other in others):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    arrays = [_concrete(t, f"{name}()") for t in (self, *(o.expand(self.shape) for o in others))]
    found = np.empty(arrays[0].shape, arrays[0].dtype)
    rows = (a.ravel().tolist() for a in arrays)
    for place, numbers in zip(np.ndindex(found.shape), zip(*rows, strict=True), strict=True):
        found[place] = callable(*numbers)
    write(self, wrap(found)._data)
    return self


def _type_of(tensor: Tensor) -> str:
    return f"torch.{long_name(tensor._data.dtype)}Tensor"
