"""From a list of items to one batch, and from one item to tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import jtorch
from jtorch.eager.public import Tensor

_NO_NUMBERS = "SaUO"  # NumPy's kinds of arrays that no tensor can hold
_REFUSAL = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}. Give "
    "DataLoader a collate_fn that knows it."
)


def default_collate(batch: Any) -> Any:
    """Tensors are stacked, numbers become a tensor, tuples and dicts are collated part by part.

    Raises RuntimeError for items of different lengths, TypeError for what it can't put together.

    >>> import jtorch
    >>> jtorch.utils.data.default_collate([{"label": 3, "name": "a"}, {"label": 7, "name": "b"}])
    {'label': tensor([3, 7]), 'name': ['a', 'b']}
    >>> jtorch.utils.data.default_collate([jtorch.zeros(2, 5), jtorch.zeros(2, 5), jtorch.zeros(2, 5)]).shape
    torch.Size([3, 2, 5])

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """NumPy arrays and numbers inside ``data`` become tensors; all else stays as it is.

    >>> import jtorch
    >>> import numpy as np
    >>> jtorch.utils.data.default_convert({"x": np.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}

    Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_convert
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in _NO_NUMBERS else jtorch.as_tensor(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence):
        return like_sequence(data, [default_convert(part) for part in data])
    return data


def collate(batch: Any, *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """One batch of a list: by the function of the items' type in ``collate_fn_map``, else part by part."""
    first = batch[0]
    known = collate_fn_map or {}
    if type(first) in known:
        return known[type(first)](batch, collate_fn_map=collate_fn_map)
    for kind, function in known.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        parts = {key: collate([item[key] for item in batch], collate_fn_map=collate_fn_map) for key in first}
        return like_mapping(first, parts)
    if isinstance(first, Sequence):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = zip(*batch, strict=True)
        return like_sequence(first, [collate(column, collate_fn_map=collate_fn_map) for column in columns])
    raise TypeError(_REFUSAL.format(type(first)))


def like_mapping(model: Mapping[Any, Any], parts: dict[Any, Any]) -> Any:
    """A mapping of ``model``'s type: a copy of it where it can be changed, for what else it may carry."""
    try:
        if isinstance(model, MutableMapping):
            clone = copy.copy(model)
            clone.update(parts)
            return clone
        return type(model)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def like_sequence(model: Sequence[Any], parts: list[Any]) -> Any:
    """A sequence of ``model``'s type; a list for a tuple, as PyTorch has it."""
    if isinstance(model, tuple):
        return type(model)(*parts) if hasattr(model, "_fields") else parts
    try:
        if isinstance(model, MutableSequence):
            clone = copy.copy(model)
            for k, part in enumerate(parts):
                clone[k] = part
            return clone
        return type(model)(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def _tensors(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return jtorch.stack(list(batch))


def _arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    if batch[0].dtype.kind in _NO_NUMBERS:
        raise TypeError(_REFUSAL.format(batch[0].dtype))
    return collate([jtorch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _array_scalars(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return jtorch.as_tensor(np.array(batch))


def _floats(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return jtorch.tensor(list(batch), dtype=jtorch.float64)


def _ints(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    return jtorch.tensor(list(batch))


def _texts(batch: Any, *, collate_fn_map: Any = None) -> Any:
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: _tensors,
    np.ndarray: _arrays,
    (np.bool_, np.number, np.object_): _array_scalars,
    float: _floats,
    int: _ints,
    str: _texts,
    bytes: _texts,
}
