"""What each instruction is as a line of NumPy. What is not here is refused, modifiers included.

A register is an array. ``add.s64 %rd3, %rd1, %rd2`` becomes ``rd3 = (rd1.view(I8) + rd2.view(I8)).view(U8)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tests.cuda.ptx.errors import PtxError
from tests.cuda.ptx.parse import SIZES, Address, Immediate, Instruction, Operand, Pack, Symbol


class Writer(Protocol):
    """Turns operands to text (``translate.py``)."""

    def read(self, operand: Operand, kind: str) -> str:
        """An operand as an array of ``kind``; of a wider register the low bits."""

    def assign(self, target: Operand, text: str, kind: str) -> str:
        """``text``, an array of ``kind``, to a register; a wider one is extended as the type says."""

    def parameter(self, name: str) -> tuple[int, int]:
        """The number of a parameter and its size."""

    number: int  # of the instruction, which a fault names


def lines(writer: Writer, item: Instruction) -> list[str]:
    """The instruction as statements. Raises PtxError for one that is not known."""
    if item.stem in _FORMS:
        return _of_form(writer, item)
    rule = _RULES.get(item.opcode.partition(".")[0])
    if rule is None:
        raise PtxError("unknown instruction")
    return rule(writer, item)


# -- arithmetic --------------------------------------------------------------------------------------------

# opcode without its type -> the types it is known for (a letter, or all of one), and what it computes
_FORMS = {
    "add": ("s u", "{a} + {b}"),
    "sub": ("s u", "{a} - {b}"),
    "mul.lo": ("s u", "{a} * {b}"),
    "div": ("s u", "divide({a}, {b})"),
    "rem": ("s u", "remainder({a}, {b})"),
    "min": ("s u", "np.minimum({a}, {b})"),
    "max": ("s u", "np.maximum({a}, {b})"),
    "neg": ("s f", "-{a}"),
    "abs": ("s f", "np.abs({a})"),
    "and": ("b p", "{a} & {b}"),
    "or": ("b p", "{a} | {b}"),
    "xor": ("b p", "{a} ^ {b}"),
    "not": ("b p", "~{a}"),
    "add.rn": ("f", "{a} + {b}"),  # without .rn an assembler may contract it
    "sub.rn": ("f", "{a} - {b}"),
    "mul.rn": ("f", "{a} * {b}"),
    "div.rn": ("f", "{a} / {b}"),
    "rcp.rn": ("f", "1 / {a}"),
    "sqrt.rn": ("f", "np.sqrt({a})"),
    "fma.rn": ("f", "fma({a}, {b}, {c})"),
    "fma.rz": ("f32", "fma_toward_zero({a}, {b}, {c})"),
    "div.approx": ("f32", "rough_quotient({a}, {b})"),
    "rcp.approx.ftz": ("f32", "rough_reciprocal({a})"),
    "copysign": ("f", "np.copysign({b}, {a})"),
}


def _of_form(writer: Writer, item: Instruction) -> list[str]:
    known, form = _FORMS[item.stem]
    _check_kind(item.kind, known)
    names = [name for name in "abc" if f"{{{name}}}" in form]
    if len(item.operands) != 1 + len(names):
        raise PtxError(f"{len(item.operands)} operands")
    target, *operands = item.operands
    given = {name: writer.read(operand, item.kind) for name, operand in zip(names, operands, strict=True)}
    return [writer.assign(target, form.format(**given), item.kind)]


def _check_kind(kind: str, known: str) -> None:
    if kind not in SIZES or not any(kind.startswith(part) for part in known.split()):
        raise PtxError(f"not known for the type .{kind}")


Rule = Callable[[Writer, Instruction], list[str]]
_RULES: dict[str, Rule] = {}


def _rule(opcode: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES[opcode] = rule
        return rule

    return add


def _only(item: Instruction, *opcodes: str) -> None:
    if item.stem not in opcodes:
        raise PtxError("unknown modifiers")


@_rule("mul")
def _multiply_wide(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "mul.wide")
    _check_kind(item.kind, "s16 s32 u16 u32")
    wide = f"{item.kind[0]}{2 * int(item.kind[1:])}"
    target, *factors = item.operands
    a, b = (f"{writer.read(factor, item.kind)}.astype({array_type(wide)})" for factor in factors)
    return [writer.assign(target, f"{a} * {b}", wide)]


@_rule("shl")
@_rule("shr")
def _shift(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "shl", "shr")
    left = item.stem == "shl"
    _check_kind(item.kind, "b" if left else "s u b")
    target, value, count = item.operands
    a = writer.read(value, item.kind)
    if isinstance(count, Immediate) and 0 <= count.bits < 8 * SIZES[item.kind]:
        return [writer.assign(target, f"{a} {'<<' if left else '>>'} {count.bits}", item.kind)]
    name = "shift_left" if left else "shift_right"
    return [writer.assign(target, f"{name}({a}, {writer.read(count, 'u32')})", item.kind)]


# -- choices -----------------------------------------------------------------------------------------------

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARE_FLOATS = {
    "ne": "({a} < {b}) | ({a} > {b})", "num": "({a} == {a}) & ({b} == {b})",
    # true where one is NaN
    "nan": "({a} != {a}) | ({b} != {b})",
    "equ": "~(({a} < {b}) | ({a} > {b}))", "neu": "{a} != {b}",
    "ltu": "~({a} >= {b})", "leu": "~({a} > {b})", "gtu": "~({a} <= {b})", "geu": "~({a} < {b})",
}  # fmt: skip


@_rule("setp")
def _compare(writer: Writer, item: Instruction) -> list[str]:
    _check_kind(item.kind, "s u b f")
    how = item.stem.removeprefix("setp.")
    forms = {name: f"{{a}} {sign} {{b}}" for name, sign in _COMPARE.items()}
    if item.kind[0] == "f":
        forms |= _COMPARE_FLOATS
    if how not in forms:
        raise PtxError("unknown comparison")
    target, *operands = item.operands
    a, b = (writer.read(operand, item.kind) for operand in operands)
    return [writer.assign(target, forms[how].format(a=a, b=b), "pred")]


@_rule("selp")
def _select(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "selp")
    _check_kind(item.kind, "s u b f")
    target, yes, no, choice = item.operands
    a, b = writer.read(yes, item.kind), writer.read(no, item.kind)
    return [writer.assign(target, f"np.where({writer.read(choice, 'pred')}, {a}, {b})", item.kind)]


# -- moves and conversions ---------------------------------------------------------------------------------


@_rule("mov")
def _move(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "mov")
    target, source = item.operands
    if isinstance(target, Pack) or isinstance(source, Pack):
        return _move_halves(writer, item)
    # a copy: the machine writes into the array of a register
    return [writer.assign(target, f"{writer.read(source, item.kind)}.copy()", item.kind)]


def _move_halves(writer: Writer, item: Instruction) -> list[str]:
    """``mov.b64 {low, high}, x`` and ``mov.b64 x, {low, high}``, and the same of ``.b32``"""
    if item.kind not in ("b64", "b32"):
        raise PtxError("halves are known of .b64 and .b32 alone")
    bits = SIZES[item.kind] * 4  # of a half
    half, all_of_it = f"u{bits}", f"u{2 * bits}"
    target, source = item.operands
    if isinstance(target, Pack):
        low, high = target.parts
        whole = writer.read(source, all_of_it)
        return [
            writer.assign(low, f"{whole}.astype({array_type(half)})", half),
            writer.assign(high, f"({whole} >> {bits}).astype({array_type(half)})", half),
        ]
    low, high = (f"{writer.read(part, half)}.astype({array_type(all_of_it)})" for part in source.parts)
    return [writer.assign(target, f"{low} | ({high} << {bits})", all_of_it)]


@_rule("cvta")
def _to_global(writer: Writer, item: Instruction) -> list[str]:
    """Generic addresses of global memory are its addresses."""
    _only(item, "cvta.to.global")
    target, source = item.operands
    return [writer.assign(target, f"{writer.read(source, 'u64')}.copy()", "u64")]


_WHOLE = {"rni": "np.rint", "rzi": "np.trunc", "rmi": "np.floor", "rpi": "np.ceil"}


@_rule("cvt")
def _convert(writer: Writer, item: Instruction) -> list[str]:
    _, *how, to, kind = item.opcode.split(".")
    _check_kind(kind, "s u f")
    _check_kind(to, "s u f")
    target, source = item.operands
    text = writer.read(source, kind)
    from_float, to_float = kind[0] == "f", to[0] == "f"
    if from_float and len(how) == 1 and how[0] in _WHOLE and (to == kind or not to_float):
        text = f"{_WHOLE[how[0]]}({text})"
        return [writer.assign(target, text if to_float else f"to_integer({text}, {array_type(to)})", to)]
    is_exact = not (from_float or to_float) or (kind, to) == ("f32", "f64")
    if how != ([] if is_exact else ["rn"]) or (from_float and not to_float):
        raise PtxError("unknown rounding")
    return [writer.assign(target, f"{text}.astype({array_type(to)})", to)]


def array_type(kind: str) -> str:
    """The name of NumPy's type, as ``arithmetic.py`` has it: I4 for s32."""
    return "bool" if kind == "pred" else f"{kind[0].translate(_LETTERS)}{SIZES[kind]}"


