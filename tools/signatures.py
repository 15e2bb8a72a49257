"""Signatures of functions that exist at run time as the text of a stub.

>>> def clamp(input: "Tensor", min: "float | None" = None, *, out=None): ...
>>> stub_of(clamp, "clamp", method=True, result="Tensor")
'def clamp(self, min: _float | None = None, *, out: Any = None) -> Tensor: ...'
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jtorch.eager.binding import compiled_now

# what annotations may name: a class with methods called ``int`` and ``dtype`` needs aliases for the types
ALIASES = {n: f"_{n}" for n in ("bool", "int", "float", "complex", "str", "type", "dtype", "device", "Size")}
KNOWN = {
    *ALIASES, "Any", "Tensor", "Callable", "Sequence", "Iterable", "Iterator", "Generator", "None", "np",
    "tuple", "list", "dict", "object",
}  # fmt: skip
_SIZES = ("*size: _int", "size: Sequence[_int], *")
# what ``*numbers, **named`` takes: the ways in which PyTorch writes it
FORMS = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), _SIZES),
    "resize_": ("self, *size: _int", "self, size: Sequence[_int], *"),
    "randint": ("high: _int, size: Sequence[_int], *", "low: _int, high: _int, size: Sequence[_int], *"),
    "randint_like": ("input: Tensor, high: Any, *", "input: Tensor, low: Any, high: Any, *"),
    "random_": ("self, to: _int = ..., *", "self, from_: _int, /, to: _int | None, *"),
    "uniform_": ("self, from_: _float = 0.0, /, to: _float = 1.0, *",),
}
HEADER = """from builtins import bool as _bool
from builtins import complex as _complex
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from builtins import type as _type
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

from jtorch.core.devices import device as _device
from jtorch.core.dtypes import dtype as _dtype
from jtorch.eager.tensor import Size as _Size
from jtorch.eager.tensor import Tensor
from jtorch.random import Generator
"""


def stub_of(
    function: Callable, name: str, method: bool, result: str | None = None, drop: Sequence[str] = ()
) -> str:
    """``def name(...) -> ...: ...`` in the names, order and defaults of ``function``, but for ``drop``.

    ``method``: the first parameter becomes ``self``. ``result`` stands where nothing is annotated.
    """
    signature = inspect.signature(compiled_now(function))
    parameters = [p for p in _parameters(function, signature) if p.name not in drop]
    if name in FORMS:
        return "\n".join(_overloads(name, [p for p in parameters if p.kind is p.KEYWORD_ONLY]))
    if method and parameters and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        parameters = parameters[1:]
    annotated = signature.return_annotation
    returned = result or "Any" if annotated is inspect.Signature.empty else annotation(annotated)
    listed = _listed(parameters)
    return f"def {name}({', '.join(['self', *listed] if method else listed)}) -> {returned}: ..."


def _overloads(name: str, keywords: list[inspect.Parameter]) -> Iterator[str]:
    listed = ", ".join(_listed(keywords)).removeprefix("*, ")
    for form in FORMS[name]:
        yield from ["@overload"] * (len(FORMS[name]) > 1)
        yield f"def {name}({form}, {listed}) -> Tensor: ..."


def _parameters(function: Callable, signature: inspect.Signature) -> list[inspect.Parameter]:
    """Those of what ``function`` wraps, and the keywords that it takes beside them, as ``out``."""
    found = list(signature.parameters.values())
    # numbers that are taken one by one or as one sequence, by keyword: a name stands once
    found = [p.replace(name=f"{p.name}_") if p.annotation == "ax.Numbers" else p for p in found]
    here = inspect.signature(function, follow_wrapped=False).parameters.values()
    names = {p.name for p in found}
    more = [p for p in here if p.kind is p.KEYWORD_ONLY and p.name not in names]
    last = [p for p in found if p.kind is p.VAR_KEYWORD]
    return [*(p for p in found if p.kind is not p.VAR_KEYWORD), *more, *last]


def _listed(parameters: list[inspect.Parameter]) -> list[str]:
    found, star = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            found.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        text = f"{stars}{p.name}: {annotation(p.annotation)}"
        found.append(text if p.default is p.empty else f"{text} = {_default(p.default)}")
    return found


def _default(value: Any) -> str:
    """Its text where that is a literal, ``...`` elsewhere."""
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else "..."
    except (ValueError, SyntaxError):
        return "..."


def annotation(value: Any) -> str:
    """An annotation in the stub's names; ``Any`` for what it has no name for."""
    if value is inspect.Parameter.empty:
        return "Any"
    text = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    try:
        tree = ast.parse(text.strip("\"'"), mode="eval")
    except SyntaxError:
        return "Any"
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    others = any(isinstance(n, ast.Attribute) and ast.unparse(n) not in _DOTTED for n in ast.walk(tree))
    if others or not names <= KNOWN | {"dt", "devices"}:
        return "Any"
    return ast.unparse(_Renamed().visit(tree))


_DOTTED = {
    "dt.dtype": "_dtype", "devices.device": "_device", "np.ndarray": "np.ndarray",
    "np.dtype": "np.dtype",
}  # fmt: skip


class _Renamed(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.parse(_DOTTED[ast.unparse(node)], mode="eval").body

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(ALIASES.get(node.id, node.id))
