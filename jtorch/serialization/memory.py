"""Which tensors of an object are one memory: what both writers ask before they store elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jtorch.eager.tensor import Tensor


class Stored(NamedTuple):
    """One memory to write: its elements in order, and the number it was met under."""

    array: np.ndarray
    number: int
    is_new: bool


class Memories:
    """Numbers the memories of tensors in the order they are met."""

    def __init__(self) -> None:
        self._met: dict[tuple, Stored] = {}
        self._kept: list[Any] = []  # what is alive can't have its address given to something else

    def of(self, tensor: Tensor) -> Stored:
        """The memory of ``tensor``, shared with every earlier tensor of the very same elements."""
        array = tensor.detach().numpy()
        self._kept.append(array)
        address = array.__array_interface__["data"][0] if array.size else -len(self._kept)
        key = (address, array.dtype, array.shape, array.strides)
        known = self._met.get(key)
        if known is not None:
            return known._replace(is_new=False)
        elements = np.ascontiguousarray(array).reshape(array.shape)
        stored = self._met[key] = Stored(elements, len(self._met), True)
        return stored


def path_text(place: tuple[Any, ...]) -> str:
    """``obj['model'][0]``: the place of a value inside the object that is saved."""
    return "obj" + "".join(f"[{step!r}]" for step in place)


class NotPlainError(TypeError):
    """The object has something in it that is no plain data."""


def refusal(value: Any, place: tuple[Any, ...]) -> NotPlainError:
    """The error for a value that is no plain data."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return NotPlainError(
        f"jtorch.save: {path_text(place)}: {name} can't be saved. It takes tensors, numbers, strings, None, "
        "dtypes, "
        "devices, dicts, OrderedDicts, Counters, lists and tuples. Of a module, optimizer or scheduler save "
        "its "
        "state_dict(), of an array jtorch.from_numpy(array), of another kind of dict or list dict(...) or "
        "list(...)."
    )


def key_refusal(key: Any, place: tuple[Any, ...]) -> NotPlainError:
    return NotPlainError(
        f"jtorch.save: {path_text(place)}: a dict with a key of type {type(key).__name__}; keys are strings, "
        "numbers, bools or None"
    )
