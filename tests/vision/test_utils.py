"""Grids, and image files with and without Pillow."""

from __future__ import annotations

import io

import numpy as np
import pytest

import jtorch
from jtorch.vision import image as images
from jtorch.vision.utils import make_grid, save_image


def test_grid_by_hand():
    batch = jtorch.arange(5).reshape(5, 1, 1, 1).float().expand(5, 3, 1, 1)
    grid = make_grid(batch, nrow=3, padding=1, pad_value=-1.0)
    expected = -np.ones((5, 7))
    expected[1, 1::2], expected[3, 1:5:2] = [0, 1, 2], [3, 4]
    assert grid.shape == (3, 5, 7)
    for channel in grid:
        np.testing.assert_array_equal(channel.numpy(), expected)


def test_forms_of_input():
    image = jtorch.rand(4, 6)
    for form in (image, image[None], image[None, None], [image[None]]):
        out = make_grid(form)
        assert out.shape == (3, 4, 6) and out[2].equal(image)
    assert make_grid([jtorch.rand(3, 4, 6)] * 10, nrow=4).shape == (3, 3 * 6 + 2, 4 * 8 + 2)
    for wrong in ("x", [1, 2]):
        with pytest.raises(TypeError, match="tensor or list of tensors expected, got"):
            make_grid(wrong)


def test_normalize():
    batch = jtorch.tensor([0.0, 2.0, 4.0, 8.0]).reshape(2, 1, 1, 2).expand(2, 3, 1, 2)
    assert make_grid(batch, padding=0, normalize=True)[0].tolist() == [[0.0, 0.25, 0.5, 1.0]]
    assert make_grid(batch, padding=0, normalize=True, scale_each=True)[0].tolist() == [[0.0, 1.0, 0.0, 1.0]]
    bounded = make_grid(batch, padding=0, normalize=True, value_range=(1.0, 5.0))
    assert bounded[0].tolist() == [[0.0, 0.25, 0.75, 1.0]]
    with pytest.raises(TypeError, match="value_range has to be a tuple"):
        make_grid(batch, normalize=True, value_range=[0, 1])


PICTURE = jtorch.tensor(np.random.default_rng(0).random((3, 5, 4)), dtype=jtorch.float32)
BYTES = (
    np.clip(PICTURE.numpy() * np.float32(255) + np.float32(0.5), 0, 255).astype(np.uint8).transpose(1, 2, 0)
)


@pytest.mark.parametrize("with_pillow", [True, False])
@pytest.mark.parametrize("ending", ["png", "ppm"])
def test_files_read_back(tmp_path, monkeypatch, with_pillow, ending):
    pytest.importorskip("PIL", reason="reads the file back with Pillow, which is not installed")
    from PIL import Image

    if not with_pillow:
        monkeypatch.setattr(images, "_pillow", None)
    save_image(PICTURE, tmp_path / f"x.{ending}")
    buffer = io.BytesIO()
    save_image(PICTURE, buffer, format=ending)
    for source in (tmp_path / f"x.{ending}", io.BytesIO(buffer.getvalue())):
        with Image.open(source) as found:
            assert found.mode == "RGB"
            np.testing.assert_array_equal(np.asarray(found), BYTES)


def test_what_needs_pillow(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "_pillow", None)
    with pytest.raises(ImportError, match="save_image: jpg needs Pillow: python -m pip install pillow"):
        save_image(PICTURE, tmp_path / "x.jpg")
    with pytest.raises(ValueError, match="needs format"):
        save_image(PICTURE, io.BytesIO())
    assert list(tmp_path.iterdir()) == []


def test_ppm_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "_pillow", None)
    save_image(jtorch.zeros(3, 2, 1), tmp_path / "x.ppm")
    assert (tmp_path / "x.ppm").read_bytes() == b"P6\n1 2\n255\n" + bytes(6)
