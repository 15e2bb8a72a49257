"""Transforms of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jtorch
from jtorch import nn
from jtorch.vision.transforms import functional as F
from jtorch.vision.transforms.arguments import happens, uniform


class Grayscale(nn.Module):
    """See ``functional.rgb_to_grayscale``."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_output_channels={self.num_output_channels})"


class RandomGrayscale(nn.Module):
    """Gray, with as many channels as before, with probability ``p``."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if not happens(self.p):
            return img
        return F.rgb_to_grayscale(img, F.get_image_num_channels(img))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class ColorJitter(nn.Module):
    """Brightness, contrast, saturation and hue changed at random, in a random order.

    A number x means a factor from [max(0, 1 - x), 1 + x], for the hue a turn from [-x, x]; a pair the bounds.
    Raises ValueError for numbers below 0 and bounds out of range, TypeError for anything else.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        self.brightness = _bounds("brightness", brightness)
        self.contrast = _bounds("contrast", contrast)
        self.saturation = _bounds("saturation", saturation)
        self.hue = _bounds("hue", hue, center=0.0, low=-0.5, high=0.5)

    def forward(self, img: Any) -> Any:
        changes = (
            (F.adjust_brightness, self.brightness),
            (F.adjust_contrast, self.contrast),
            (F.adjust_saturation, self.saturation),
            (F.adjust_hue, self.hue),
        )
        for k in jtorch.randperm(4).tolist():
            change, bounds = changes[k]
            if bounds is not None:
                img = change(img, uniform(*bounds))
        return img

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


def _bounds(
    name: str, value: Any, center: float = 1.0, low: float = 0.0, high: float = float("inf")
) -> tuple[float, float] | None:
    """(least, most); None where that changes nothing."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        bounds = [center - value, center + value]
        if name != "hue":
            bounds[0] = max(bounds[0], 0.0)
    elif isinstance(value, (tuple, list)) and len(value) == 2:
        bounds = [float(value[0]), float(value[1])]
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not low <= bounds[0] <= bounds[1] <= high:
        raise ValueError(f"{name} values should be between ({low}, {high}), but got {bounds}.")
    return None if bounds[0] == bounds[1] == center else (float(bounds[0]), float(bounds[1]))
