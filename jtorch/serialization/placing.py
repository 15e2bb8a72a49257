"""``map_location``: where a file's tensors go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jtorch.core.devices import CPU, DeviceError, check, cuda_is_available, device
from jtorch.eager.public import Tensor, Uploads


class Storage:
    """The bytes of a file's tensors, which a function as ``map_location`` is given, and gives back: as it is
    for the host, or ``storage.cuda()``."""

    def __init__(self, content: np.ndarray) -> None:
        self.content = content

    def size(self) -> int:
        """Bytes."""
        return self.content.nbytes

    nbytes = __len__ = size

    def cpu(self) -> Storage:
        """The same: they are read to the host's memory."""
        return self

    def cuda(self, device: Any = None) -> Placed:
        """The same, to be put on the device. Raises DeviceError where there is none."""
        return Placed(self, located("cuda" if device is None else device))


class Placed:
    """What ``storage.cuda()`` gives: a storage, and the device it is to be put on."""

    def __init__(self, storage: Storage, place: device) -> None:
        self.storage, self.device = storage, place


class Places:
    """Where the storages of one file go, and its tensors over them."""

    def __init__(self, map_location: Any) -> None:
        self.map_location = map_location
        self._uploads = Uploads()
        self._known: dict[int, tuple[np.ndarray, device]] = {}

    def of(self, storage: Storage, location: str) -> device:
        """The device for a storage that was saved on ``location``. Raises DeviceError for one that is not
        here, NotImplementedError where a function gives anything but its storage."""
        if isinstance(self.map_location, Mapping):
            return located(self.map_location.get(location, location))
        if _is_function(self.map_location):
            placed = self.map_location(storage, location)
            if placed is None:
                return located(location)
            if placed is storage:
                return CPU
            if isinstance(placed, Placed) and placed.storage is storage:
                return placed.device
            raise NotImplementedError(
                f"map_location returned a {type(placed).__name__}; it may return the storage it is given, "
                "storage.cuda(), or None"
            )
        return located(location if self.map_location is None else self.map_location)

    def tensor(self, array: np.ndarray, whole: np.ndarray, place: device) -> Tensor:
        """A tensor of ``array``, which is a window of ``whole``: of such a one all share memory."""
        return self._uploads.tensor(array, whole, place)

    def loaded(self, array: np.ndarray, whole: np.ndarray) -> Tensor:
        """The same from a file that has no word for where its tensors were: from the host, that is."""
        if id(whole) not in self._known:
            self._known[id(whole)] = whole, self.of(Storage(whole), "cpu")
        return self.tensor(array, whole, self._known[id(whole)][1])


def _is_function(map_location: Any) -> bool:
    return callable(map_location) and not isinstance(map_location, device)  # which decorates functions


def check_places(map_location: Any) -> None:
    """Raise for a ``map_location`` that names a device this machine lacks, or that is none."""
    if map_location is None or _is_function(map_location):
        return
    for place in map_location.values() if isinstance(map_location, Mapping) else (map_location,):
        located(place)


def located(place: Any) -> device:
    """The device of that name. Raises DeviceError where tensors can't be loaded to it."""
    wanted = device(place)
    if wanted.type == "cuda" and cuda_is_available():
        if wanted.index:
            raise DeviceError(
                f"Attempting to deserialize object on CUDA device {wanted.index} but "
                "torch.cuda.device_count() is 1. Please use torch.load with map_location to map your "
                "storages to an existing device."
            )
        return check(wanted)
    if wanted.type == "cpu":
        return CPU
    kind = wanted.type.upper()
    lacks = "torch.cuda.is_available() is False" if kind == "CUDA" else "jtorch has no such device"
    raise DeviceError(
        f"Attempting to deserialize object on a {kind} device but {lacks}. If you are running on a CPU-only "
        "machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the "
        "CPU."
    )
