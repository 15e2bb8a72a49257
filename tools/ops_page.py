"""Writes docs/ops.md, the table of ops for people: ``python -m tools.ops_page``."""

from __future__ import annotations

import inspect
from pathlib import Path

import jtorch
from jtorch import nn, special
from jtorch.core.op import TABLE, Kind, Op
from jtorch.eager.binding import compiled_now
from jtorch.eager.tensor import Tensor

FILE = Path(__file__).parents[1] / "docs" / "ops.md"
PYTORCH = "https://docs.pytorch.org/docs/stable/generated"
HEAD = """# The table of ops

<!-- Written by `python -m tools.ops_page`; a test compares. -->

One row for each of the {count} declarations in `jtorch/ops/`, by kind. From a declaration come the function,
the methods, the gradient, the tape node, the graph's equation and the kernel's text
([how it works](how_it_works.md)). Functions that only put ops together (`torch.stack`, `torch.einsum`, ...)
have no row: their gradient and their kernels are those of the ops they call.

* **arguments**: of the public function, where there is one; the op's own otherwise.
* **dtype**: of the result; the rules are below the tables.
* **gradient**: what the tape keeps for it; "keeps nothing" where shapes are enough, "-" where there is none.
* **fuses**: whether compiled code computes it inside a kernel with its neighbours; "call" is a library call.
* **methods**: of Tensor; those that end in `_` write over the tensor.
"""
KINDS = {
    Kind.ELEMENTWISE: "One output element from one element of each input.",
    Kind.REDUCTION: "Dims disappear under an associative combination.",
    Kind.VIEW: "Moves elements, computes nothing; the result shares memory.",
    Kind.CONTRACTION: "A matrix product.",
    Kind.OPAQUE: "A library call.",
    Kind.COMPOSITE: "A body over other ops: one node on the tape, many equations in the graph.",
}
DTYPE_RULES = {
    "promote": "the promoted dtype of the arguments",
    "float": "promoted; integers and bools become the default float",
    "floating": "promoted; integers are an error",
    "as_is": "that of the first argument",
    "compare": "bool, after promotion of the arguments",
    "logical": "bool",
    "index": "int64",
    "sum": "that of the argument, int64 for integers and bools",
    "static": "the one asked for",
    "where": "promoted over all arguments but the condition",
    "own": "a rule of its own, in the declaration",
}
TAIL = "\n## Rules of dtype\n\n"


def text() -> str:
    parts = [HEAD.format(count=len(TABLE))]
    for kind, what in KINDS.items():
        ops = sorted((op for op in TABLE if op.kind is kind), key=lambda op: op.public or f"~{op.name}")
        parts.append(f"\n## {kind.value.capitalize()}\n\n{what}\n\n{_table(ops)}\n")
    used = {_rule(op) for op in TABLE}
    rules = [f"* `{name}`: {what}" for name, what in DTYPE_RULES.items() if name in used]
    return "".join(parts) + TAIL + "\n".join(rules) + "\n"


def _table(ops: list[Op]) -> str:
    headings = ("op", "arguments", "dtype", "gradient", "fuses", "methods")
    rows = [headings, ("---",) * len(headings), *map(_cells, ops)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(op: Op) -> tuple[str, ...]:
    name = f"`{op.public or op.name}`"
    link = pytorch_name(op)
    shown = f"[{name}]({PYTORCH}/{link}.html)" if link else name
    methods = ", ".join(f"`{m}`" for m in methods_of(op))
    return shown, f"`({_arguments(op)})`", _rule(op), _gradient(op), _fuses(op), methods


def pytorch_name(op: Op) -> str | None:
    """The name under which PyTorch documents it; None for what is no function there."""
    if op.public is None or op.public in _NOT_THERE:
        return None
    if op.public in _METHODS_THERE:
        return f"torch.Tensor.{op.public}"
    places = {"torch.nn.functional": nn.functional, "torch": jtorch, "torch.special": special}
    return next((f"{p}.{op.public}" for p, module in places.items() if op.public in vars(module)), None)


_METHODS_THERE = {"expand"}  # a function here, only a method in PyTorch
_NOT_THERE: frozenset[str] = frozenset()  # ours alone


def methods_of(op: Op) -> list[str]:
    names = dict.fromkeys([*op.methods, *([op.public, f"{op.public}_"] if op.public else [])])
    return [name for name in names if hasattr(Tensor, name)]


def _arguments(op: Op) -> str:
    function = getattr(jtorch, op.public, None) if op.public else None
    if function is None:
        return ", ".join([*op.arrays, *(["*", *op.statics] if op.statics else [])])
    parameters = inspect.signature(compiled_now(function)).parameters.values()
    shown, star = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        shown.append(f"{stars}{p.name}" + ("" if p.default is p.empty else f"={p.default!r}"))
    return ", ".join(shown)


def _rule(op: Op) -> str:
    return op.dtype if isinstance(op.dtype, str) else "own"


def _gradient(op: Op) -> str:
    if op.vjp_function is None or not op.differentiable:
        return "-"
    kept = [name for name in op.save_list if not name.endswith(("_shape", "_dtype")) and name != "needs"]
    return f"keeps {', '.join(kept)}" if kept else "keeps nothing"


def _fuses(op: Op) -> str:
    if op.kind in (Kind.CONTRACTION, Kind.OPAQUE):
        return "call"
    if op.kind is Kind.COMPOSITE:
        return "its parts"
    if op.kind is Kind.VIEW:
        return "as indices"
    return "yes" if op.text or op.combine else "call"


def main() -> None:
    FILE.write_text(text())


if __name__ == "__main__":
    main()
