"""Functions that are translated together."""

from __future__ import annotations

import ast

from jtorch.native.subset.function import Function, parsed
from jtorch.native.subset.runtime import declarations, runtime
from jtorch.native.subset.words import Field, Words


class Unit:
    """Their LLVM IR, and what they know of each other."""

    def __init__(self, words: Words, fields: dict[str, Field], numbers: dict[str, int]) -> None:
        """``fields``: attributes that lie in structs; ``numbers``: names that stand for an integer."""
        self.words, self.fields, self.numbers = words, fields, numbers
        self.helpers: dict[str, str] = {}  # name -> the class of what it gives, or ""
        self._texts = [declarations(), *(function.text() for function in runtime(words))]

    def add_helper(self, text: str) -> None:
        """A function that those after it may call by its name."""
        tree = parsed(text)
        self._texts.append(Function(tree, f"helper_{tree.name}", self, builtin=False).text())
        self.helpers[tree.name] = tree.returns.id if isinstance(tree.returns, ast.Name) else ""

    def add(self, symbol: str, text: str) -> None:
        """A builtin, called with positional arguments."""
        self._texts.append(Function(parsed(text), symbol, self, builtin=True).text())

    def text(self) -> str:
        """LLVM IR of all of them."""
        return "\n".join(self._texts)
