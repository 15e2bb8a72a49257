"""Writes PNG and PPM files without Pillow.

Source: https://www.w3.org/TR/png-3/ and https://netpbm.sourceforge.net/doc/ppm.html
"""

from __future__ import annotations

import struct
import zlib

import numpy as np


def png(pixels: np.ndarray) -> bytes:
    """The PNG file of uint8 (H, W, 3): one strip of rows, none of them filtered."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with its filter: 0, none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB, no interlacing
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def ppm(pixels: np.ndarray) -> bytes:
    """The binary PPM file of uint8 (H, W, 3)."""
    height, width, _ = pixels.shape
    return b"P6\n%d %d\n255\n" % (width, height) + pixels.tobytes()
