"""MNIST and its kin on made-up files, and MNIST itself where its files are at hand."""

from __future__ import annotations

import gzip
import hashlib
import struct
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import DataError
from jtorch.vision import datasets, transforms
from jtorch.vision.datasets import files

REAL = Path(__file__).parents[3] / "../shared/data/mnist"
needs_mnist = pytest.mark.skipif(not REAL.is_dir(), reason="the MNIST files are not in shared/data/mnist")


def idx(array, code=0x08):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with five training images, published under checksums of their own."""
    images = np.arange(5 * 28 * 28, dtype=np.uint64).astype(np.uint8).reshape(5, 28, 28)
    labels = np.array([3, 1, 4, 1, 5], np.uint8)
    content = {"train-images-idx3-ubyte": idx(images), "train-labels-idx1-ubyte": idx(labels)}
    sums = {name: hashlib.md5(c, usedforsecurity=False).hexdigest() for name, c in content.items()}
    monkeypatch.setattr(datasets.MNIST, "contents", sums)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(content["train-images-idx3-ubyte"]))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(content["train-labels-idx1-ubyte"])
    return tmp_path, images, labels


@pytest.mark.slow
@needs_mnist
def test_the_real_files():
    train, test = datasets.MNIST(REAL), datasets.MNIST(REAL, train=False)
    assert train.data.shape == (60000, 28, 28) and test.data.shape == (10000, 28, 28)
    assert train.data.dtype is jtorch.uint8 and train.targets.dtype is jtorch.int64
    assert train.targets[:5].tolist() == [5, 0, 4, 1, 9]
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test.targets.numpy()).tolist() == counts
    assert train.data.float().mean().item() / 255 == pytest.approx(0.1307, abs=1e-4)


def test_reads_raw_and_gzipped(tiny):
    root, images, labels = tiny
    data = datasets.MNIST(root)
    assert len(data) == 5
    np.testing.assert_array_equal(data.data.numpy(), images)
    np.testing.assert_array_equal(data.targets.numpy(), labels)
    image, target = data[2]
    assert image.size == (28, 28) and image.mode == "L" and target == 4
    np.testing.assert_array_equal(np.asarray(image), images[2])
    assert repr(data) == (
        f"Dataset MNIST\n    Number of datapoints: 5\n    Root location: {root}\n    Split: Train"
    )
    assert data.class_to_idx["3 - three"] == 3 and len(data.classes) == 10


@pytest.mark.parametrize(
    ("old", "new"),
    [("train_data", "data"), ("train_labels", "targets"), ("test_data", "data"), ("test_labels", "targets")],
)
def test_the_early_names_warn(tiny, old, new):
    data = datasets.MNIST(tiny[0])
    with pytest.warns(UserWarning, match=f"{old} has been renamed {new}"):
        assert getattr(data, old) is getattr(data, new)


def test_looks_where_torchvision_puts_them(tiny):
    root, _, _ = tiny
    inner = root / "MNIST" / "raw"
    inner.mkdir(parents=True)
    for path in list(root.glob("train-*")):
        path.rename(inner / path.name)
    assert len(datasets.MNIST(root)) == 5


def test_transforms(tiny):
    data = datasets.MNIST(tiny[0], transform=transforms.ToTensor(), target_transform=lambda k: -k)
    image, target = data[0]
    assert image.dtype is jtorch.float32 and image.max().item() <= 1.0 and target == -3


def test_missing_file_says_where_it_looked(tmp_path):
    with pytest.raises(
        RuntimeError,
        match=r"Dataset not found. You can use download=True to download it.*neither train-images.*\.gz in ",
    ):
        datasets.MNIST(tmp_path)


def test_damage_is_named(tiny):
    root = tiny[0]
    path = root / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: the gzip data is cut off"):
        datasets.MNIST(root)
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 255]) + whole[21:])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: .*(damaged gzip|MD5|cut off)"):
        datasets.MNIST(root)
    path.write_bytes(gzip.compress(idx(np.zeros((5, 28, 28), np.uint8))))
    with pytest.raises(DataError, match=r"have the MD5 \w+, expected \w+. Delete"):
        datasets.MNIST(root)


def test_a_gzip_bomb_is_stopped(tiny, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 1000)
    with pytest.raises(DataError, match="unpacks to too much"):
        datasets.MNIST(tiny[0])


class Answer:
    def __init__(self, content):
        self.content = content

    def read(self, limit):
        return self.content[:limit]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def test_download_takes_the_first_good_mirror(tiny, tmp_path, monkeypatch):
    root = tmp_path / "fresh"
    source = tiny[0]
    good = {name: (source / f"{name}.gz") for name in datasets.MNIST.contents}
    (source / "train-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress((source / "train-labels-idx1-ubyte").read_bytes())
    )
    asked = []

    def fetch(url, timeout):
        asked.append(url)
        if url.startswith(datasets.MNIST.mirrors[0]):
            return Answer(b"<html>not here</html>")
        return Answer(good[url.rsplit("/", 1)[1].removesuffix(".gz")].read_bytes())

    monkeypatch.setattr(urllib.request, "urlopen", fetch)
    assert len(datasets.MNIST(root, download=True)) == 5
    assert len(asked) == 4
    assert len(datasets.MNIST(root, download=True)) == 5 and len(asked) == 4  # found, not fetched again


def test_failed_download_lists_the_mirrors(tmp_path, monkeypatch):
    def fetch(url, timeout):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", fetch)
    with pytest.raises(DataError, match=r"(?s)Error downloading train-images.*no route.*no route"):
        datasets.MNIST(tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []


def test_kin_of_mnist_go_by_the_checksum_of_the_packed_file(tmp_path, monkeypatch):
    folder = tmp_path / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    packed = {
        "t10k-images-idx3-ubyte.gz": gzip.compress(idx(np.ones((2, 28, 28), np.uint8))),
        "t10k-labels-idx1-ubyte.gz": gzip.compress(idx(np.array([9, 2], np.uint8))),
    }
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    with pytest.raises(DataError, match=r"not the published t10k-images-idx3-ubyte.gz"):
        datasets.FashionMNIST(tmp_path, train=False)
    sums = tuple((n, hashlib.md5(c, usedforsecurity=False).hexdigest()) for n, c in packed.items())
    monkeypatch.setattr(datasets.FashionMNIST, "resources", sums)
    data = datasets.FashionMNIST(tmp_path, train=False)
    assert data.targets.tolist() == [9, 2] and data.classes[9] == "Ankle boot"


def test_images_and_labels_that_differ_in_number(tmp_path):
    folder = tmp_path / "KMNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte").write_bytes(idx(np.ones((2, 28, 28), np.uint8)))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(np.ones(3, np.uint8)))
    with pytest.raises(DataError, match=r"KMNIST: images \(2, 28, 28\) and labels \(3,\) differ"):
        datasets.KMNIST(tmp_path)
