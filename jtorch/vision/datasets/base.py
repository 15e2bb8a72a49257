"""What all image datasets have: a folder, transforms, and their repr."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jtorch.utils.data import Dataset


class StandardTransform:
    """``transform`` of the image and ``target_transform`` of its class, as one function of both."""

    def __init__(self, transform: Any = None, target_transform: Any = None) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, image: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for name, transform in (
            ("Transform: ", self.transform),
            ("Target transform: ", self.target_transform),
        ):
            if transform is not None:
                first, *rest = repr(transform).splitlines()
                lines += [name + first, *(" " * len(name) + line for line in rest)]
        return "\n".join(lines)


class VisionDataset(Dataset):
    """Base class of image datasets.

    Raises ValueError for ``transforms`` (of image and target together) beside either of the others.
    """

    def __init__(
        self,
        root: str | os.PathLike | None = None,
        transforms: Callable[[Any, Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.root: Any = Path(root) if root is not None else None
        self.transform = transform
        self.target_transform = target_transform
        if transform is not None or target_transform is not None:
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Through the two attributes, which may have been set since."""
        return StandardTransform(self.transform, self.target_transform)(image, target)

    def __len__(self) -> int:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Further lines for the repr."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if self.transforms is not None:
            body += repr(self.transforms).splitlines()
        return "\n".join([f"Dataset {type(self).__name__}", *("    " + line for line in body)])
