"""Text that the PTX machine does not know is an error, never skipped."""

from __future__ import annotations

import pytest

from tests.cuda.ptx.errors import PtxError
from tests.cuda.ptx.translate import load
from tests.cuda.snippets import HEAD, kernel

UNKNOWN = {
    "an opcode": ("brev.b32 %r1, %r2;", "unknown instruction"),
    "a modifier": ("add.sat.s32 %r1, %r2, %r3;", "unknown instruction"),
    "a type": ("add.f16 %rs1, %rs2, %rs3;", r"not known for the type .f16"),
    "a float without rounding, which may be contracted": ("mul.f32 %f1, %f2, %f3;", "unknown modifiers"),
    "a rounding": ("cvt.rz.f32.f64 %f1, %fd1;", "unknown rounding"),
    "a space": ("ld.local.u32 %r1, [%rd1];", "unknown modifiers"),
    "generic addresses": ("ld.u32 %r1, [%rd1];", "unknown modifiers"),
    "a guard that is no branch's": ("@%p1 add.s32 %r1, %r2, %r3;", "only branches are known with a guard"),
    "another barrier": ("bar.sync 1;", "only barrier 0"),
    "a part of the threads": ("bar.sync 0, 32;", "only barrier 0"),
    "a label that is nowhere": ("bra L7;", "no such label"),
    "a register that is not declared": ("add.s32 %r1, %r2, %r99;", "%r99 is not declared"),
    "a register that is too narrow": ("add.s64 %rd1, %rd2, %r3;", "%r3 is a .b32, and read as .s64"),
    "a result that is too wide": ("add.s64 %r1, %rd2, %rd3;", "%r1 is a .b32, and gets a .s64"),
    "a parameter of another width": ("ld.param.u32 %r1, [k_param_0];", "the parameter has 8 bytes"),
    "a parameter that is none": ("ld.param.u64 %rd1, [k_param_7];", "no parameter k_param_7"),
    "an array that is none": ("mov.u64 %rd1, nowhere;", "nowhere is not declared"),
    "a comparison": ("setp.lo.u32 %p1, %r1, %r2;", "unknown comparison"),
    "an operand too few": ("fma.rn.f32 %f1, %f2, %f3;", ": 3 operands"),
    "an operand too many": ("add.s32 %r1, %r2, %r3, %r4;", ": 4 operands"),
    "a number that is none": ("add.s32 %r1, %r2, 1x;", "unknown number"),
    "an atomic operation": ("atom.global.add.u32 %r1, [%rd1], %r2;", "unknown instruction"),
    "a call": ("call.uni f, (%r1);", "unknown"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown(what):
    text, why = UNKNOWN[what]
    with pytest.raises(PtxError, match=why):
        kernel(text)


def test_an_unknown_instruction_is_named_with_its_line():
    with pytest.raises(PtxError, match=r"k, line 10 `brev.b32 %r1, %r2`: unknown instruction"):
        kernel("// a comment\nbrev.b32 %r1, %r2;")


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "no .version"),
        (HEAD + ".extern .func f;", "unknown declaration"),
        (HEAD + ".visible .entry k(.param .align 8 .b8 p[16]) { ret; }", "unknown parameter"),
        (HEAD + ".visible .entry k() .minnctapersm 2 { ret; }", "unknown directives"),
        (HEAD + ".visible .entry k() { .reg .b128 %x; ret; }", "unknown registers"),
        (HEAD + ".visible .entry k() { .reg .b32 %x; { .reg .b64 %x; } ret; }", "%x is of two types"),
        (HEAD + ".visible .entry k() { ret;", "a brace is not closed"),
        (HEAD + ".visible .entry k() { .reg .b32 %x; mov.u32 %x, 1; }", "runs over its end"),
    ],
)
def test_unknown_text(text, why):
    with pytest.raises(PtxError, match=why):
        load(text)
