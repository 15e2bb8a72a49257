"""Random images, to try a program without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jtorch
from jtorch.vision.datasets.base import VisionDataset
from jtorch.vision.transforms.functional import to_pil_image


class FakeData(VisionDataset):
    """``size`` images of noise, of ``image_size`` (C, H, W); item k is the same each time.

    Raises IndexError out of range.
    Source: https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.FakeData.html
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size = size
        self.num_classes = num_classes
        self.image_size = image_size
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        generator = jtorch.Generator().manual_seed(index + self.random_offset)
        noise = jtorch.randn(*self.image_size, generator=generator)
        target = jtorch.randint(0, self.num_classes, (1,), generator=generator).item()
        return self._transformed(to_pil_image(noise), target)

    def __len__(self) -> int:
        return self.size
