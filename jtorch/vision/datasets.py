"""MNIST, from its files in the IDX format, raw or gzipped.

Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/ (which also describes IDX).
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.eager.creation import from_numpy
from jtorch.eager.tensor import Tensor
from jtorch.errors import DataError
from jtorch.utils.data.dataset import Dataset
from jtorch.utils.files import write_atomically

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
CHECKSUMS = {  # MD5 of the uncompressed content
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
_LARGEST = 64 << 20  # bytes; a gzip file that unpacks to more is not MNIST
_IDX_DTYPES = {
    0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8",
}  # fmt: skip


class MNIST(Dataset):
    """70,000 handwritten digits: 60,000 to train with, 10,000 to test with.

    ``data`` is uint8 (N, 28, 28), ``targets`` int64 (N,). Item k is ``(image, class)``, the image uint8
    (28, 28) unless ``transform`` makes something else of it. Files are looked for in ``root`` and in
    ``root/MNIST/raw``; with ``download`` those that are absent are fetched there.
    Raises DataError for a file that is missing, damaged or not the one published.
    """

    classes = (
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
        "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
    )  # fmt: skip

    def __init__(
        self,
        root: str | os.PathLike,
        train: bool = True,
        transform: Callable[[Tensor], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        download: bool = False,
    ) -> None:
        self.root = Path(root)
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        part = "train" if train else "t10k"
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (_published(self.root, name, download) for name in names)
        self.data: Any = from_numpy(images)
        self.targets: Any = from_numpy(labels.astype(np.int64))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = self.data[index]
        target: Any = int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        split = "Train" if self.train else "Test"
        return (
            f"Dataset MNIST\n    Number of datapoints: {len(self)}\n    Root location: {self.root}\n"
            f"    Split: {split}"
        )


def _published(root: Path, name: str, download: bool) -> np.ndarray:
    """The array in the file ``name``, checked against its published checksum."""
    path = _find(root, name)
    if path is None:
        if not download:
            raise DataError(
                f"MNIST: found neither {name} nor {name}.gz in {root} or {root / 'MNIST' / 'raw'}; put the "
                "file there or pass download=True"
            )
        path = _download(root, name)
    content = _content(path)
    _check(content, name, str(path))
    return read_idx(content, str(path))


def _find(root: Path, name: str) -> Path | None:
    places = (root, root / "MNIST" / "raw")
    candidates = (place / (name + ending) for place in places for ending in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def _check(content: bytes, name: str, where: str) -> None:
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != CHECKSUMS[name]:
        raise DataError(
            f"{where}: not the published {name}: its {len(content)} bytes have the MD5 {found}, expected "
            f"{CHECKSUMS[name]}. Delete the file and fetch it again."
        )


def _content(path: Path) -> bytes:
    """The bytes of a file, unpacked where it is gzipped."""
    raw = path.read_bytes()
    return _unpacked(raw, str(path)) if raw[:2] == b"\x1f\x8b" else raw


def _unpacked(raw: bytes, where: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)  # 31: gzip's header and checksum
    try:
        content = unpacker.decompress(raw, _LARGEST)
    except zlib.error as error:
        raise DataError(f"{where}: damaged gzip data ({error})") from None
    if not unpacker.eof:
        reason = "unpacks to too much for MNIST" if unpacker.unconsumed_tail else "is cut off"
        raise DataError(
            f"{where}: the gzip data {reason} ({len(raw)} bytes, {len(content)} unpacked)"
        )
    return content


def read_idx(content: bytes, where: str = "IDX data") -> np.ndarray:
    """The array in the bytes of an IDX file. Raises DataError, naming ``where``, for anything else.

    The format: two zero bytes, a type code, the number of dims, each dim as a big-endian uint32, the
    elements in row-major order.
    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_DTYPES:
        raise DataError(
            f"{where}: not an IDX file: it begins with {content[:4].hex(' ') or 'nothing'}, expected "
            "00 00, a type code and the number of dims"
        )
    ndim = content[3]
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(
            f"{where}: cut off in the header: {len(content)} bytes, expected at least {start}"
        )
    shape = struct.unpack(f">{ndim}I", content[4:start])
    dtype = np.dtype(_IDX_DTYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            f"{where}: {len(content)} bytes, expected {expected} for shape {list(shape)} of {dtype.name}"
        )
    elements = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return elements.astype(dtype.newbyteorder("="))


def _download(root: Path, name: str) -> Path:
    """Fetch a file from the first mirror that has the right one; nothing else is kept."""
    failures = []
    for mirror in MIRRORS:
        url = f"{mirror}{name}.gz"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                raw = answer.read(_LARGEST)
            _check(_unpacked(raw, url), name, url)
        except (urllib.error.URLError, OSError, DataError) as error:
            failures.append(f"{url}: {error}")
            continue
        path = root / "MNIST" / "raw" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, raw)
        return path
    raise DataError(f"MNIST: could not download {name}:\n  " + "\n  ".join(failures))
