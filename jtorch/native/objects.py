"""The names in object code of any system: what it defines for others, and what it needs from them.

LLVM writes ELF on Linux, Mach-O on macOS and COFF on Windows, and llvmlite shows the sections of such an
object, not its symbols. Sources: System V ABI, chapter 4 (read in ``elf.py``); mach-o/nlist.h of Apple's
cctools; Microsoft's PE format, "COFF symbol table".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from jtorch.native import elf

_MACH_O = 0xFEEDFACF  # 64 bits, this byte order
_SYMTAB = 2  # the load command that tells where the symbols are
_STAB, _TYPE, _EXTERNAL = 0xE0, 0x0E, 0x01  # bits of a Mach-O symbol's type: for debuggers, kind, global
_COFF = (0x8664, 0xAA64)  # x86-64, ARM64
_COFF_EXTERNAL = 2


class Name(NamedTuple):
    """A global symbol."""

    name: str
    is_defined: bool


def defined_symbols(code: bytes) -> list[str]:
    """Global names that the object defines. Raises elf.UnsupportedError for what is no object."""
    return [symbol.name for symbol in _names(code) if symbol.is_defined]


def undefined_symbols(code: bytes) -> list[str]:
    """Names that the object needs from outside. Raises elf.UnsupportedError for what is no object."""
    return [symbol.name for symbol in _names(code) if not symbol.is_defined]


def _names(code: bytes) -> list[Name]:
    read = _elf
    if len(code) >= 32 and struct.unpack_from("<I", code)[0] == _MACH_O:
        read = _mach_o
    elif len(code) >= 20 and struct.unpack_from("<H", code)[0] in _COFF:
        read = _coff
    try:
        return list(read(code))
    except (struct.error, IndexError, ValueError) as error:
        if isinstance(error, elf.UnsupportedError):
            raise
        raise elf.UnsupportedError(f"a damaged object: {error}") from None


def _elf(code: bytes) -> Iterator[Name]:
    for symbol in elf.symbols(code):
        if symbol.name and not symbol.is_local:
            yield Name(symbol.name, symbol.is_defined)


def _mach_o(code: bytes) -> Iterator[Name]:
    """C's names begin with an underscore there, which is not part of what C calls them."""
    (count,) = struct.unpack_from("<I", code, 16)
    command = 32
    for _ in range(count):
        kind, size = struct.unpack_from("<II", code, command)
        if kind == _SYMTAB:
            symbols, number, names, _ = struct.unpack_from("<IIII", code, command + 8)
            for offset in range(symbols, symbols + 16 * number, 16):
                name, flags = struct.unpack_from("<IB", code, offset)
                if flags & _EXTERNAL and not flags & _STAB:
                    yield Name(_text(code, names + name).removeprefix("_"), bool(flags & _TYPE))
        command += size


def _coff(code: bytes) -> Iterator[Name]:
    symbols, number = struct.unpack_from("<II", code, 8)
    names, index = symbols + 18 * number, 0
    while index < number:
        offset = symbols + 18 * index
        zeros, place, _, section, _, storage, more = struct.unpack_from("<IIIhHBB", code, offset)
        if storage == _COFF_EXTERNAL:
            short = code[offset : offset + 8].rstrip(b"\0").decode()  # up to 8 letters stand in the row
            yield Name(short if zeros else _text(code, names + place), section != 0)
        index += 1 + more  # rows that only say more about this one


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
