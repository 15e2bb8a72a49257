"""Blurring against SciPy's convolution, on every kind of image."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import jtorch
from jtorch.vision import transforms
from jtorch.vision.transforms import functional as F
from tests.each import each

RNG = np.random.default_rng(0)


def _bell(size, width):
    x = np.arange(size) - (size - 1) / 2
    weights = np.exp(-0.5 * (x / width) ** 2)
    return weights / weights.sum()


def _expected(image, sizes, widths):
    found = ndimage.correlate1d(image.astype(np.float64), _bell(sizes[0], widths[0]), axis=-1, mode="mirror")
    return ndimage.correlate1d(found, _bell(sizes[1], widths[1]), axis=-2, mode="mirror")


@each("size, sigma", [(3, 1.0), (5, None), ((3, 5), (0.5, 2.0)), ([1, 3], 0.7), (7, [1.5])])
def test_equals_scipy_s(size, sigma):
    image = RNG.random((2, 3, 8, 9))
    sizes = (size, size) if isinstance(size, int) else size
    widths = [0.15 * n + 0.35 for n in sizes] if sigma is None else np.broadcast_to(sigma, 2)
    expected = _expected(image, sizes, widths)
    np.testing.assert_allclose(
        F.gaussian_blur(jtorch.tensor(image), size, sigma).numpy(), expected, rtol=1e-12
    )


def test_bytes_are_rounded():
    image = RNG.integers(0, 256, (3, 6, 7), dtype=np.uint8)
    found = F.gaussian_blur(jtorch.tensor(image), 3, 1.0)
    assert found.dtype is jtorch.uint8
    assert np.abs(found.numpy() - _expected(image, (3, 3), (1.0, 1.0))).max() <= 0.5 + 1e-4


def test_images():
    image = RNG.integers(0, 256, (6, 7, 3), dtype=np.uint8)
    expected = F.gaussian_blur(jtorch.tensor(image.transpose(2, 0, 1).copy()), 3, 1.0).numpy()
    Image = pytest.importorskip("PIL.Image")
    found = F.gaussian_blur(Image.fromarray(image), 3, 1.0)
    assert (found.mode, (np.asarray(found).transpose(2, 0, 1) == expected).all()) == ("RGB", True)
    gray = F.gaussian_blur(Image.fromarray(image[..., 0]), 3, 1.0)
    assert (gray.mode, (np.asarray(gray) == expected[0]).all()) == ("L", True)


def test_the_class_draws_sigma():
    image = jtorch.tensor(RNG.random((3, 8, 8)))
    blur = transforms.GaussianBlur(3, sigma=(0.2, 3.0))
    assert repr(blur) == "GaussianBlur(kernel_size=(3, 3), sigma=(0.2, 3.0))"
    jtorch.manual_seed(0)
    sigma = blur.get_params(0.2, 3.0)
    assert 0.2 <= sigma <= 3.0
    jtorch.manual_seed(0)
    assert (blur(image) == F.gaussian_blur(image, 3, sigma)).all()
    assert (blur(image) != blur(image)).any()


WRONG = {
    "even": (ValueError, lambda: F.gaussian_blur(jtorch.ones(1, 4, 4), 2), "odd and positive"),
    "sigma": (ValueError, lambda: F.gaussian_blur(jtorch.ones(1, 4, 4), 3, -1.0), "positive values"),
    "kind": (TypeError, lambda: F.gaussian_blur(jtorch.ones(1, 4, 4), "3"), "number or a sequence"),
    "length": (ValueError, lambda: F.gaussian_blur(jtorch.ones(1, 4, 4), (3, 3, 3)), "1 or 2"),
    "no image": (TypeError, lambda: F.gaussian_blur([1], 3), "PIL Image or Tensor"),
    "class, even": (ValueError, lambda: transforms.GaussianBlur(4), "odd and positive"),
    "class, sigma": (ValueError, lambda: transforms.GaussianBlur(3, 0.0), "must be positive"),
    "class, order": (ValueError, lambda: transforms.GaussianBlur(3, (2.0, 1.0)), r"of the form \(min, max\)"),
}


@each("case", WRONG)
def test_errors(case):
    kind, call, sentence = WRONG[case]
    with pytest.raises(kind, match=sentence):
        call()
