"""How many values lie on a frame's stack before each instruction of its code.

Followed along the code from its entry and from the entries of its exception handlers, with what ``dis``
says of each instruction's effect. The compiler of Python computes the size of the stack in the same way; so
this holds on every version, where the interpreter's own record of it is wrong while it calls trace
functions (CPython 3.12 and 3.13).
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType

_JUMPS = {*dis.hasjrel, *dis.hasjabs} - {dis.opmap["END_ASYNC_FOR"]}  # whose argument is the loop's place
_ENDS = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT",
})  # fmt: skip
_GENERATOR = dis.opmap["RETURN_GENERATOR"]  # leaves a value that is not in 3.11's and 3.12's table


def depths(code: CodeType, instructions: Sequence[dis.Instruction]) -> dict[int, int]:
    """The depth at the offset of each instruction that can be reached.

    Raises ValueError where two ways to an instruction disagree: this is not code that CPython's compiler
    writes.
    """
    found: dict[int, int] = {}
    index = {instruction.offset: k for k, instruction in enumerate(instructions)}
    # an exception handler finds the stack cut to its depth, the exception on it
    starts = [(e.target, e.depth + e.lasti + 1) for e in dis.Bytecode(code).exception_entries]  # type: ignore[attr-defined]
    starts.append((0, 0))
    while starts:
        offset, depth = starts.pop()
        for k in range(index[offset], len(instructions)):
            instruction = instructions[k]
            if found.setdefault(instruction.offset, depth) != depth:
                raise ValueError(f"{code.co_name}: the stack's depth at {instruction.offset} is ambiguous")
            if instruction.opcode in _JUMPS:
                target = (instruction.argval, depth + _effect(instruction, jump=True))
                if target[0] not in found or found[target[0]] != target[1]:
                    starts.append(target)
            depth += _effect(instruction, jump=False)
            if instruction.opname in _ENDS:
                break
            following = instructions[k + 1].offset
            if found.get(following) == depth:
                break
    return found


def _effect(instruction: dis.Instruction, jump: bool) -> int:
    if instruction.opcode == _GENERATOR:
        return 1
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=jump)
