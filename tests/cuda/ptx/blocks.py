"""Basic blocks of a kernel, and which registers live from one to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cuda.ptx.errors import PtxError
from tests.cuda.ptx.parse import Address, Entry, Instruction, Label, Operand, Pack, Register, Symbol

_BRANCH, _RETURN, _BARRIER = ("bra", "bra.uni"), "ret", "bar.sync"


@dataclass
class Block:
    """Instructions that run one after the other, and what comes behind the last of them."""

    number: int
    body: list[Instruction] = field(default_factory=list)
    end: Instruction | None = None  # a branch, a return or a barrier, if the block ends with one
    taken: int | None = None  # the block that a branch goes to
    below: int | None = None  # the block that comes next, unless a branch is taken
    reads: set[str] = field(default_factory=set)  # registers, before they are written here
    writes: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)  # what other blocks read afterwards

    @property
    def is_barrier(self) -> bool:
        return self.end is not None and self.end.opcode == _BARRIER

    @property
    def instructions(self) -> list[Instruction]:
        return self.body + ([self.end] if self.end else [])


def blocks_of(entry: Entry) -> list[Block]:
    blocks, labels = _cut(entry)
    for block in blocks:
        opcode = block.end.opcode if block.end else None
        if opcode in _BRANCH:
            (target,) = block.end.operands
            if not isinstance(target, Symbol) or target.name not in labels:
                raise PtxError(f"{entry.name}, line {block.end.line}: no such label: {block.end.text}")
            block.taken = labels[target.name]
        if opcode != _RETURN and (opcode not in _BRANCH or block.end.guard):
            block.below = block.number + 1
    if not blocks[-1].instructions or blocks[-1].below is not None:
        raise PtxError(f"{entry.name} runs over its end")
    _find_live(blocks)
    return blocks


def _cut(entry: Entry) -> tuple[list[Block], dict[str, int]]:
    blocks, labels = [Block(0)], {}
    for item in entry.body:
        if blocks[-1].end or (isinstance(item, Label) and blocks[-1].body):
            blocks.append(Block(len(blocks)))
        if isinstance(item, Label):
            labels[item.name] = len(blocks) - 1
        elif item.opcode in _BRANCH:
            blocks[-1].end = item
        elif item.guard:
            raise PtxError(
                f"{entry.name}, line {item.line}: only branches are known with a guard: {item.text}"
            )
        elif item.opcode in (_RETURN, _BARRIER):
            blocks[-1].end = item
        else:
            blocks[-1].body.append(item)
    return blocks, labels


def _find_live(blocks: list[Block]) -> None:
    for block in blocks:
        for item in block.instructions:
            writes, reads = _registers(item)
            block.reads |= reads - block.writes
            block.writes |= writes
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            behind = [blocks[k] for k in (block.taken, block.below) if k is not None]
            live = set().union(*(b.reads | (b.live - b.writes) for b in behind))
            changed |= live != block.live
            block.live = live


def _registers(item: Instruction) -> tuple[set[str], set[str]]:
    """Those that an instruction writes and those that it reads."""
    first = 0 if item.opcode.startswith(("st.", "bar.", "bra", "ret")) else 1
    writes = {name for operand in item.operands[:first] for name in _names(operand)}
    reads = {name for operand in item.operands[first:] for name in _names(operand)}
    return writes, reads | ({item.guard.name} if item.guard else set())


def _names(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Pack):
        yield from (part.name for part in operand.parts)
    elif isinstance(operand, Address):
        yield from _names(operand.base)
