"""PTX as data: the entries of a module as lists of instructions, its arrays with their bytes.

Reads what NVVM writes for jtorch's kernels: entries without calls, registers by declaration, one statement
per instruction, arrays of the module. Whatever else it meets is a PtxError.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod

from tests.cuda.ptx.errors import PtxError

SIZES = {f"{letter}{8 * size}": size for letter in "bus" for size in (1, 2, 4, 8)}
SIZES |= {"f32": 4, "f64": 8, "pred": 1}


@dataclass(frozen=True)
class Register:
    name: str


@dataclass(frozen=True)
class Immediate:
    bits: int  # of a float those of its kind; of an integer its value
    kind: str = ""  # f32, f64, or none: an integer of any type


@dataclass(frozen=True)
class Symbol:
    name: str  # a label, a parameter, an array


@dataclass(frozen=True)
class Special:
    name: str  # tid.x


@dataclass(frozen=True)
class Address:
    base: Register | Symbol
    offset: int


@dataclass(frozen=True)
class Pack:
    """{low, high}"""

    parts: tuple[Register, ...]


Operand = Register | Immediate | Symbol | Special | Address | Pack


@dataclass(frozen=True)
class Instruction:
    opcode: str  # add.s64
    operands: tuple[Operand, ...]
    line: int
    text: str
    guard: Register | None = None  # @%p1
    negated: bool = False  # @!%p1

    @property
    def stem(self) -> str:
        """The opcode without its type: ``mul.wide`` of ``mul.wide.s32``."""
        return self.opcode.rpartition(".")[0]

    @property
    def kind(self) -> str:
        return self.opcode.rpartition(".")[2]


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: str

    @property
    def size(self) -> int:
        return SIZES[self.kind]


@dataclass(frozen=True)
class Array:
    """Memory that the module declares."""

    space: str  # global, const or shared
    size: int
    align: int
    data: bytes | None  # what it begins with, if the text says


@dataclass
class Entry:
    """A kernel."""

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int
    body: list[Instruction | Label] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name -> type


@dataclass
class Module:
    version: str
    target: str
    entries: dict[str, Entry] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)


_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_HEADER = re.compile(r"\s*\.version\s+([\d.]+)\s+\.target\s+(\w+)\s+\.address_size\s+64\b")
_ENTRY = re.compile(r"\s*(?:\.visible\s+)?\.entry\s+([$\w]+)\s*\((.*?)\)([^{;]*)\{", re.S)
_ARRAY = re.compile(
    r"(?:\.(?:visible|common)\s+)?\.(global|const|shared)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([$\w]+)"
    r"(?:\[(\d+)\])?(?:\s*=\s*(.*))?",
    re.S,
)
_PARAMETER = re.compile(r"\s*\.param\s+\.(\w+)\s+([$\w]+)\s*")
_BOUND = re.compile(r"\.maxntid\s+([\d, ]+)")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(%?[$\w]+)(?:<(\d+)>)?")
_LABEL = re.compile(r"\s*([$\w]+)\s*:")
_INSTRUCTION = re.compile(r"(?:@(!?)(%[$\w]+)\s+)?([a-z][\w.]*)\s*(.*)", re.S)
_OPERAND = re.compile(r"\[[^\]]*\]|\{[^}]*\}|[^,\s]+")


def parse(text: str) -> Module:
    plain = _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)
    header = _HEADER.match(plain)
    if not header:
        raise PtxError(f"no .version, .target and .address_size 64, but {plain.strip()[:60]!r}")
    module = Module(*header.groups())
    line_of = _lines(plain)
    at = header.end()
    while plain[at:].strip():
        entry = _ENTRY.match(plain, at)
        if entry:
            at = _closing(plain, entry.end())
            module.entries[entry[1]] = _entry(entry, plain, at, line_of)
            at += 1
        else:
            end = _end_of_statement(plain, at)
            name, array = _array(plain[at:end].strip())
            module.arrays[name] = array
            at = end + 1
    return module


def _lines(text: str) -> Callable[[int], int]:
    ends = [k for k, letter in enumerate(text) if letter == "\n"]
    return lambda at: bisect(ends, at - 1) + 1


def _closing(text: str, at: int) -> int:
    """Where the brace that was opened before ``at`` is closed."""
    depth = 1
    for found in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if found.group() == "{" else -1
        if not depth:
            return found.start()
    raise PtxError("a brace is not closed")


def _end_of_statement(text: str, at: int) -> int:
    end = text.find(";", at)
    if end < 0:
        raise PtxError(f"no end of {text[at:].strip()[:60]!r}")
    return end


def _array(text: str) -> tuple[str, Array]:
    found = _ARRAY.fullmatch(text)
    if not found:
        raise PtxError(f"unknown declaration {text[:60]!r}")
    space, align, kind, name, count, given = found.groups()
    width = SIZES[kind]
    size = width * int(count or 1)
    data = None
    if given:
        items = [_number(item).bits for item in re.findall(r"[-\w]+", given)]
        data = b"".join(item.to_bytes(width, "little", signed=item < 0) for item in items).ljust(size, b"\0")
    return name, Array(space, size, int(align or width), data)


def _entry(found: re.Match[str], text: str, end: int, line_of: Callable[[int], int]) -> Entry:
    name, given, directives = found.groups()
    parameters = tuple(_parameter(part) for part in given.split(",") if part.strip())
    bound = _BOUND.fullmatch(directives.strip())
    if directives.strip() and not bound:
        raise PtxError(f"{name}: unknown directives {directives.strip()!r}")
    entry = Entry(name, parameters, prod(map(int, bound[1].split(","))) if bound else 1024)
    for at, statement in _statements(text, found.end(), end):
        if statement.startswith(".reg"):
            _declare(entry, statement)
        elif statement.endswith(":"):
            entry.body.append(Label(statement[:-1].rstrip()))
        elif not statement.startswith(".pragma"):
            entry.body.append(_instruction(statement, line_of(at)))
    return entry


def _parameter(text: str) -> Parameter:
    found = _PARAMETER.fullmatch(text)
    if not found or found[1] not in SIZES:
        raise PtxError(f"unknown parameter {text.strip()!r}")
    return Parameter(found[2], found[1])


def _statements(text: str, at: int, end: int) -> Iterator[tuple[int, str]]:
    """(position, text) of each; braces, which are scopes of registers, are left out."""
    blank = re.compile(r"[\s{}]*")
    while (at := blank.match(text, at, end).end()) < end:
        label = _LABEL.match(text, at, end)
        stop = label.end() if label else _end_of_statement(text, at)
        yield at, " ".join(text[at:stop].split())
        at = stop if label else stop + 1


def _declare(entry: Entry, statement: str) -> None:
    found = _REGISTERS.fullmatch(statement)
    if not found or found[1] not in SIZES:
        raise PtxError(f"{entry.name}: unknown registers {statement!r}")
    kind, name, count = found.groups()
    for register in [f"{name}{k}" for k in range(int(count))] if count else [name]:
        if entry.registers.setdefault(register, kind) != kind:
            raise PtxError(
                f"{entry.name}: {register} is of two types, .{entry.registers[register]} and .{kind}"
            )


def _instruction(text: str, line: int) -> Instruction:
    found = _INSTRUCTION.fullmatch(text)
    if not found:
        raise PtxError(f"line {line}: unknown statement {text!r}")
    negated, guard, opcode, rest = found.groups()
    operands = tuple(map(_operand, _OPERAND.findall(rest)))
    return Instruction(opcode, operands, line, text, Register(guard) if guard else None, bool(negated))


def _operand(text: str) -> Operand:
    if text[0] == "{":
        return Pack(tuple(Register(part.strip()) for part in text[1:-1].split(",")))
    if text[0] == "[":
        base, _, offset = text[1:-1].replace(" ", "").partition("+")
        return Address(Register(base) if base[0] == "%" else Symbol(base), int(offset or "0", 0))
    if re.fullmatch(r"%(tid|ntid|ctaid|nctaid)\.[xyz]", text):
        return Special(text[1:])
    if text[0] == "%":
        return Register(text)
    return _number(text) if text[0] in "-0123456789" else Symbol(text)


def _number(text: str) -> Immediate:
    if text[:2] in ("0f", "0d"):
        return Immediate(int(text[2:], 16), "f32" if text[1] == "f" else "f64")
    try:
        return Immediate(int(text, 0))
    except ValueError:
        raise PtxError(f"unknown number {text!r}") from None
