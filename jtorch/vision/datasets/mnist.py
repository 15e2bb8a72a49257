"""MNIST and the datasets made to take its place, from their files in the IDX format, raw or gzipped."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jtorch
from jtorch.core.errors import DataError
from jtorch.vision.datasets.base import VisionDataset
from jtorch.vision.datasets.files import DatasetNotFoundError, check_md5, download, md5, unpacked
from jtorch.vision.datasets.idx import read_idx
from jtorch.vision.image import from_array


def _renamed(old: str, new: str) -> property:
    """What early scripts call ``data`` and ``targets``, of either part; it warns, as torchvision's does."""

    def get(dataset: MNIST) -> Any:
        warnings.warn(f"{old} has been renamed {new}", stacklevel=2)
        return getattr(dataset, new)

    return property(get)


class MNIST(VisionDataset):
    """70,000 handwritten digits: 60,000 to train with, 10,000 to test with.

    ``data`` is uint8 (N, 28, 28), ``targets`` int64 (N,). Item k is ``(image, class)``, the image one of
    Pillow's (without Pillow an ``ArrayImage``) unless ``transform`` makes something else of it. Files are
    looked for in ``root/MNIST/raw`` and in ``root``; with ``download`` those that are absent are fetched.
    Raises DatasetNotFoundError (a RuntimeError) for files that are missing, DataError for one that is damaged
    or not the one published.
    Source: LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist/
    """

    mirrors: tuple[str, ...] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    # MD5 of each file as it is published, and of its content, for those who packed it again
    resources: tuple[tuple[str, str], ...] = (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
    contents: dict[str, str] = {  # noqa: RUF012 - one table for the class, never written to
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }
    classes: list[str] = [  # noqa: RUF012
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
        "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: str | os.PathLike,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        part = "train" if train else "t10k"
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (self._published(name, download) for name in names)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{type(self).__name__}: images {images.shape} and labels {labels.shape} differ")
        self.data: Any = jtorch.from_numpy(images)
        self.targets: Any = jtorch.from_numpy(labels.astype(np.int64))

    train_data, train_labels = _renamed("train_data", "data"), _renamed("train_labels", "targets")
    test_data, test_labels = _renamed("test_data", "data"), _renamed("test_labels", "targets")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = from_array(self.data[index].numpy())
        return self._transformed(image, int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def raw_folder(self) -> str:
        return str(self.root / type(self).__name__ / "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.classes)}

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"

    def _published(self, name: str, fetch: bool) -> np.ndarray:
        """The array in the file ``name``, checked against its published checksum."""
        path = self._find(name)
        if path is None and not fetch:
            raise DatasetNotFoundError(
                "Dataset not found. You can use download=True to download it, or put the files there: found "
                f"neither {name} nor {name}.gz in {self.raw_folder} or {self.root}"
            )
        if path is None:
            target = Path(self.raw_folder) / f"{name}.gz"
            urls = [f"{mirror}{name}.gz" for mirror in self.mirrors]
            path = download(urls, target, lambda raw, url: self._check(name, raw, url))
        raw = path.read_bytes()
        self._check(name, raw, str(path))
        return read_idx(_content(raw, str(path)), str(path))

    def _find(self, name: str) -> Path | None:
        places = (Path(self.raw_folder), self.root)
        candidates = (place / (name + ending) for place in places for ending in ("", ".gz"))
        return next((path for path in candidates if path.is_file()), None)

    def _check(self, name: str, raw: bytes, where: str) -> None:
        """Raise DataError for another file than the published one. Packed anew, the content decides."""
        packed = raw[:2] == b"\x1f\x8b"
        if packed and md5(raw) == dict(self.resources)[f"{name}.gz"]:
            return
        content = _content(raw, where)
        if name in self.contents:
            check_md5(content, self.contents[name], name, where)
        elif packed:  # of an unpacked file without a known checksum its header must do
            check_md5(raw, dict(self.resources)[f"{name}.gz"], f"{name}.gz", where)


def _content(raw: bytes, where: str) -> bytes:
    return unpacked(raw, where) if raw[:2] == b"\x1f\x8b" else raw


class FashionMNIST(MNIST):
    """70,000 pictures of clothes, in the form of MNIST. Files are in ``root/FashionMNIST/raw``.

    Source: Xiao, Rasul and Vollgraf, https://github.com/zalandoresearch/fashion-mnist
    """

    mirrors = ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",)
    resources = (
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    )
    contents: dict[str, str] = {}  # noqa: RUF012
    classes = [  # noqa: RUF012
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """70,000 handwritten hiragana, in the form of MNIST. Files are in ``root/KMNIST/raw``.

    Source: Clanuwat et al., https://github.com/rois-codh/kmnist
    """

    mirrors = ("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",)
    resources = (
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    )
    contents: dict[str, str] = {}  # noqa: RUF012
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]  # noqa: RUF012
