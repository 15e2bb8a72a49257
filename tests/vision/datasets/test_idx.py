"""The IDX reader on files made up here."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from jtorch.core.errors import DataError
from jtorch.vision.datasets import read_idx


def idx(array, code=0x08):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.arange(6, dtype=np.uint8).reshape(2, 3), 0x08),
        (np.array([-1, 5], np.int8), 0x09),
        (np.array([-300, 5], ">i2"), 0x0B),
        (np.array([[1 << 20]], ">i4"), 0x0C),
        (np.array([0.5, -2], ">f4"), 0x0D),
        (np.array([0.5, -2], ">f8"), 0x0E),
        (np.zeros((0, 4), np.uint8), 0x08),
    ],
)
def test_idx_types(array, code):
    out = read_idx(idx(array, code))
    np.testing.assert_array_equal(out, array)
    assert out.dtype.isnative and out.flags.writeable


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG", "begins with 89 50 4e 47"),
        (b"\0\0\x07\x01\0\0\0\0", "not an IDX file"),
        (b"\0\0\x08\x03\0\0", "cut off in the header: 6 bytes, expected at least 16"),
        (b"\0\0\x08\x01\0\0\0\x05abc", r"11 bytes, expected 13 for shape \[5\]"),
        (
            b"\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff",
            "12 bytes, expected 18446744065119617037",
        ),
    ],
)
def test_malformed_idx(content, text):
    with pytest.raises(DataError, match=text):
        read_idx(content, "file.idx")