_LETTERS = str.maketrans("busf", "UUIF")


# -- memory ------------------------------------------------------------------------------------------------


@_rule("ld")
def _load(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "ld.param", "ld.global", "ld.global.nc", "ld.shared")
    kind, (target, address) = item.kind, item.operands
    if item.stem == "ld.param":
        return [
            writer.assign(target, f"m.parameter({_parameter(writer, item)}).view({array_type(kind)})", kind)
        ]
    given = f"{_space(item)!r}, {_place(writer, address)}, {SIZES[kind]}, {writer.number}"
    promised = ", promised=True" if item.stem.endswith(".nc") else ""
    return [writer.assign(target, f"m.load({given}{promised}).view({array_type(kind)})", kind)]


@_rule("st")
def _store(writer: Writer, item: Instruction) -> list[str]:
    _only(item, "st.global", "st.shared")
    address, source = item.operands
    bits = f"b{8 * SIZES[item.kind]}"
    given = f"{_space(item)!r}, {_place(writer, address)}, {SIZES[item.kind]}, {writer.number}"
    return [f"m.store({given}, {writer.read(source, bits)})"]


def _space(item: Instruction) -> str:
    return item.stem.split(".")[1]


def _place(writer: Writer, address: Operand) -> str:
    if not isinstance(address, Address):
        raise PtxError("no address")
    text = writer.read(address.base, "u64")
    return f"{text} + U8({address.offset % 2**64})" if address.offset else text


def _parameter(writer: Writer, item: Instruction) -> int:
    address = item.operands[1]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol) or address.offset:
        raise PtxError("unknown address of a parameter")
    number, size = writer.parameter(address.base.name)
    if size != SIZES[item.kind]:
        raise PtxError(f"the parameter has {size} bytes")
    return number
