"""A kernel's object code without the cache."""

from __future__ import annotations

from dataclasses import dataclass

from jtorch.native import loader
from jtorch.native.build import check, llvm_text, symbol_name


@dataclass(frozen=True)
class ObjectCode:
    """`int64 symbol(int64* args)` inside the relocatable object `code`, and the IR it is made of."""

    symbol: str
    code: bytes
    text: str

    def optimised(self) -> str:
        return str(loader.optimised(self.text)[1])


def build(source: str, entry: str, **names: object) -> ObjectCode:
    symbol, text = symbol_name(source, entry), llvm_text(source, entry, names)
    code = loader.compile_ir(text)
    check(code, symbol)
    return ObjectCode(symbol, code, text)
