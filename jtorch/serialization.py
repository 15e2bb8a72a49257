"""``jtorch.save`` and ``jtorch.load``: nested containers with tensors in them, as a safetensors file.

The tensors are the file's tensors, named by their place ("model.0.weight"), so any safetensors reader sees
them; the structure around them is JSON in the file's metadata. Reading looks up values and never runs
code. Source of the format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jtorch import dtypes as dt
from jtorch.eager.creation import from_numpy
from jtorch.eager.tensor import Tensor
from jtorch.errors import DataError
from jtorch.nn.parameter import Parameter
from jtorch.utils.files import write_atomically

_KEY = "jtorch"  # the metadata entry that holds the structure
_VERSION = 1
_DEEPEST = 100  # nesting; a state dict has about five levels


def save(obj: Any, path: str | os.PathLike) -> None:
    """Write ``obj`` to ``path``, whole or not at all.

    ``obj`` is a tensor, number, string, None, or a dict, list or tuple of such; dict keys are strings or
    numbers. Tensors come back equal and those that were one object come back as one. Raises TypeError,
    naming the place, for anything else.
    """
    from safetensors.numpy import save as to_bytes

    writer = _Writer()
    structure = {"version": _VERSION, "object": writer.describe(obj, ())}
    metadata = {_KEY: json.dumps(structure, separators=(",", ":"))}
    write_atomically(_as_path(path, "save"), to_bytes(writer.tensors, metadata))


def load(path: str | os.PathLike) -> Any:
    """What ``save`` wrote to ``path``; for a safetensors file made elsewhere, the dict of its tensors.

    Raises FileNotFoundError where there is no file, DataError for one that is cut off or malformed.
    """
    from safetensors import SafetensorError, safe_open

    source = _as_path(path, "load")
    if not source.is_file():
        raise FileNotFoundError(f"jtorch.load: no file at {source}")
    try:
        with safe_open(str(source), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, ValueError, TypeError, MemoryError, OSError) as error:
        size = source.stat().st_size
        raise DataError(
            f"{source}: can not be read as a safetensors file ({size} bytes): {error}"
        ) from None
    for name, array in arrays.items():
        if array.dtype not in dt.OF_NUMPY:
            raise DataError(
                f"{source}: tensor {name!r} has the dtype {array.dtype}, which jtorch lacks"
            )
    if _KEY not in metadata:
        return {name: from_numpy(array) for name, array in arrays.items()}
    return _Reader(str(source), arrays).read(metadata[_KEY])


def _as_path(path: Any, name: str) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"jtorch.{name}: expected a path, got {type(path).__name__}")
    return Path(path)


class _Writer:
    """Describes an object as JSON and collects its tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        self.names: dict[int, str] = {}  # id of a tensor -> its name in the file

    def describe(self, value: Any, place: tuple[str, ...]) -> Any:
        """None, bools and strings stand for themselves; everything else is ``{kind: ...}``."""
        if len(place) > _DEEPEST:
            raise TypeError(
                f"jtorch.save: nested deeper than {_DEEPEST} levels; does it contain itself?"
            )
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Tensor):
            return self._tensor(value, place)
        if isinstance(value, int):
            return {"int": str(int(value))}
        if isinstance(value, float):
            return {"float": float(value).hex()}
        if isinstance(value, dt.dtype):
            return {"dtype": value.name}
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self.describe(v, (*place, str(k))) for k, v in enumerate(value)]}
        if isinstance(value, Mapping):
            return {"dict": [self._item(k, v, place) for k, v in value.items()]}
        raise TypeError(
            f"jtorch.save: can't save {type(value).__module__}.{type(value).__qualname__} at "
            f"{'.'.join(place) or 'the top'}; it takes tensors, numbers, strings, None, dicts, lists and "
            "tuples. Of a module or optimizer save its state_dict(), of an array jtorch.from_numpy(array)."
        )

    def _item(self, key: Any, value: Any, place: tuple[str, ...]) -> list[Any]:
        if not isinstance(key, (str, int, float)):
            raise TypeError(
                f"jtorch.save: the dict at {'.'.join(place) or 'the top'} has a key of type "
                f"{type(key).__name__}; keys are strings or numbers"
            )
        inner = (*place, str(key))
        return [self.describe(key, inner), self.describe(value, inner)]

    def _tensor(self, tensor: Tensor, place: tuple[str, ...]) -> dict[str, Any]:
        name = self.names.get(id(tensor))
        if name is None:
            name = ".".join(place) or "tensor"
            while name in self.tensors:
                name += "_"
            self.names[id(tensor)] = name
            self.tensors[name] = np.ascontiguousarray(tensor.detach().numpy()).reshape(tensor.shape)
        kind = "parameter" if isinstance(tensor, Parameter) else "tensor"
        return {kind: name, "requires_grad": tensor.requires_grad}


