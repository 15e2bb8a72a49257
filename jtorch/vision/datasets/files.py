"""Published files: fetched, and checked against the checksum of what was published."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from jtorch.core.errors import DataError
from jtorch.utils.files import write_atomically

LARGEST = 256 << 20  # bytes; no file of these datasets is larger, packed or unpacked


class DatasetNotFoundError(DataError, RuntimeError):
    """A dataset whose files are not there."""


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def check_md5(content: bytes, expected: str, name: str, where: str) -> None:
    """Raise DataError unless ``content`` is what was published as ``name``."""
    found = md5(content)
    if found != expected:
        raise DataError(
            f"{where}: not the published {name}: its {len(content)} bytes have the MD5 {found}, expected "
            f"{expected}. Delete the file and fetch it again."
        )


def unpacked(raw: bytes, where: str) -> bytes:
    """The content of gzip data. Raises DataError for damage, and for more than is believable."""
    unpacker = zlib.decompressobj(wbits=31)  # 31: gzip's header and checksum
    try:
        content = unpacker.decompress(raw, LARGEST)
    except zlib.error as error:
        raise DataError(f"{where}: damaged gzip data ({error})") from None
    if not unpacker.eof:
        reason = "unpacks to too much for this dataset" if unpacker.unconsumed_tail else "is cut off"
        raise DataError(f"{where}: the gzip data {reason} ({len(raw)} bytes, {len(content)} unpacked)")
    return content


def download(urls: Iterable[str], path: Path, check: Callable[[bytes, str], None]) -> Path:
    """Fetch ``path`` from the first address that has the right file; nothing else is kept.

    ``check`` gets the content and the address, and raises DataError. Raises DataError where all fail.
    """
    failures = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                raw = answer.read(LARGEST)
            check(raw, url)
        except (urllib.error.URLError, OSError, DataError) as error:
            failures.append(f"{url}: {error}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, raw)
        return path
    raise DataError(f"Error downloading {path.name}:\n  " + "\n  ".join(failures))
