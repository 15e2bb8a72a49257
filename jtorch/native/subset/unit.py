"""Functions that are translated together."""

from __future__ import annotations

import ast

from jtorch.native.subset.function import Function, parsed
from jtorch.native.subset.runtime import Code, declarations, runtime, symbol
from jtorch.native.subset.words import Field, Words


class Unit:
    """Their LLVM IR, and what they know of each other."""

    def __init__(
        self, words: Words, fields: dict[str, Field], numbers: dict[str, int], floor: Unit | None = None
    ) -> None:
        """``fields``: attributes that lie in structs; ``numbers``: names that stand for an integer. What
        ``floor`` holds is called, not held again: it is loaded, and offered to the loader, before this one.
        """
        self.words, self.fields, self.numbers = words, fields, numbers
        self.helpers: dict[str, str] = {}  # name -> the class of what it gives, or ""
        self.declarations: list[str] = []  # of what others may call
        self._texts = [declarations()]
        if floor is None:
            for function in runtime(words):
                self._share(function)
        else:
            self.helpers |= floor.helpers
            self._texts += floor.declarations

    def _share(self, function: Code) -> None:
        self._texts.append(function.text())
        self.declarations.append(function.declaration())

    def add_helper(self, text: str) -> None:
        """A function that those after it may call by its name."""
        tree = parsed(text)
        self._share(Function(tree, symbol(f"helper_{tree.name}"), self, builtin=False))
        self.helpers[tree.name] = tree.returns.id if isinstance(tree.returns, ast.Name) else ""

    def add(self, name: str, text: str) -> None:
        """A builtin, called with positional arguments."""
        self._texts.append(Function(parsed(text), name, self, builtin=True).text())

    def text(self) -> str:
        """LLVM IR of all of them."""
        return "\n".join(self._texts)
