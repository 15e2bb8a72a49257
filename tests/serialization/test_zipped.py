"""Archives that lie, and NumPy's files."""

from __future__ import annotations

import io
import struct
import zipfile

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import DataError
from jtorch.serialization import zipped


def archive(records, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in records:
            file.writestr(name, content)
    buffer.seek(0)
    return buffer


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../evil.npy", "/evil.npy", "a/../../evil.npy", "..\\evil.npy"])
def test_paths_that_lead_out(name):
    with pytest.raises(DataError, match="a record named"):
        jtorch.load(archive([(name, npy(np.ones(1)))]))


def test_two_records_of_one_name():
    with pytest.warns(UserWarning, match="Duplicate name"):
        file = archive([("a.npy", npy(np.ones(1))), ("a.npy", npy(np.zeros(1)))])
    with pytest.raises(DataError, match="two records of one name"):
        jtorch.load(file)


def test_a_zip_bomb(monkeypatch):
    file = archive([(f"{k}.npy", bytes(1_000_000)) for k in range(5)], zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(zipped, "_UNPACKED", 1_000_000)
    with pytest.raises(DataError, match="unpack to 5000000 bytes: a zip bomb"):
        jtorch.load(file)


def test_records_that_overlap():
    content = bytearray(archive([("a.npy", npy(np.ones(9))), ("b.npy", npy(np.ones(9)))]).getvalue())
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = struct.pack("<I", 4)  # where b.npy's content begins
    with pytest.raises(DataError, match="overlaps another"):
        jtorch.load(io.BytesIO(content))


def test_a_size_that_is_not_there():
    content = bytearray(archive([("a.npy", npy(np.ones(9)))]).getvalue())
    at = content.rindex(b"PK\x01\x02")
    content[at + 20 : at + 28] = struct.pack("<II", 1 << 31, 1 << 31)
    with pytest.raises(DataError, match=r"beyond its end|zip bomb"):
        jtorch.load(io.BytesIO(content))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(method):
    with pytest.raises(DataError, match="is compressed by method"):
        jtorch.load(archive([("a.npy", npy(np.ones(1)))], method))


def test_encryption_and_checksums():
    content = bytearray(archive([("a.npy", npy(np.ones(1)))]).getvalue())
    at = content.rindex(b"PK\x01\x02")
    locked = content.copy()
    locked[at + 8] |= 1
    with pytest.raises(DataError, match="is encrypted"):
        jtorch.load(io.BytesIO(locked))
    content[content.index(b"\x93NUMPY") + 130] ^= 1  # an element
    with pytest.raises(DataError, match="Bad CRC-32"):
        jtorch.load(io.BytesIO(content))


def test_other_archives():
    with pytest.raises(DataError, match=r"'readme.txt' in it: neither .npz nor PyTorch's .pt"):
        jtorch.load(archive([("readme.txt", b"hello")]))
    with pytest.raises(DataError, match="can not be read as a zip archive"):
        jtorch.load(io.BytesIO(b"PK\x03\x04" + bytes(100)))
    assert jtorch.load(archive([])) == {}


# -- .npy and .npz -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.ones((), np.float32),
        np.zeros((0, 3), np.int8), np.array([True, False]), np.array([np.nan, -0.0], ">f4"),
    ],
    ids=lambda a: f"{a.dtype.str}{a.shape}",
)  # fmt: skip
def test_arrays(array, tmp_path):
    np.save(tmp_path / "x.npy", array)
    back = jtorch.load(tmp_path / "x.npy")
    assert back.dtype.numpy == array.dtype.newbyteorder("=") and back.shape == array.shape
    np.testing.assert_array_equal(back.numpy(), array)
    back.zero_()
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", a=array, b=np.ones(1))
        both = jtorch.load(tmp_path / "x.npz")
        assert list(both) == ["a", "b"]
        np.testing.assert_array_equal(both["a"].numpy(), array)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (npy(np.ones(3))[:-1], "23 bytes for"),
        (npy(np.ones(3)) + b"more", "28 bytes for"),
        (npy(np.ones(3))[:20], "x|header|EOF"),
        (npy(np.ones(3)).replace(b"(3,)", b"(-3)"), "shape"),
        (npy(np.ones(3)).replace(b"(3,)", b"(9,)"), "24 bytes for"),
        (npy(np.array(["a"])), "can't convert"),
        (npy(np.zeros(2, [("a", "f4")])), "an array of dtype"),
        (npy(np.ones(3)).replace(b"\x01\0v", b"\x03\0v", 1), "format version"),
        (npy(np.ones(3)).replace(b"{'descr'", b"__import", 1), "EOF|parse|header"),
    ],
)
def test_arrays_that_are_none(content, text):
    with pytest.raises(DataError, match=f"can not be read as a .npy file.*({text})"):
        jtorch.load(io.BytesIO(content))


def test_objects_are_not_unpickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([object()]), allow_pickle=True)
    buffer.seek(0)
    with pytest.raises(DataError, match="Python objects, which would be read by pickle"):
        jtorch.load(buffer)


def test_fuzz():
    whole = archive(
        [("a.npy", npy(np.arange(5))), ("b.npy", npy(np.ones(2)))], zipfile.ZIP_DEFLATED
    ).getvalue()
    draw = np.random.default_rng(1)
    for k in range(300):
        content = bytearray(whole)
        if k % 4 == 0:
            del content[int(draw.integers(len(whole))) :]
        else:
            content[int(draw.integers(len(whole)))] ^= int(draw.integers(1, 256))
        try:
            back = jtorch.load(io.BytesIO(content))
        except (DataError, NotImplementedError):
            continue
        values = [t.tolist() for t in back.values()]
        assert values in ([[0, 1, 2, 3, 4], [1.0, 1.0]], [])
