"""What is known of the locals of one function while its text is read from top to bottom."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeGuard

from jtorch.native.subset.words import Field


class Knowledge:
    """Of which class a local is, and which tell that of others.

    ``x_is = isinstance(x, Tensor)`` is a *flag*: where it holds, ``x`` is a Tensor. Where ``_data`` of a
    Tensor holds an ndarray, ``v = x._data if x_is else x`` is one there, too.
    """

    def __init__(self, tree: ast.FunctionDef, fields: dict[str, Field], helpers: dict[str, str]) -> None:
        self.flags = _flags(tree)
        self.new_objects: dict[str, set[str]] = {}  # local that holds one -> the fields set in it
        self._fields = fields
        self._results = {"CONTEXT.get": "Context"} | {name: cls for name, cls in helpers.items() if cls}
        self.classes: dict[str, str] = {}  # never changed in place
        self._told: dict[str, dict[str, str]] = {}  # flag -> local -> class

    def class_of(self, expression: ast.expr) -> str | None:
        """The class of a local, or of one that is derived from it; None where it is not known."""
        return self.classes.get(expression.id) if isinstance(expression, ast.Name) else None

    def flags_about(self, local: str) -> list[str]:
        """The flags that tell its class: it may only change while these do not hold."""
        return [flag for flag, told in self._told.items() if local in told]

    @contextmanager
    def where(self, test: ast.expr) -> Iterator[None]:
        """What is only reached where ``test`` holds."""
        before = self.classes
        self.classes = before | self.told_by(test)
        yield
        self.classes = before

    def note_way_out(self, test: ast.expr) -> None:
        """``if not flag: return`` lies behind: from here on the flag holds."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.classes = self.classes | self.told_by(test.operand)

    def meet(self, others: dict[str, str]) -> None:
        """Two ways come together: what is known on both of them stays."""
        self.classes = {n: cls for n, cls in self.classes.items() if others.get(n) == cls}

    def forget(self, locals_: Iterable[str]) -> None:
        """These were assigned, or may have been."""
        gone = set(locals_)
        for flag in gone & self._told.keys():
            self._told[flag] = {}
        self.classes = {n: cls for n, cls in self.classes.items() if n not in gone}
        for name in gone:
            self.new_objects.pop(name, None)

    def told_by(self, test: ast.expr) -> dict[str, str]:
        """The classes of locals where ``test`` holds."""
        parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        told: dict[str, str] = {}
        for part in parts:
            if isinstance(part, ast.Name):
                told |= self._told.get(part.id, {})
            elif is_isinstance(part):
                told |= self._told_by_call(part)
        return told

    def note(self, local: str, value: ast.expr, nested: bool) -> None:
        """``local`` was assigned ``value``; what stands in a block may not be reached, and tells nothing."""
        if local in self.flags:
            self._told[local] = {} if nested else self._told_by_flag(value)
        elif isinstance(value, ast.Call) and ast.unparse(value.func) in self._results:
            self.classes = self.classes | {local: self._results[ast.unparse(value.func)]}
        elif isinstance(value, ast.IfExp) and isinstance(value.test, ast.Name) and not nested:
            told = self._told.get(value.test.id, {})
            body = value.body
            if isinstance(body, ast.Attribute) and isinstance(body.value, ast.Name):
                field = self._fields.get(body.attr)
                if field is not None and field.holds and told.get(body.value.id) == field.of:
                    told[local] = field.holds

    def declare(self, local: str, value: ast.expr, annotation: ast.expr) -> None:
        """``local: annotation = value``."""
        self.classes = self.classes | {local: ast.unparse(annotation)}
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "_new":
            self.new_objects[local] = set()

    def _told_by_flag(self, value: ast.expr) -> dict[str, str]:
        return self.told_by(value)

    def _told_by_call(self, value: ast.Call) -> dict[str, str]:
        thing, cls = value.args
        return {thing.id: ast.unparse(cls)} if isinstance(thing, ast.Name) else {}


def _flags(tree: ast.FunctionDef) -> set[str]:
    """The locals that are only assigned truth values."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
    stored, arguments = list(stores(tree)), {a.arg for a in tree.args.args}
    return {
        name
        for name, values in given.items()
        if name not in arguments and stored.count(name) == len(values) and all(map(_is_truth, values))
    }


def is_isinstance(value: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "isinstance"


def _is_truth(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return is_isinstance(value)
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare) or (isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And))


def stores(tree: ast.AST) -> Iterator[str]:
    """The local of each assignment, in no particular order."""
    return (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def assigned_once(tree: ast.FunctionDef) -> set[str]:
    """The locals that hold nothing before their only assignment."""
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    repeated = {name for loop in loops for name in stores(loop)}
    names = list(stores(tree))
    return {name for name in names if names.count(name) == 1} - repeated - {a.arg for a in tree.args.args}
