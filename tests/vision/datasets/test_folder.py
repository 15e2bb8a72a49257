"""Folders of images, made-up images, and what all image datasets share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jtorch.vision import image as images
from jtorch.vision.datasets import DatasetFolder, FakeData, ImageFolder, VisionDataset
from jtorch.vision.transforms import ToTensor


@pytest.fixture
def root(tmp_path):
    for name, count in (("dog", 2), ("ant", 1)):
        (tmp_path / name / "inner").mkdir(parents=True)
        for k in range(count):
            (tmp_path / name / "inner" / f"{k}.txt").write_text(f"{name} {k}")
    return tmp_path


def test_folders_are_classes(root):
    data = DatasetFolder(root, lambda path: Path(path).read_text(), (".txt",))
    assert data.classes == ["ant", "dog"] and data.targets == [0, 1, 1]
    assert data[2] == ("dog 1", 1) and len(data) == 3


def test_what_is_wrong_with_a_folder(root):
    with pytest.raises(FileNotFoundError, match="Found no valid file for the classes ant, dog"):
        DatasetFolder(root, str, (".png",))
    assert len(DatasetFolder(root, str, (".png",), allow_empty=True)) == 0
    with pytest.raises(FileNotFoundError, match="Couldn't find any class folder"):
        DatasetFolder(root / "ant" / "inner", str, (".txt",))
    with pytest.raises(ValueError, match="cannot be None or not None at the same time"):
        DatasetFolder(root, str)


def test_image_folder(tmp_path):
    pytest.importorskip("PIL", reason="reads an image file, which needs Pillow")
    from PIL import Image

    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "x.png")
    image, target = ImageFolder(tmp_path)[0]
    assert target == 0 and image.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(image), pixels)


def test_image_folder_without_pillow(root, monkeypatch):
    monkeypatch.setattr(images, "_pillow", None)
    with pytest.raises(ImportError, match="ImageFolder needs Pillow: python -m pip install pillow"):
        ImageFolder(root)


def test_fake_data():
    data = FakeData(3, (3, 4, 6), transform=ToTensor(), target_transform=str)
    (image, target), (again, _) = data[1], data[1]
    assert image.shape == (3, 4, 6) and image.tolist() == again.tolist() and target in "0123456789"
    assert image.tolist() != data[2][0].tolist()
    assert FakeData(3, (3, 4, 6), random_offset=1)[0] == FakeData(3, (3, 4, 6))[1]
    with pytest.raises(IndexError, match="FakeData index out of range"):
        data[3]
    assert repr(data).splitlines() == [
        "Dataset FakeData",
        "    Number of datapoints: 3",
        "    StandardTransform",
        "    Transform: ToTensor()",
        "    Target transform: <class 'str'>",
    ]


def test_transforms_of_one_kind_only():
    with pytest.raises(ValueError, match="Only transforms or transform/target_transform"):
        VisionDataset("x", transforms=print, transform=print)
