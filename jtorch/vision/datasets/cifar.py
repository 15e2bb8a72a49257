"""CIFAR-10 and CIFAR-100, from the files of the "python version"."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.core.errors import DataError
from jtorch.utils.files import write_atomically
from jtorch.vision.datasets.base import VisionDataset
from jtorch.vision.datasets.batch_pickle import read_batch
from jtorch.vision.datasets.files import DatasetNotFoundError, check_md5, download
from jtorch.vision.image import from_array


class CIFAR10(VisionDataset):
    """60,000 colour images of 10 classes: 50,000 to train with, 10,000 to test with.

    ``data`` is a NumPy array uint8 (N, 32, 32, 3), ``targets`` a list. Item k is ``(image, class)``, the
    image one of Pillow's (without Pillow an ``ArrayImage``) unless ``transform`` makes something else of it.
    Files are looked for in ``root/cifar-10-batches-py``; with ``download`` the archive is fetched there.
    Raises DatasetNotFoundError (a RuntimeError) for files that are missing, DataError for one that is damaged
    or not the one published.
    Source: Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list: tuple[tuple[str, str], ...] = (
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    )
    test_list: tuple[tuple[str, str], ...] = (("test_batch", "40351d587109b95175f43aff81a1287e"),)
    meta = ("batches.meta", "label_names", "5ff9c542aee3614f3951f8cda6e48888")
    labels = "labels"

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
        if download:
            self.download()
        images: list[np.ndarray] = []
        self.targets: list[int] = []
        for name, checksum in self.train_list if train else self.test_list:
            pixels, targets = self._batch(name, checksum)
            images.append(pixels)
            self.targets += targets
        self.data = np.concatenate(images)
        name, key, checksum = self.meta
        self.classes: list[str] = [str(c) for c in self._entry(name, checksum)[key]]
        self.class_to_idx = {label: k for k, label in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(from_array(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"

    def _path(self, name: str) -> Path:
        return self.root / self.base_folder / name

    def _entry(self, name: str, checksum: str) -> dict[str, Any]:
        path = self._path(name)
        if not path.is_file():
            raise DatasetNotFoundError(
                "Dataset not found or corrupted. You can use download=True to download it: found no "
                f"{name} in {path.parent}"
            )
        content = path.read_bytes()
        check_md5(content, checksum, name, str(path))
        return read_batch(content, str(path))

    def _batch(self, name: str, checksum: str) -> tuple[np.ndarray, list[int]]:
        """(images (N, 32, 32, 3), classes). The file has rows of 3,072 bytes: red, green and blue planes."""
        entry = self._entry(name, checksum)
        pixels, targets = entry.get("data"), entry.get(self.labels)
        if not isinstance(pixels, np.ndarray) or pixels.shape != (len(targets or ()), 3072):
            raise DataError(f"{self._path(name)}: expected 3,072 bytes and one class for each image")
        planes = pixels.reshape(-1, 3, 32, 32)
        return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), [int(k) for k in targets or ()]

    def download(self) -> None:
        """Fetch and unpack the archive, where a file is missing."""
        wanted = [*self.train_list, *self.test_list, (self.meta[0], self.meta[2])]
        if all(self._path(name).is_file() for name, _ in wanted):
            return
        archive = self.root / self.filename
        if not archive.is_file():
            download(
                [self.url],
                archive,
                lambda raw, url: check_md5(raw, self.tgz_md5, self.filename, url),
            )
        content = archive.read_bytes()
        check_md5(content, self.tgz_md5, self.filename, str(archive))
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as members:
            for name, checksum in wanted:
                member = members.extractfile(f"{self.base_folder}/{name}")
                if member is None:
                    raise DataError(f"{archive}: {name} in it is no file")
                entry = member.read()
                check_md5(entry, checksum, name, f"{name} in {archive}")
                self._path(name).parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path(name), entry)


class CIFAR100(CIFAR10):
    """60,000 colour images of 100 classes, in the form of CIFAR-10; classes are the fine ones."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = (("train", "16019d7e3df5f24257cddd939b257f8d"),)
    test_list = (("test", "f0ef6b0ae62326f3e7ffdfab6717acfc"),)
    meta = ("meta", "fine_label_names", "7973b15100ade9c7d40fb424638fde48")
    labels = "fine_labels"
