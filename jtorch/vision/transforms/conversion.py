"""Between images, arrays and tensors, and between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

import jtorch
from jtorch.eager.public import Tensor
from jtorch.vision.image import from_array, is_image


def _pixels(image: Any) -> np.ndarray:
    """(H, W, C), writable, of the dtype that torchvision reads this mode as."""
    dtype = {"I": np.int32, "F": np.float32, "I;16": np.uint16}.get(image.mode, np.uint8)
    pixels = np.array(image, dtype=dtype)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _channels_first(pixels: np.ndarray) -> Tensor:
    return jtorch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def to_tensor(pic: Any) -> Tensor:
    """(C, H, W) of an image or an array (H, W, C) or (H, W): bytes become float32 in [0, 1].

    Raises TypeError for anything else, ValueError for an array of other dims.
    Source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToTensor.html
    """
    if not (is_image(pic) or isinstance(pic, np.ndarray)):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = pic if pic.ndim == 3 else pic[:, :, None]
    else:
        pixels = _pixels(pic)
        if pic.mode == "1":
            pixels *= 255
        elif pic.mode == "I;16":  # torchvision gives int16 here
            pixels = pixels.astype(np.int16)
    out = _channels_first(pixels)
    return out.to(jtorch.get_default_dtype()) / 255 if out.dtype is jtorch.uint8 else out


def pil_to_tensor(pic: Any) -> Tensor:
    """(C, H, W) of an image, values as they are. Raises TypeError for anything else."""
    if not is_image(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    pixels = _pixels(pic)
    return _channels_first(pixels.astype(np.int32) if pixels.dtype == np.uint16 else pixels)


_MODES: dict[int, tuple[str, ...]] = {
    2: ("LA",),
    3: ("RGB", "YCbCr", "HSV"),
    4: ("RGBA", "CMYK", "RGBX"),
}
_GRAYS = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """The image of a tensor (C, H, W) or (H, W), or of an array (H, W, C) or (H, W).

    Floats of a tensor are taken to be in [0, 1] (except for ``mode="F"``).
    Raises TypeError for what is neither, or for a dtype without a mode; ValueError for other dims and modes.
    Source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ToPILImage.html
    """
    if not isinstance(pic, (Tensor, np.ndarray)):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    pixels = _bytes_last(pic, mode) if isinstance(pic, Tensor) else pic
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    channels = pixels.shape[-1]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if channels == 1:
        gray = _GRAYS.get(pixels.dtype.name)
        if mode is not None and mode != gray:
            raise ValueError(
                f"Incorrect mode ({mode}) supplied for input type {pixels.dtype}. Should be {gray}"
            )
        mode, pixels = gray, pixels[:, :, 0]
    else:
        permitted = _MODES[channels]
        if mode is not None and mode not in permitted:
            raise ValueError(f"Only modes {list(permitted)} are supported for {channels}D inputs")
        if mode is None and pixels.dtype == np.uint8:
            mode = permitted[0]
    if mode is None:
        raise TypeError(f"Input type {pixels.dtype} is not supported")
    if mode == "I;16":
        pixels = pixels.astype(np.uint16)
    return from_array(pixels, mode)


def _bytes_last(pic: Tensor, mode: str | None) -> np.ndarray:
    """The array (H, W, C) of a tensor; floats as bytes, cut off towards 0 and wrapped round."""
    image = pic.detach().unsqueeze(0) if pic.ndim == 2 else pic.detach()
    if image.is_floating_point() and mode != "F":
        image = (image * 255).to(jtorch.int64).to(jtorch.uint8)
    return np.ascontiguousarray(image.numpy().transpose(1, 2, 0))


def convert_image_dtype(image: Tensor, dtype: Any = None) -> Tensor:
    """The image in another dtype, values scaled to its range: [0, 1] for floats (default: float32).

    Raises TypeError for no tensor, RuntimeError where the float cannot hold the integer's range.
    Source: https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.ConvertImageDtype.html
    """
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    target = jtorch.float32 if dtype is None else dtype
    if image.dtype is target:
        return image
    to_float = jtorch.empty(0, dtype=target).is_floating_point()
    if image.is_floating_point():
        if to_float:
            return image.to(target)
        wide = (jtorch.int64,) if image.dtype is jtorch.float64 else (jtorch.int32, jtorch.int64)
        if target in wide:
            raise RuntimeError(f"The cast from {image.dtype} to {target} cannot be performed safely.")
        return (image * (_highest(target) + 1.0 - 1e-3)).to(target)
    if to_float:
        return image.to(target) / _highest(image.dtype)
    high, highest = _highest(image.dtype), _highest(target)
    if high > highest:
        return image.floor_divide((high + 1) // (highest + 1)).to(target)
    return image.to(target) * ((highest + 1) // (high + 1))


def _highest(dtype: Any) -> int:
    return 1 if dtype is jtorch.bool else int(np.iinfo(dtype.name).max)
