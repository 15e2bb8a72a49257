"""Images sorted into one folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jtorch.vision.datasets.base import VisionDataset
from jtorch.vision.image import pillow

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


def default_loader(path: str) -> Any:
    """The image in a file, as RGB."""
    with Path(path).open("rb") as file:
        return pillow("ImageFolder").open(file).convert("RGB")


def find_classes(directory: str | os.PathLike) -> tuple[list[str], dict[str, int]]:
    """(names of the folders in ``directory``, sorted; the number of each)."""
    classes = sorted(path.name for path in Path(directory).iterdir() if path.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: k for k, name in enumerate(classes)}


def make_dataset(
    directory: str | os.PathLike,
    class_to_idx: dict[str, int],
    extensions: str | tuple[str, ...] | None = None,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
) -> list[tuple[str, int]]:
    """(path, class) of all files of a class's folder that end in one of ``extensions`` or are found valid.

    Raises ValueError unless there is one of those two, FileNotFoundError for a class without files.
    """
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("Both extensions and is_valid_file cannot be None or not None at the same time")
    endings = (extensions,) if isinstance(extensions, str) else extensions
    valid = is_valid_file or (lambda path: path.lower().endswith(endings or ()))
    found, empty = [], []
    for name in sorted(class_to_idx):
        walk = sorted(os.walk(Path(directory) / name, followlinks=True))
        paths = [str(Path(folder) / file) for folder, _, files in walk for file in sorted(files)]
        chosen = [(path, class_to_idx[name]) for path in paths if valid(path)]
        if not chosen:
            empty.append(name)
        found += chosen
    if empty and not allow_empty:
        text = f"Found no valid file for the classes {', '.join(sorted(empty))}. "
        if endings is not None:
            text += f"Supported extensions are: {', '.join(endings)}"
        raise FileNotFoundError(text)
    return found


class DatasetFolder(VisionDataset):
    """Files in ``root/class/...``, each made an item by ``loader``.

    ``samples`` is the list of (path, class), ``targets`` that of the classes.
    Source: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.DatasetFolder.html
    """

    def __init__(
        self,
        root: str | os.PathLike,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes, self.class_to_idx = self.find_classes(root)
        self.loader = loader
        self.extensions = extensions
        self.samples = make_dataset(root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    def find_classes(self, directory: str | os.PathLike) -> tuple[list[str], dict[str, int]]:
        """For subclasses to choose other classes."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._transformed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images in ``root/class/...``; needs Pillow to read them. ``imgs`` is ``samples``.

    Raises ImportError without Pillow, unless there is a ``loader``.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        if loader is default_loader:
            pillow("ImageFolder")
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples
