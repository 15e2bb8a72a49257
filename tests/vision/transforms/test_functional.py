"""Deterministic transforms: tensors, Pillow's images and arrays agree, and with NumPy and PyTorch."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

import jtorch
from jtorch.vision.image import ArrayImage
from jtorch.vision.transforms import functional as F

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)
TENSOR = jtorch.from_numpy(PIXELS.transpose(2, 0, 1).copy())


def pillow(pixels=PIXELS):
    pytest.importorskip("PIL", reason="compares with Pillow, which is not installed")
    from PIL import Image

    return Image.fromarray(pixels)


def pixels_of(image):
    if isinstance(image, jtorch.Tensor):
        return image.numpy().transpose(1, 2, 0)
    return np.asarray(image)


EXACT = {
    "hflip": lambda x: F.hflip(x),
    "vflip": lambda x: F.vflip(x),
    "crop": lambda x: F.crop(x, 1, 2, 4, 5),
    "crop beyond": lambda x: F.crop(x, -2, -1, 12, 20),
    "crop far away": lambda x: F.crop(x, 20, 3, 4, 5),
    "center_crop": lambda x: F.center_crop(x, [4, 5]),
    "center_crop of more": lambda x: F.center_crop(x, 8),
    "pad": lambda x: F.pad(x, 2, 7),
    "pad by two": lambda x: F.pad(x, (1, 2)),
    "pad by four": lambda x: F.pad(x, [1, 2, 3, 4], 5),
    "pad less than nothing": lambda x: F.pad(x, [-1, 2, -3, 0]),
    "edge": lambda x: F.pad(x, [1, 2, 3, 4], padding_mode="edge"),
    "reflect": lambda x: F.pad(x, [1, 2, 3, 4], padding_mode="reflect"),
    "symmetric": lambda x: F.pad(x, [1, 2, 3, 4], padding_mode="symmetric"),
    "nearest": lambda x: F.resize(x, [7, 9], F.InterpolationMode.NEAREST),
}


@pytest.mark.parametrize("name", EXACT)
def test_all_kinds_of_image_agree(name):
    change = EXACT[name]
    expected = pixels_of(change(TENSOR))
    array = change(ArrayImage(PIXELS))
    assert isinstance(array, ArrayImage)
    np.testing.assert_array_equal(np.asarray(array), expected)
    np.testing.assert_array_equal(pixels_of(change(pillow())), expected)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad_is_numpys(mode):
    expected = np.pad(PIXELS, ((2, 4), (1, 3), (0, 0)), mode)
    np.testing.assert_array_equal(pixels_of(F.pad(TENSOR, [1, 2, 3, 4], padding_mode=mode)), expected)


def test_crop_fills_with_black():
    out = F.crop(TENSOR, -2, -1, 5, 4)
    assert out.shape == (3, 5, 4) and out[:, :2].sum() == 0 and out[:, :, 0].sum() == 0
    assert out[:, 2:, 1:].equal(TENSOR[:, :3, :3])


@pytest.mark.parametrize("size", [(3, 4), (14, 5), (7, 20), (1, 1)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_equals_pytorch(size, mode, antialias):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    data = np.random.default_rng(1).random((2, 3, 7, 9))
    ours = F.resize(jtorch.tensor(data), list(size), F.InterpolationMode(mode), antialias=antialias)
    theirs = torch.nn.functional.interpolate(
        torch.from_numpy(data), size=size, mode=mode, antialias=antialias, align_corners=False
    )
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("size", [(3, 4), (14, 5), (7, 20)])
def test_resize_to_the_nearest_equals_pytorch(mode, size):
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    ours = F.resize(TENSOR, list(size), F.InterpolationMode(mode))
    theirs = torch.nn.functional.interpolate(torch.tensor(TENSOR.numpy()[None]), size=size, mode=mode)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy()[0])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resize_of_bytes_is_within_one_of_pillow(mode):
    ours = pixels_of(F.resize(TENSOR, [4, 20], F.InterpolationMode(mode))).astype(int)
    theirs = pixels_of(F.resize(pillow(), [4, 20], F.InterpolationMode(mode))).astype(int)
    assert ours.shape == theirs.shape == (4, 20, 3) and np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [
        (14, None, (14, 18)),
        ([14], None, (14, 18)),
        (10, 11, (9, 11)),
        ([3, 2], None, (3, 2)),
        (7, None, (7, 9)),
    ],
)
def test_the_shorter_side(size, max_size, expected):
    assert F.resize(TENSOR, size, max_size=max_size).shape[-2:] == expected
    turned = F.resize(TENSOR.transpose(1, 2), size, max_size=max_size)
    assert turned.shape[-2:] == (expected if isinstance(size, list) and len(size) == 2 else expected[::-1])


def test_gradients_go_through():
    def change(x):
        x = F.pad(F.hflip(F.resize(x, [5, 4])), 1, padding_mode="reflect")
        return F.adjust_brightness(F.center_crop(x, 4), 0.9)

    x = jtorch.tensor(np.random.default_rng(2).random((3, 6, 7)), requires_grad=True)
    assert jtorch.autograd.gradcheck(change, (x,))


def test_gray():
    red, green, blue = PIXELS.transpose(2, 0, 1).astype(np.float32)
    expected = (np.float32(0.2989) * red + np.float32(0.587) * green + np.float32(0.114) * blue).astype(
        np.uint8
    )
    out = F.rgb_to_grayscale(TENSOR, 3)
    assert out.shape == (3, 7, 9) and out[0].equal(out[2])
    np.testing.assert_array_equal(out[1].numpy(), expected)
    gray = pixels_of(F.to_grayscale(pillow())).astype(int)
    assert np.abs(gray - expected).max() <= 1
    assert F.rgb_to_grayscale(out[:1]).equal(out[:1]) and F.to_grayscale(ArrayImage(PIXELS)).mode == "L"


def test_brightness_contrast_saturation():
    image = TENSOR.float() / 255
    for change in (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation):
        assert change(image, 1.0).allclose(image)
        assert change(image, 3.0).max() <= 1 and change(TENSOR, 3.0).dtype is jtorch.uint8
    assert F.adjust_brightness(image, 0.0).abs().sum() == 0
    np.testing.assert_allclose(F.adjust_brightness(image, 0.5).numpy(), image.numpy() / 2, rtol=1e-6)
    gray = F.rgb_to_grayscale(image)
    assert F.adjust_contrast(image, 0.0).allclose(gray.mean().expand(3, 7, 9))
    assert F.adjust_saturation(image, 0.0).allclose(gray.expand(3, 7, 9))
    assert F.adjust_saturation(gray, 0.3).equal(gray)


@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.0, 0.3, 0.5])
def test_hue_is_that_of_the_standard_library(factor):
    image = jtorch.tensor(PIXELS.transpose(2, 0, 1) / 255.0)
    image[:, 0, 0] = 0.25  # gray: has no hue
    out = F.adjust_hue(image, factor).numpy()
    for y in range(7):
        for x in range(9):
            h, s, v = colorsys.rgb_to_hsv(*image.numpy()[:, y, x])
            np.testing.assert_allclose(out[:, y, x], colorsys.hsv_to_rgb((h + factor) % 1, s, v), atol=1e-12)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
@pytest.mark.parametrize("factor", [0.0, 0.6, 1.7])
def test_colours_are_within_two_of_pillow(name, factor):
    change = getattr(F, f"adjust_{name}")
    ours, theirs = (pixels_of(change(x, factor)).astype(int) for x in (TENSOR, pillow()))
    assert np.abs(ours - theirs).max() <= 2


def test_rotation_is_pillows():
    turned = F.rotate(pillow(), 90, expand=True)
    np.testing.assert_array_equal(np.asarray(turned), np.rot90(PIXELS))
    assert np.asarray(F.rotate(pillow(), 45, fill=200))[0, 0].tolist() == [200, 200, 200]
    assert F.adjust_hue(pillow(), 0.0).mode == "RGB"
    with pytest.raises(NotImplementedError, match="rotate: for Pillow's images alone"):
        F.rotate(TENSOR, 3)


def test_erase():
    out = F.erase(TENSOR, 1, 2, 3, 4, 9)
    assert (out[:, 1:4, 2:6] == 9).all() and out[:, 0].equal(TENSOR[:, 0])
    assert TENSOR.numpy().transpose(1, 2, 0).tolist() == PIXELS.tolist()
    copy = TENSOR.clone()
    assert F.erase(copy, 0, 0, 1, 1, 3, inplace=True) is copy and copy[0, 0, 0] == 3


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 4, 5)])
def test_normalize(shape):
    data = np.random.default_rng(3).random(shape).astype(np.float32)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    expected = (data - np.array(mean, np.float32)[:, None, None]) / np.array(std, np.float32)[:, None, None]
    image = jtorch.tensor(data)
    np.testing.assert_array_equal(F.normalize(image, mean, std).numpy(), expected)
    assert image.numpy().tolist() == data.tolist()
    assert F.normalize(image, mean, std, inplace=True) is image
    np.testing.assert_array_equal(image.numpy(), expected)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.hflip(3), TypeError, "img should be PIL Image or Tensor. Got <class 'int'>"),
        (lambda: F.hflip(jtorch.ones(3)), TypeError, "Tensor is not a torch image."),
        (lambda: F.pad(TENSOR, (1, 2, 3)), ValueError, "not a 3 element tuple"),
        (lambda: F.pad(TENSOR, 1, padding_mode="wrap"), ValueError, "either constant, edge, reflect or symm"),
        (lambda: F.pad(TENSOR, "1"), TypeError, "Got inappropriate padding arg"),
        (lambda: F.pad(TENSOR, 1, fill=(1, 2, 3)), TypeError, "fill must be a number for a tensor"),
        (lambda: F.resize(TENSOR, (1, 2, 3)), ValueError, "1 or 2 element tuple/list, not a 3"),
        (lambda: F.resize(TENSOR, 5, max_size=5), ValueError, "must be strictly greater than"),
        (lambda: F.resize(TENSOR, (5, 5), max_size=9), ValueError, "max_size should only be passed if size"),
        (lambda: F.resize(TENSOR, 5, "bilinear"), TypeError, "should be a InterpolationMode"),
        (
            lambda: F.resize(TENSOR, 5, F.InterpolationMode.BOX),
            NotImplementedError,
            "interpolation box is for",
        ),
        (
            lambda: F.adjust_brightness(TENSOR, -1),
            ValueError,
            r"brightness_factor \(-1\) is not non-negative",
        ),
        (lambda: F.adjust_hue(TENSOR, 0.6), ValueError, r"hue_factor \(0.6\) is not in \[-0.5, 0.5\]"),
        (lambda: F.rgb_to_grayscale(TENSOR, 2), ValueError, "num_output_channels should be either 1 or 3"),
        (lambda: F.to_grayscale(TENSOR), TypeError, "Input should be PIL Image"),
        (lambda: F.normalize(TENSOR, [0.0], [1.0]), TypeError, "should be a float tensor. Got"),
        (lambda: F.normalize(TENSOR.float(), [0.0], [0.0]), ValueError, "leading to division by zero"),
        (lambda: F.normalize(jtorch.ones(2, 2), [0.0], [1.0]), ValueError, r"size \(..., C, H, W\)"),
        (lambda: F.erase(PIXELS, 0, 0, 1, 1, 0), TypeError, "img should be Tensor Image"),
        (lambda: F.get_image_size(PIXELS), TypeError, "Unexpected type"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
