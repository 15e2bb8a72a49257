"""The names of PyTorch that a script uses, and those of them that jtorch lacks."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from jtorch.as_torch.aliases import target
from jtorch.as_torch.missing import chain, reason
from jtorch.as_torch.stubs import is_absent, is_stub

_ROOTS = ("torch", "torchvision")


@dataclass(frozen=True, order=True)
class Use:
    """One name of PyTorch in a script."""

    name: str
    line: int


def uses(source: str, filename: str) -> list[Use]:
    """Every dotted name of torch and torchvision that the script imports or mentions."""
    tree = ast.parse(source, filename)
    bound: dict[str, str] = {}  # a name in the script -> what it stands for
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _ROOTS:
                    found.add(Use(alias.name, node.lineno))
                    root = alias.name.partition(".")[0]
                    bound[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _ROOTS:
            for alias in node.names:
                if not node.level and alias.name != "*":
                    found.add(Use(f"{node.module}.{alias.name}", node.lineno))
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            names = chain(node)  # of f(x).y nothing is known before it runs
            if names and names[0] in bound:
                found.add(Use(".".join([bound[names[0]], *names[1:]]), node.lineno))
    return sorted(found)


def missing(name: str) -> str | None:
    """The shortest part of a dotted name that jtorch lacks; None where all of it is there."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for end in range(1, len(parts)):
        part = ".".join(parts[: end + 1])
        if not (inspect.ismodule(found) or inspect.isclass(found)):
            return None  # an attribute of a value
        try:
            found = _member(found, part)
        except (AttributeError, ImportError):
            return part
        if is_absent(found):
            return name
    return None


def _member(owner: Any, name: str) -> Any:
    outer, _, attribute = name.rpartition(".")
    if inspect.ismodule(owner) and (target(name) is not None or (is_stub(name) and not is_stub(outer))):
        return importlib.import_module(name)
    return getattr(owner, attribute)


def lines(source: str, filename: str) -> list[str]:
    """The report: one line a missing name, with the lines of the script and whether it is planned."""
    where: dict[str, list[int]] = {}
    all_uses = uses(source, filename)
    for use in all_uses:
        lacking = missing(use.name)
        if lacking is not None:
            where.setdefault(lacking, []).append(use.line)
    told = [
        f"{name}: line {', '.join(str(n) for n in sorted(set(found)))}: {reason(name)}"
        for name, found in sorted(where.items())
    ]
    count = len({use.name for use in all_uses})
    return [*told, f"{filename}: uses {count} names of PyTorch, of which jtorch lacks {len(where)}"]
