"""What a file must have to be measured, read from its text: nothing of it runs, and NumPy is not imported."""

from __future__ import annotations

import ast
from pathlib import Path

PROTOCOL = """\
FILE is run as a module, so what stands under "if __name__ == '__main__':" is left out. FUNCTION is one of

  def step():             a training step, called without arguments; it returns the loss
  def make_step():        returns such a step, or (step, arguments): then step(*arguments) is called
  def make_step(torch):   the same, given the library: jtorch, and PyTorch where it is installed

A file that imports torch runs on jtorch as `python -m jtorch.as_torch` runs it, and on PyTorch where that is
installed. Seeds of Python, NumPy and the library are set to 0 before the file runs; each mode and library
has a process of its own, and a step goes on from where the one before it ended."""


class OwnFileError(Exception):
    """What the user's file lacks, in a sentence."""


def is_own(row: str) -> bool:
    """Whether a row's name is that of a file and a function."""
    return row.rpartition(":")[0].endswith(".py")


def check(row: str) -> None:
    """Raise OwnFileError, before anything runs, unless there is such a file with such a function."""
    path, colon, name = row.rpartition(":")
    if not colon or not path.endswith(".py") or not name.isidentifier():
        raise OwnFileError(f"takes FILE.py:FUNCTION, not {row}")
    if not Path(path).is_file():
        raise OwnFileError(f"there is no file {path}")
    try:
        tree = _tree(Path(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise OwnFileError(f"{path} is no Python: {error}") from None
    if name not in _names(tree):
        raise OwnFileError(f"{path} has no {name} at its top level; there are {', '.join(_names(tree))}")


def imports_torch(path: Path) -> bool:
    """Whether the file says ``import torch`` or ``from torch import ...`` anywhere."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import) and any(a.name.partition(".")[0] == "torch" for a in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            return not node.level
    return False


def takes_library(path: Path, name: str) -> bool:
    """Whether the function has one parameter that must be given."""
    for node in _tree(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            given = [*node.args.posonlyargs, *node.args.args]
            return len(given) - len(node.args.defaults) == 1
    return False


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _names(tree: ast.Module) -> list[str]:
    """What a module's top level defines: functions first, as those are meant."""
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    targets = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    return functions + [t.id for t in targets if isinstance(t, ast.Name)]
