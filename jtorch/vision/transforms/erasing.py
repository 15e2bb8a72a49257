"""A random rectangle erased."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jtorch
from jtorch import nn
from jtorch.eager.public import Tensor
from jtorch.vision.transforms import functional as F
from jtorch.vision.transforms.arguments import happens, uniform, whole


class RandomErasing(nn.Module):
    """A random rectangle of a tensor (..., C, H, W) made ``value``, with probability ``p``.

    ``scale`` bounds its share of the area, ``ratio`` its height over its width. ``value``: a number, one for
    each channel, or "random" for noise.
    Source: Zhong et al., "Random erasing data augmentation", https://arxiv.org/abs/1708.04896
    """

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(value, (int, float, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        for name, pair in (("Scale", scale), ("Ratio", ratio)):
            if not isinstance(pair, Sequence):
                raise TypeError(f"{name} should be a sequence")
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: Sequence[float], ratio: Sequence[float], value: Any = None
    ) -> tuple[int, int, int, int, Any]:
        """(top, left, height, width, value); the whole image where ten tries give none that fits."""
        channels, height, width = img.shape[-3:]
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = math.exp(uniform(math.log(ratio[0]), math.log(ratio[1])))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if not (h < height and w < width):
                continue
            content = (
                jtorch.randn(channels, h, w, dtype=img.dtype if img.is_floating_point() else None)
                if value is None
                else jtorch.tensor(value, dtype=img.dtype).reshape(-1, 1, 1)
            )
            return whole(0, height - h + 1), whole(0, width - w + 1), h, w, content
        return 0, 0, height, width, img

    def forward(self, img: Tensor) -> Tensor:
        if not happens(self.p):
            return img
        values: Any = [self.value] if isinstance(self.value, (int, float)) else self.value
        if isinstance(values, str):
            values = None
        elif len(values) not in (1, img.shape[-3]):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{img.shape[-3]} (number of input channels)"
            )
        place = self.get_params(img, self.scale, self.ratio, values)
        return F.erase(img, *place, self.inplace)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
            f"value={self.value}, inplace={self.inplace})"
        )
