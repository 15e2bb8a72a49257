"""Any object of a .pt file, by Python's unpickler: it imports and calls whatever the file names."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from jtorch.core.errors import DataError
from jtorch.serialization.unpickle import Constructor


def loads(data: bytes, where: str, find: Callable[[str, str], Any], persistent: Callable[[Any], Any]) -> Any:
    """The object in ``data``; ``find`` gives what stands for PyTorch's globals, ``persistent`` storages.

    Raises DataError for damage, and what importing and calling the file's globals raises.
    """
    try:
        return _Unpickler(data, find, persistent).load()
    except (pickle.UnpicklingError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where}: a malformed pickle: {error}") from None


# Where modules lay that objects in files of before name.
_TO_CORE = ("devices", "dtypes", "generator", "memory_formats", "watch")
_MOVED = {
    **{f"jtorch.{name}": f"jtorch.core.{name}" for name in _TO_CORE},
    "jtorch.grad_scaler": "jtorch.amp.grad_scaler",
    "jtorch.type_info": "jtorch.eager.type_info",
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, find: Callable, persistent: Callable) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._find = find
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "torch":
            return super().find_class(_MOVED.get(module, module), name)
        found = self._find(module, name)
        return found.make if isinstance(found, Constructor) else found

    def persistent_load(self, pid: Any) -> Any:
        return self._persistent(pid)