class _Reader:
    """Builds an object from its description; whatever is not as ``_Writer`` writes it is a DataError."""

    def __init__(self, where: str, arrays: dict[str, np.ndarray]) -> None:
        self.where = where
        self.arrays = arrays
        self.made: dict[str, Tensor] = {}

    def read(self, text: str) -> Any:
        try:
            structure = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._bad(f"its structure is not JSON: {error}") from None
        if not isinstance(structure, dict) or "object" not in structure:
            raise self._bad("its structure has no object")
        if structure.get("version") != _VERSION:
            raise self._bad(
                f"it has format version {structure.get('version')!r}, expected {_VERSION}"
            )
        return self._build(structure["object"], 0)

    def _bad(self, reason: str) -> DataError:
        return DataError(f"{self.where}: not a file of jtorch.save: {reason}")

    def _build(self, node: Any, depth: int) -> Any:
        if depth > _DEEPEST + 1:
            raise self._bad(f"nested deeper than {_DEEPEST} levels")
        if node is None or isinstance(node, (bool, str)):
            return node
        if not isinstance(node, dict) or not node:
            raise self._bad(f"a {type(node).__name__} in the structure where a value was expected")
        kind = next(iter(node))
        content = node[kind]
        if kind in ("tensor", "parameter"):
            return self._tensor(kind, content, node)
        if kind in ("list", "tuple") and isinstance(content, list):
            values = [self._build(v, depth + 1) for v in content]
            return values if kind == "list" else tuple(values)
        if kind == "dict" and isinstance(content, list):
            return dict(self._pair(item, depth + 1) for item in content)
        if isinstance(content, str):
            return self._plain(kind, content)
        raise self._bad(f"unknown kind of value {kind!r}")

    def _plain(self, kind: str, text: str) -> Any:
        try:
            if kind == "int":
                return int(text)
            if kind == "float":
                return float.fromhex(text)
        except (ValueError, OverflowError):
            raise self._bad(f"{text[:40]!r} is no {kind}") from None
        if kind == "dtype":
            for d in dt.ALL:
                if d.name == text:
                    return d
        raise self._bad(f"unknown value {text[:40]!r} of kind {kind!r}")

    def _pair(self, item: Any, depth: int) -> tuple[Any, Any]:
        if not isinstance(item, list) or len(item) != 2:
            raise self._bad("a dict's item that is no pair")
        key = self._build(item[0], depth)
        if not isinstance(key, (str, int, float)):
            raise self._bad(f"a dict's key of type {type(key).__name__}")
        return key, self._build(item[1], depth)

    def _tensor(self, kind: str, name: Any, node: dict[str, Any]) -> Tensor:
        if not isinstance(name, str) or name not in self.arrays:
            raise self._bad(
                f"the structure names the tensor {str(name)[:80]!r}, which is not in the file"
            )
        requires_grad = node.get("requires_grad")
        array = self.arrays[name]
        if not isinstance(requires_grad, bool) or (requires_grad and array.dtype.kind != "f"):
            raise self._bad(f"requires_grad of tensor {name!r} is {requires_grad!r}")
        if name not in self.made:
            tensor = from_numpy(array)
            if kind == "parameter":
                tensor = Parameter(tensor, requires_grad=requires_grad)
            self.made[name] = tensor.requires_grad_(requires_grad)
        return self.made[name]
