"""The ids of a document: one for each line, node, value, equation, group, step and kernel it names."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterable, Iterator
from typing import Any

from jtorch.compile.graph.ir import Atom, Eqn, Graph, Var, eqn_text, names_of
from jtorch.core.dim import value_of
from jtorch.core.errors import Source

Entry = dict[str, Any]


class Ids:
    """Gives ids, and keeps the entries of what many parts of a document name: lines, values, equations.

    A variable has one name throughout: that of the recorded graph, whichever pass it comes from.
    """

    def __init__(self, recorded: Graph) -> None:
        self.lines: dict[Source, Entry] = {}
        self.values: dict[Var, Entry] = {}
        self.equations: dict[Eqn, Entry] = {}
        self._same: dict[Var, Var] = {}
        self._by_text: dict[tuple[tuple[Var, ...], str], Entry] = {}
        self._names = names_of(recorded)
        self._taken = set(self._names.values())
        self._fresh = (f"t{k}" for k in itertools.count(1))
        self._numbers: dict[str, Iterator[int]] = {}
        self._recorded = {v: e for e in recorded.eqns for v in e.outputs}

    def same(self, one: Graph, other: Graph) -> None:
        """The variables that ``one`` has of its own are those of ``other``: the same passes made both."""
        if [e.op for e in one.eqns] == [e.op for e in other.eqns]:
            pairs = (
                zip(a.outputs, b.outputs, strict=True) for a, b in zip(one.eqns, other.eqns, strict=True)
            )
            self._same.update((a, b) for pair in pairs for a, b in pair if a is not b)

    def new(self, prefix: str) -> str:
        """``g0``, ``g1``..."""
        return f"{prefix}{next(self._numbers.setdefault(prefix, itertools.count()))}"

    def line(self, source: Source | None) -> str | None:
        """The id of a line of the user's."""
        if source is None:
            return None
        if source not in self.lines:
            text = linecache.getline(source.file, source.line).rstrip()
            self.lines[source] = {
                "id": self.new("l"), "file": source.file, "line": source.line, "function": source.function,
                "text": text,
            }  # fmt: skip
        return str(self.lines[source]["id"])

    def value(self, var: Var) -> str:
        """The id of a variable."""
        var = self._same.get(var, var)
        if var not in self.values:
            self.values[var] = {
                "id": self.new("v"), "name": self._name(var), "type": str(var.type),
                "bytes": int(value_of(var.type.nbytes)),
            }  # fmt: skip
        return str(self.values[var]["id"])

    def equation(self, eqn: Eqn) -> str:
        """The id of an equation. What passes leave as it is has one id in all graphs."""
        if eqn not in self.equations:
            text = eqn_text(eqn, self.show)
            key = tuple(self._same.get(v, v) for v in eqn.outputs), text
            same = self._by_text.get(key)
            if same is not None:
                self.equations[eqn] = same
                return str(same["id"])
            before = (self._recorded.get(v) for v in eqn.outputs)
            origins = dict.fromkeys(e for e in before if e is not None and e is not eqn)
            self.equations[eqn] = self._by_text[key] = {
                "id": self.new("e"), "op": eqn.op.name, "kind": str(eqn.op.kind.value),
                "text": text, "line": self.line(eqn.source), "node": None,
                "inputs": [self.value(a) for a in eqn.inputs if isinstance(a, Var)],
                "outputs": [self.value(v) for v in eqn.outputs],
                "from": self.all_equations(origins),
            }  # fmt: skip
        return str(self.equations[eqn]["id"])

    def entries(self) -> list[Entry]:
        """The equations, each once."""
        return list(self._by_text.values())

    def all_equations(self, eqns: Iterable[Eqn]) -> list[str]:
        return [self.equation(e) for e in eqns]

    def show(self, atom: Atom) -> str:
        """How texts name a variable or a number."""
        return self._name(atom) if isinstance(atom, Var) else str(atom)

    def _name(self, var: Var) -> str:
        var = self._same.get(var, var)
        if var not in self._names:
            hint = var.hint if var.hint not in self._taken else ""
            self._names[var] = hint or next(n for n in self._fresh if n not in self._taken)
            self._taken.add(self._names[var])
        return self._names[var]
