"""A small linker for ELF64 x86-64 objects: kernels from the cache run without importing LLVM.

Importing llvmlite to load a finished object costs 20 ms and 40 MB; what it does then, for code that
uses no more than libm, is to place a few sections and apply a few relocations. That is this file.
Anything else in an object (another machine, thread-local data, an unknown relocation) raises
`UnsupportedError`, and the caller takes llvmlite's way. Source of the numbers: System V ABI, AMD64
supplement, tables 4.9 and 4.10.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jtorch.native.immortal import live_forever

_SYMBOL_TABLE, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITABLE, _ALLOCATED, _THREAD_LOCAL = 0x1, 0x2, 0x400
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_LOCAL = 0
_X86_64 = 62
_PAGE = mmap.PAGESIZE

# Relocation types. S: symbol, A: addend, P: place, L: the symbol's stub, G: the symbol's slot with
# its address.
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24  # S+A, S+A-P, L+A-P, S+A-P
_R_GOT = frozenset({9, 41, 42})  # G+A-P


class UnsupportedError(ValueError):
    """An object this linker does not handle; llvmlite may."""


class Section(NamedTuple):
    """One row of the section header table."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """One row of the symbol table."""

    name: str
    info: int
    section: int
    value: int

    @property
    def is_local(self) -> bool:
        return self.info >> 4 == _LOCAL

    @property
    def is_defined(self) -> bool:
        return self.section != _UNDEFINED


def sections(code: bytes) -> list[Section]:
    """The section table. Raises UnsupportedError for anything but a little-endian ELF64 file."""
    if code[:6] != b"\x7fELF\x02\x01" or len(code) < 64:
        raise UnsupportedError(f"not a little-endian ELF64 object: it starts with {code[:6]!r}")
    (table,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    return [Section(*struct.unpack_from("<IIQQQQIIQQ", code, table + i * size)) for i in range(count)]


def symbols(code: bytes) -> list[Symbol]:
    """Every symbol, the unnamed ones too, in table order."""
    table = sections(code)
    found = []
    for section in table:
        if section.kind != _SYMBOL_TABLE:
            continue
        names = table[section.link].offset
        for offset in range(section.offset, section.offset + section.size, section.entry_size):
            name, info, _, index, value, _ = struct.unpack_from("<IBBHQQ", code, offset)
            end = code.index(b"\0", names + name)
            found.append(Symbol(code[names + name : end].decode(), info, index, value))
    return found


def _align(offset: int, alignment: int) -> int:
    return -(-offset // max(alignment, 1)) * max(alignment, 1)


class _Image:
    """One object's place in memory: its sections, then a stub and a slot for each outside symbol."""

    def __init__(self, code: bytes, resolve: Callable[[str], int]) -> None:
        self.code, self.resolve = code, resolve
        self.sections, self.symbols = sections(code), symbols(code)
        if struct.unpack_from("<H", code, 18)[0] != _X86_64:
            raise UnsupportedError("an object for another CPU than x86-64")
        self.places: dict[int, int] = {}
        self.slots: dict[str, int] = {}
        end = 0
        for index, section in enumerate(self.sections):
            # Kernels never unwind, and registering the unwind table costs more than the load.
            if not section.flags & _ALLOCATED or self._is_named(section, b".eh_frame"):
                continue
            constant = not section.flags & _WRITABLE or self._is_named(section, b".data.rel.ro")
            if section.size and (not constant or section.flags & _THREAD_LOCAL):
                raise UnsupportedError("writable data")
            end = _align(end, section.alignment)
            self.places[index] = end
            end += section.size
        end = _align(end, 16)
        for name in dict.fromkeys(s.name for s in self.symbols if s.section == _UNDEFINED and s.name):
            self.slots[name] = end
            end += 16
        # Symbols defined here and reached through a slot (GOT) need one too, at most one each.
        self.local_slots: dict[int, int] = {}
        self.end = end
        self.size = end + 8 * len(self.symbols)

    def _is_named(self, section: Section, prefix: bytes) -> bool:
        names = self.sections[struct.unpack_from("<H", self.code, 0x3E)[0]].offset
        return self.code.startswith(prefix, names + section.name)

    def relocations(self) -> Iterator[tuple[int, int, int, int]]:
        """(place in the image, type, symbol index, addend) of every relocation in a placed section."""
        for section in self.sections:
            if section.kind != _RELOCATIONS or section.info not in self.places:
                continue
            start = self.places[section.info]
            for offset in range(section.offset, section.offset + section.size, 24):
                place, info, addend = struct.unpack_from("<QQq", self.code, offset)
                yield start + place, info & 0xFFFFFFFF, info >> 32, addend

    def write(self, memory: bytearray | mmap.mmap, base: int, address: int) -> dict[str, int]:
        """Write the linked image at `base` of `memory`, to run at `address`; return its global
        symbols.
        """
        for index, place in self.places.items():
            section = self.sections[index]
            if section.kind != _NO_BITS:
                content = self.code[section.offset : section.offset + section.size]
                memory[base + place : base + place + section.size] = content
        for name, place in self.slots.items():
            # jmp *[rip + 2]; the address behind it.
            stub = b"\xff\x25\x02\0\0\0\xcc\xcc" + struct.pack("<Q", self.resolve(name))
            memory[base + place : base + place + 16] = stub
        for place, kind, index, addend in self.relocations():
            self._relocate(memory, base, address, place, kind, self.symbols[index], index, addend)
        return {
            s.name: address + self.places[s.section] + s.value
            for s in self.symbols
            if s.section in self.places and s.name and not s.is_local
        }

    def _relocate(
        self, memory: bytearray | mmap.mmap, base: int, address: int,
        place: int, kind: int, symbol: Symbol, index: int, addend: int,
    ) -> None:  # fmt: skip
        outside = symbol.section == _UNDEFINED
        if symbol.section == _ABSOLUTE or (not outside and symbol.section not in self.places):
            raise UnsupportedError(f"a relocation against {symbol.name or 'a section'!r} that is not loaded")
        target = self.slots[symbol.name] if outside else self.places[symbol.section] + symbol.value
        if kind in _R_GOT:
            target = target + 8 if outside else self._local_slot(memory, base, address, index, target)
        elif outside and kind != _R_PLT32:
            raise UnsupportedError(f"relocation type {kind} against the outside symbol {symbol.name!r}")
        if kind == _R_64:
            struct.pack_into("<q", memory, base + place, address + target + addend)
        elif kind == _R_PC64:
            struct.pack_into("<q", memory, base + place, target + addend - place)
        elif kind in _R_GOT or kind in (_R_PC32, _R_PLT32):
            struct.pack_into("<i", memory, base + place, target + addend - place)
        else:
            raise UnsupportedError(f"relocation type {kind}")

    def _local_slot(
        self, memory: bytearray | mmap.mmap, base: int, address: int, index: int, target: int
    ) -> int:
        if index not in self.local_slots:
            self.local_slots[index] = self.end + 8 * len(self.local_slots)
            struct.pack_into("<Q", memory, base + self.local_slots[index], address + target)
        return self.local_slots[index]


def load(objects: list[bytes], resolve: Callable[[str], int]) -> list[dict[str, int]]:
    """Link objects into memory of this process that stays for its life; return each one's global
    symbols.

    `resolve` gives the address of an outside symbol. The memory is writable while it is filled and
    executable after, never both. Raises UnsupportedError where an object needs more than this linker
    does, OSError where the system forbids.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        raise UnsupportedError("not a system with mmap and mprotect")
    images = [_Image(code, resolve) for code in objects]
    offsets, size = [], 0
    for image in images:
        size = _align(size, 64)
        offsets.append(size)
        size += image.size
    size = _align(max(size, 1), _PAGE)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    exported = [
        image.write(memory, offset, address + offset) for image, offset in zip(images, offsets, strict=True)
    ]
    _protect(address, size)
    live_forever(memory)
    return exported


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "the system does not let memory become executable")
