"""Between images, arrays and tensors."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.vision import image as images
from jtorch.vision.image import ArrayImage
from jtorch.vision.transforms import functional as F

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)


@pytest.fixture(params=["pillow", "none"], autouse=True)
def with_and_without_pillow(request, monkeypatch):
    if request.param == "none":
        monkeypatch.setattr(images, "_pillow", None)
    else:
        pytest.importorskip("PIL", reason="works on Pillow's images, which is not installed")
    return request.param


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_there_and_back(channels, with_and_without_pillow):
    data = np.random.default_rng(1).integers(0, 256, (channels, 4, 5), dtype=np.uint8)
    image = F.to_pil_image(jtorch.from_numpy(data))
    assert isinstance(image, ArrayImage) == (with_and_without_pillow == "none")
    assert image.mode == ["L", "LA", "RGB", "RGBA"][channels - 1] and image.size == (5, 4)
    np.testing.assert_array_equal(F.pil_to_tensor(image).numpy(), data)
    scaled = F.to_tensor(image)
    assert scaled.dtype is jtorch.float32
    np.testing.assert_array_equal(scaled.numpy(), data.astype(np.float32) / np.float32(255))
    assert F.get_dimensions(image) == [channels, 4, 5]


def test_to_tensor_of_arrays():
    np.testing.assert_array_equal(
        F.to_tensor(PIXELS).numpy(), PIXELS.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    )
    assert F.to_tensor(PIXELS[:, :, 0]).shape == (1, 4, 5)
    floats = F.to_tensor(PIXELS.astype(np.float64))
    assert floats.dtype is jtorch.float64 and floats.max() > 1
    copy = PIXELS.copy()
    F.to_tensor(copy).add_(1)
    np.testing.assert_array_equal(copy, PIXELS)


def test_floats_become_bytes():
    image = F.to_pil_image(jtorch.tensor([[0.0, 0.5, 1.0]]))
    assert np.asarray(image).tolist() == [[0, 127, 255]] and image.mode == "L"


@pytest.mark.parametrize(
    ("dtype", "mode"), [(np.int32, "I"), (np.float32, "F"), (np.int16, "I;16"), (np.uint8, "L")]
)
def test_modes_of_one_channel(dtype, mode, with_and_without_pillow):
    if with_and_without_pillow == "none":
        pytest.skip("ArrayImage holds bytes alone")
    data = np.array([[[1, 2], [3, 100]]], dtype)
    image = F.to_pil_image(data[0])
    assert image.mode == mode
    back = F.to_tensor(image)
    expected = data.astype(np.float32) / np.float32(255) if dtype is np.uint8 else data
    np.testing.assert_array_equal(back.numpy(), expected)
    assert back.numpy().dtype == expected.dtype


def test_black_and_white(with_and_without_pillow):
    if with_and_without_pillow == "none":
        pytest.skip("ArrayImage holds bytes alone")
    image = F.to_pil_image(np.array([[0, 255]], np.uint8)).convert("1")
    assert F.to_tensor(image).tolist() == [[[0.0, 1.0]]]


@pytest.mark.parametrize("mode", ["YCbCr", "HSV", "CMYK"])
def test_a_mode_is_a_reading_of_the_same_bytes(mode, with_and_without_pillow):
    if with_and_without_pillow == "none":
        pytest.skip("ArrayImage has one mode for each number of channels")
    data = np.dstack([PIXELS, PIXELS[:, :, :1]]) if mode == "CMYK" else PIXELS
    image = F.to_pil_image(data, mode)
    assert image.mode == mode
    np.testing.assert_array_equal(np.asarray(image), data)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.to_tensor("x"), TypeError, "pic should be PIL Image or ndarray. Got <class 'str'>"),
        (lambda: F.to_tensor(np.ones(3)), ValueError, "pic should be 2/3 dimensional. Got 1 dimensions."),
        (lambda: F.pil_to_tensor(PIXELS), TypeError, "pic should be PIL Image. Got"),
        (lambda: F.to_pil_image("x"), TypeError, "pic should be Tensor or ndarray"),
        (lambda: F.to_pil_image(jtorch.ones(3)), ValueError, "2/3 dimensional. Got 1 dimensions"),
        (lambda: F.to_pil_image(np.ones((2, 2, 5))), ValueError, "> 4 channels. Got 5 channels"),
        (lambda: F.to_pil_image(np.ones((2, 2))), TypeError, "Input type float64 is not supported"),
        (lambda: F.to_pil_image(PIXELS, "L"), ValueError, "Only modes .* are supported for 3D inputs"),
        (lambda: F.to_pil_image(PIXELS[:, :, 0], "F"), ValueError, r"Incorrect mode \(F\) .* Should be L"),
        (lambda: ArrayImage(np.ones((2, 2))), ValueError, "expected uint8"),
        (lambda: F.convert_image_dtype(PIXELS), TypeError, "Input img should be Tensor Image"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_convert_image_dtype():
    image = jtorch.tensor([[[0, 128, 255]]], dtype=jtorch.uint8)
    floats = F.convert_image_dtype(image)
    assert floats.dtype is jtorch.float32 and floats[0, 0, 2] == 1.0
    assert F.convert_image_dtype(floats, jtorch.uint8).equal(image)
    assert F.convert_image_dtype(floats, jtorch.float64).dtype is jtorch.float64
    assert F.convert_image_dtype(image, jtorch.uint8) is image
    wide = F.convert_image_dtype(image, jtorch.int32)
    assert wide.tolist() == [[[0, 128 * 2**23, 255 * 2**23]]]
    assert F.convert_image_dtype(wide, jtorch.uint8).equal(image)
    with pytest.raises(RuntimeError, match="cannot be performed safely"):
        F.convert_image_dtype(floats, jtorch.int32)


def test_array_image():
    image = ArrayImage(PIXELS)
    assert repr(image) == "<ArrayImage mode=RGB size=5x4>" and (image.width, image.height) == (5, 4)
    assert image == ArrayImage(PIXELS.copy()) and image != ArrayImage(PIXELS[:2])
    assert ArrayImage(PIXELS[:, :, :1]).mode == "L" and np.asarray(image).shape == (4, 5, 3)
    with pytest.raises(ValueError, match="3 channels are mode RGB, not HSV"):
        ArrayImage(PIXELS, "HSV")
