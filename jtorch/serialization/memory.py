"""What the writers ask about tensors: which are one memory, which class comes back, what hangs on them."""

from __future__ import annotations

import copyreg
from typing import Any, NamedTuple

import numpy as np

from jtorch.eager.public import Tensor
from jtorch.nn.parameter import Buffer, Parameter
from jtorch.serialization.unpickle import Keys


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


def class_of(tensor: Tensor) -> type[Tensor] | None:
    """The class of which plain data gives ``tensor`` back; None for one that only pickling keeps.

    A subclass of Parameter comes back as a Parameter, as in PyTorch.
    """
    kind = type(tensor)
    if kind in (Tensor, Parameter, Buffer):
        return kind
    as_parameter = isinstance(tensor, Parameter) and kind.__reduce_ex__ is Parameter.__reduce_ex__
    return Parameter if as_parameter else None


def state_of(tensor: Tensor) -> Any:
    """What hangs on ``tensor``, as PyTorch has it: attributes, or (attributes, those of slots), or None."""
    if type(tensor).__getstate__ is not object.__getstate__:
        return tensor.__getstate__()
    named = dict(tensor.__dict__)
    if isinstance(tensor, Buffer):
        named = {"persistent": tensor.persistent, **named}
    if type(tensor) is Buffer:  # which in PyTorch is a Tensor with this mark
        named["_is_buffer"] = True
    names: Any = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    slots = {n: getattr(tensor, n) for n in names if n not in _OWN_SLOTS and hasattr(tensor, n)}
    return (named or None, slots) if slots else named or None


_OWN_SLOTS = frozenset(copyreg._slotnames(Buffer))  # type: ignore[attr-defined]


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
        "dtypes, devices, dicts, OrderedDicts, Counters, lists and tuples. Of a module, optimizer or "
        "scheduler save its state_dict(), of an array jtorch.from_numpy(array), of a tensor of another class "
        "tensor.as_subclass(jtorch.Tensor), of another kind of dict or list dict(...) or list(...)."
    )


def key_refusal(key: Any, place: tuple[Any, ...]) -> NotPlainError:
    return NotPlainError(
        f"jtorch.save: {path_text(place)}: a dict with a key of type {type(key).__name__}; keys are strings, "
        "numbers, bools or None"
    )


def checked_key(keys: Keys, key: Any, place: tuple[Any, ...]) -> Any:
    """``key``, which reading must accept: one that it refuses would make a file that can't be loaded."""
    if key is not None and not isinstance(key, (str, int, float)):
        raise key_refusal(key, place)
    try:
        return keys.checked(key)
    except ValueError as error:
        raise NotPlainError(f"jtorch.save: {path_text(place)}: a dict with {error}") from None
