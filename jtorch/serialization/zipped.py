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

from jtorch.errors import DataError

_MOST_RECORDS = 1 << 20
_UNPACKED = 1 << 28  # bytes that any archive may unpack to
_RATIO = 100  # and beyond those: per byte of the file. Deflated zeros have 1032
_LOCAL_HEADER = 30


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
        self._entries = {entry.filename: entry for entry in entries}
        self.names = list(self._entries)
        self._check(entries)

    def bad(self, reason: str) -> DataError:
        return DataError(f"{self.where}: can not be read as a zip archive ({self.size} bytes): {reason}")

    def _check(self, entries: list[zipfile.ZipInfo]) -> None:
        if len(entries) > _MOST_RECORDS:
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

    def _check_places(self, entries: list[zipfile.ZipInfo]) -> None:
        end = 0
        for entry in sorted(entries, key=lambda e: e.header_offset):
            if entry.header_offset < end:
                raise self.bad(f"the record {entry.filename!r} overlaps another")
            end = entry.header_offset + _LOCAL_HEADER + entry.compress_size
        if end > self.size:
            raise self.bad("records beyond its end")

    def read(self, name: str) -> bytearray:
        """The content of a record, in memory of its own."""
        entry = self._entry(name)
        content = bytearray(entry.file_size)
        view, filled = memoryview(content), 0
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
