"""The records of a zip archive, and the ways such a file lies.

Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from jtorch.core.errors import DataError

MOST_RECORDS = 1 << 20
_UNPACKED = 1 << 28  # bytes that any archive may unpack to
_RATIO = 100  # and beyond those: per byte of the file. Deflated zeros have 1032
_LOCAL_HEADER = 30
_END = struct.Struct("<4s4H2LH")
_LARGE_LOCATOR = struct.Struct("<4sLQL")
_LARGE_END = struct.Struct("<4sQ2H2L4Q")


class Archive:
    """Records by name. Raises DataError for an archive that is damaged or made to do harm."""

    def __init__(self, file: IO[bytes], path: Path | None, where: str) -> None:
        self.where = where
        self.path = path
        self._file = file
        start = file.tell()
        self.size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        try:
            self._zip = zipfile.ZipFile(file)
            entries = self._zip.infolist()
        except (
            zipfile.BadZipFile,
            ValueError,
            OSError,
            struct.error,
            NotImplementedError,
            EOFError,
        ) as error:
            raise self.bad(str(error)) from None
        self._start = start
        self._check_end(len(entries))
        self._entries = {entry.filename: entry for entry in entries}
        self.names = list(self._entries)
        self._check(entries)

    def bad(self, reason: str) -> DataError:
        return DataError(f"{self.where}: can not be read as a zip archive ({self.size} bytes): {reason}")

    def _check(self, entries: list[zipfile.ZipInfo]) -> None:
        if len(entries) > MOST_RECORDS:
            raise self.bad(f"{len(entries)} records")
        if len(self._entries) != len(entries):
            raise self.bad("two records of one name")
        for entry in entries:
            parts = entry.filename.replace("\\", "/").split("/")
            if ".." in parts or entry.filename.startswith(("/", "\\")) or "\0" in entry.orig_filename:
                raise self.bad(f"a record named {entry.filename!r}")
            if entry.flag_bits & 0x1:
                raise self.bad(f"the record {entry.filename!r} is encrypted")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self.bad(f"the record {entry.filename!r} is compressed by method {entry.compress_type}")
            if entry.compress_type == zipfile.ZIP_STORED and entry.file_size != entry.compress_size:
                raise self.bad(f"the record {entry.filename!r} has two sizes")
        self._check_places(entries)
        unpacked = sum(entry.file_size for entry in entries)
        if unpacked > max(_UNPACKED, _RATIO * self.size):
            raise self.bad(f"its records unpack to {unpacked} bytes: a zip bomb?")

    def _check_end(self, count: int) -> None:
        """The end record says where the index is and how many it lists: zipfile believes any other index,
        also an empty one.
        """
        self._file.seek(max(self._start, self._start + self.size - _END.size - 0xFFFF))
        tail = self._file.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or at + _END.size > len(tail):
            raise self.bad("it has no end record")
        _, disk, index_disk, here, total, size, begin, comment = _END.unpack_from(tail, at)
        if at + _END.size + comment != len(tail):
            raise self.bad("bytes after its end record")
        if 0xFFFF in (here, total) or 0xFFFFFFFF in (size, begin):  # zip64: a larger record before this one
            here, total, size, begin = self._large_end(tail, at)
        ends = self._zip.start_dir + size - self._start
        elsewhere = self._zip.start_dir != self._start + begin
        if disk or index_disk or here != total or total != count or elsewhere:
            raise self.bad(f"its end record tells of {total} records at {begin}; its index has {count}")
        if ends > self.size or (count == 0 and self.size != _END.size + comment):
            raise self.bad("an index that is not where its end record says")

    def _large_end(self, tail: bytes, at: int) -> tuple[int, int, int, int]:
        if at < _LARGE_LOCATOR.size:
            raise self.bad("it has no end record")
        magic, _, place, _ = _LARGE_LOCATOR.unpack_from(tail, at - _LARGE_LOCATOR.size)
        if magic != b"PK\x06\x07" or place + _LARGE_END.size > self.size:
            raise self.bad("it has no end record")
        self._file.seek(self._start + place)
        record = _LARGE_END.unpack(self._file.read(_LARGE_END.size))
        if record[0] != b"PK\x06\x06":
            raise self.bad("it has no end record")
        return record[6:10]

    def _check_places(self, entries: list[zipfile.ZipInfo]) -> None:
        end = self._start
        for entry in sorted(entries, key=lambda e: e.header_offset):
            if entry.header_offset < end:
                raise self.bad(f"the record {entry.filename!r} overlaps another")
            end = entry.header_offset + _LOCAL_HEADER + entry.compress_size
        if end > self._start + self.size:
            raise self.bad("records beyond its end")

    def packed_size(self, name: str) -> tuple[int, int]:
        """Bytes of a record in the file, and unpacked."""
        entry = self._entry(name)
        return entry.compress_size, entry.file_size

    def read(self, name: str) -> np.ndarray:
        """The bytes of a record, in memory of their own."""
        entry = self._entry(name)
        content = np.empty(entry.file_size, np.uint8)
        view, filled = content.data, 0
        try:
            with self._zip.open(entry) as record:
                while filled < len(content):
                    n = record.readinto(view[filled : filled + (1 << 20)])  # type: ignore[attr-defined]
                    if not n:
                        raise self.bad(f"the record {name!r} is cut off")
                    filled += n
                if record.read(1):  # reading the end is what checks the checksum
                    raise self.bad(f"the record {name!r} is longer than it says")
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise self.bad(f"{name}: {error}") from None
        return content

    def map(self, name: str) -> np.ndarray:
        """The bytes of a stored record where they lie in the file; changing them changes only memory."""
        assert self.path is not None
        entry = self._entry(name)
        if entry.compress_type != zipfile.ZIP_STORED:
            raise self.bad(f"the record {name!r} is compressed; load it without mmap")
        self._file.seek(entry.header_offset)
        header = self._file.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise self.bad(f"the record {name!r} is not where the index says")
        names, extra = struct.unpack("<HH", header[26:30])
        begin = entry.header_offset + _LOCAL_HEADER + names + extra
        if begin + entry.file_size > self.size:
            raise self.bad(f"the record {name!r} is cut off")
        if not entry.file_size:
            return np.zeros(0, np.uint8)
        return np.memmap(self.path, np.uint8, "c", begin, (entry.file_size,)).view(np.ndarray)

    def _entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self._entries:
            raise self.bad(f"it has no record {name!r}")
        return self._entries[name]
