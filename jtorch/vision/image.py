"""The images that datasets give: Pillow's where Pillow is installed, else ``ArrayImage``."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

try:
    import PIL.Image

    _pillow: Any = PIL.Image
except ImportError:
    _pillow = None

_MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


class ArrayImage:
    """An image of 8 bits a channel, for where Pillow is not installed: ``mode``, ``size`` (width, height).

    All transforms but rotation take it as they take Pillow's; ``numpy.asarray(image)`` (H, W[, C]).
    Raises ValueError for an array of another dtype or shape.
    """

    def __init__(self, array: Any, mode: str | None = None) -> None:
        pixels = np.asarray(array)
        channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
        if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or channels not in _MODES.values():
            raise ValueError(
                f"ArrayImage: expected uint8 (H, W) or (H, W, 1 to 4), got {pixels.dtype} {pixels.shape}"
            )
        found = next(name for name, count in _MODES.items() if count == channels)
        if mode not in (None, found):
            raise ValueError(f"ArrayImage: {channels} channels are mode {found}, not {mode}")
        self.mode = found
        self._pixels = pixels[:, :, 0] if pixels.ndim == 3 and channels == 1 else pixels

    @property
    def size(self) -> tuple[int, int]:
        return self._pixels.shape[1], self._pixels.shape[0]

    @property
    def width(self) -> int:
        return self.size[0]

    @property
    def height(self) -> int:
        return self.size[1]

    def getbands(self) -> tuple[str, ...]:
        return tuple(self.mode)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._pixels, dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayImage) and np.array_equal(self._pixels, other._pixels)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<ArrayImage mode={self.mode} size={self.width}x{self.height}>"


def pillow(what: str) -> ModuleType:
    """``PIL.Image``. Raises ImportError, naming ``what`` needs it, where Pillow is not installed."""
    if _pillow is None:
        raise ImportError(f"{what} needs Pillow: python -m pip install pillow")
    return _pillow


def has_pillow() -> bool:
    return _pillow is not None


def is_pillow(value: Any) -> bool:
    return _pillow is not None and isinstance(value, _pillow.Image)


def is_image(value: Any) -> bool:
    return isinstance(value, ArrayImage) or is_pillow(value)


def from_array(array: np.ndarray, mode: str | None = None) -> Any:
    """The image of an array (H, W) or (H, W, C); of ``mode``, where Pillow has several for that shape."""
    if _pillow is None:
        return ArrayImage(array, mode)
    if mode in ("YCbCr", "HSV", "CMYK", "RGBX"):  # which Pillow would take for RGB or RGBA
        return _pillow.frombytes(mode, array.shape[1::-1], np.ascontiguousarray(array).tobytes())
    return _pillow.fromarray(np.ascontiguousarray(array))
