"""``map_location``: where a file's tensors go. It decides what is an error: tensors are loaded to
the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jtorch.core.devices import check


def check_places(map_location: Any) -> None:
    """Raise for a ``map_location`` that names a device this build lacks, or that is none."""
    if map_location is None or callable(map_location):
        return
    for place in map_location.values() if isinstance(map_location, Mapping) else (map_location,):
        if check(place).type != "cpu":
            raise NotImplementedError(
                f"map_location={place!r}: jtorch loads tensors to the CPU; load with map_location='cpu' and "
                "move what was loaded by .to('cuda')"
            )


def place(map_location: Any, storage: Any, location: str) -> None:
    """Raise unless a tensor that was saved on ``location`` may be loaded here."""
    if isinstance(map_location, Mapping):
        location = str(map_location.get(location, location))
    elif callable(map_location):
        placed = map_location(storage, location)
        if placed is not None and placed is not storage:
            raise NotImplementedError(
                f"map_location returned a {type(placed).__name__}; it may return the storage it is given, or "
                "None"
            )
        location = "cpu" if placed is storage else location
    elif map_location is not None:
        return
    kind = location.partition(":")[0]
    if kind != "cpu":
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind.upper()} device but this build runs on 'cpu'. "
            "Please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
