"""CIFAR from files made up here, and what a pickle may not do."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tarfile

import numpy as np
import pytest

from jtorch.core.errors import DataError
from jtorch.vision.datasets import CIFAR10, CIFAR100
from jtorch.vision.datasets.batch_pickle import read_batch


def md5(content):
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def batch(first, count, labels):
    rows = (np.arange(count * 3072) + first).astype(np.uint8).reshape(count, 3072)
    return rows, pickle.dumps({"data": rows, labels: list(range(count)), "batch_label": "x"}, protocol=2)


@pytest.fixture
def published(monkeypatch):
    """CIFAR10 with one training batch, one test batch and names, under checksums of their own."""
    rows, one = batch(0, 3, "labels")
    _, two = batch(7, 2, "labels")
    names = pickle.dumps({"label_names": ["cat", "dog", "frog"]}, protocol=2)
    monkeypatch.setattr(CIFAR10, "train_list", (("data_batch_1", md5(one)),))
    monkeypatch.setattr(CIFAR10, "test_list", (("test_batch", md5(two)),))
    monkeypatch.setattr(CIFAR10, "meta", ("batches.meta", "label_names", md5(names)))
    return rows, {"data_batch_1": one, "test_batch": two, "batches.meta": names}


@pytest.fixture
def root(tmp_path, published):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name, content in published[1].items():
        (folder / name).write_bytes(content)
    return tmp_path


def test_reads_planes_as_pixels(root, published):
    data = CIFAR10(root)
    assert data.data.shape == (3, 32, 32, 3) and data.targets == [0, 1, 2]
    np.testing.assert_array_equal(data.data[1, 5, 7], published[0][1].reshape(3, 32, 32)[:, 5, 7])
    image, target = data[1]
    assert image.size == (32, 32) and image.mode == "RGB" and target == 1
    np.testing.assert_array_equal(np.asarray(image), data.data[1])
    assert data.class_to_idx == {"cat": 0, "dog": 1, "frog": 2}
    assert len(CIFAR10(root, train=False)) == 2 and "Split: Test" in repr(CIFAR10(root, train=False))


def test_fine_labels_of_the_hundred(tmp_path, monkeypatch):
    _, content = batch(1, 2, "fine_labels")
    names = pickle.dumps({"fine_label_names": ["apple", "bear"]}, protocol=2)
    monkeypatch.setattr(CIFAR100, "train_list", (("train", md5(content)),))
    monkeypatch.setattr(CIFAR100, "meta", ("meta", "fine_label_names", md5(names)))
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-python" / "train").write_bytes(content)
    (tmp_path / "cifar-100-python" / "meta").write_bytes(names)
    assert CIFAR100(tmp_path).targets == [0, 1]


def test_missing_and_damaged_files(root):
    with pytest.raises(RuntimeError, match=r"Dataset not found or corrupted. You can use download=True"):
        CIFAR10(root / "elsewhere")
    path = root / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="not the published data_batch_1"):
        CIFAR10(root)


def test_download_from_a_local_mirror(tmp_path, published, monkeypatch):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in published[1].items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    mirror = tmp_path / "mirror.tar.gz"
    mirror.write_bytes(packed.getvalue())
    monkeypatch.setattr(CIFAR10, "url", mirror.as_uri())
    with pytest.raises(DataError, match=r"not the published cifar-10-python.tar.gz"):
        CIFAR10(tmp_path / "a", download=True)
    assert not (tmp_path / "a").exists()
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(packed.getvalue()))
    assert CIFAR10(tmp_path / "b", download=True).targets == [0, 1, 2]
    mirror.unlink()
    assert len(CIFAR10(tmp_path / "b", download=True)) == 3  # found, not fetched again


class Hostile:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "value",
    [
        Hostile(os.system, "true"),
        Hostile(eval, "1 + 1"),
        Hostile(np.load, "x.npy"),
        Hostile(getattr, {}, "clear"),
        Hostile(np.frombuffer, b"12", np.uint8),
    ],
    ids=["os.system", "eval", "numpy.load", "getattr", "numpy.frombuffer"],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_runs_nothing(value, protocol):
    with pytest.raises(DataError, match="batch: not a pickle of plain data: it asks for"):
        read_batch(pickle.dumps({"data": value}, protocol=protocol), "batch")


@pytest.mark.parametrize(
    "array", [np.array([{}], object), np.arange(3.0), np.arange(3)], ids=["object", "float", "int"]
)
def test_only_arrays_of_bytes(array):
    with pytest.raises(DataError, match="an array of something else than bytes"):
        read_batch(pickle.dumps({"data": array}, protocol=2), "batch")


@pytest.mark.parametrize("content", [b"", b"\x80\x02}", b"not a pickle", b"\x80\x02]q\x00."])
def test_what_is_no_dict(content):
    with pytest.raises(DataError, match=r"^batch: "):
        read_batch(content, "batch")


def test_plain_data_comes_through():
    value = {"a": [1, 2.5, "text", None, True], "b": {"c": (1, 2)}, "raw": b"\x00\xff"}
    assert read_batch(pickle.dumps(value, protocol=2), "x") == value
    for order in "CF":
        array = np.asarray(np.arange(6, dtype=np.uint8).reshape(2, 3), order=order)
        np.testing.assert_array_equal(read_batch(pickle.dumps({"d": array}, protocol=2), "x")["d"], array)
