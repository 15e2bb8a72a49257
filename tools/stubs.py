"""Writes what type checkers and editors see of the functions and methods that exist only at run time.

    python -m tools.stubs

``jtorch/eager/declared.pyi`` is the base class that ``Tensor`` has for a type checker (and lacks at run
time): every method that ``jtorch/eager/methods.py`` installs. A stub beside ``tensor.py`` would hide that
file from the checker. ``jtorch/_functions.pyi`` holds the functions that ``jtorch/__init__.py`` adds to
its globals, under PyTorch's argument names.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jtorch
from jtorch.compat.legacy import TYPES
from jtorch.core.op import BY_NAME, TABLE, Op
from jtorch.eager import methods
from jtorch.eager.tensor import Tensor
from jtorch.lazy_names import ORIGIN, SUBMODULES
from tools.signatures import HEADER, annotation, stub_of

PACKAGE = Path(jtorch.__file__).parent
METHODS_FILE = PACKAGE / "eager" / "declared.pyi"
FUNCTIONS_FILE = PACKAGE / "_functions.pyi"

_BY_PUBLIC: dict[str, Op] = {op.public: op for op in TABLE if op.public}
_OWN_OPERATORS = ("__eq__", "__ne__")  # object has them, with another type
_SPECIAL = {
    "__getitem__": "def __getitem__(self, index: Any) -> Tensor: ...",
    "__setitem__": "def __setitem__(self, index: Any, value: Any) -> None: ...",
    "__array__": "def __array__(self, dtype: Any = None, copy: _bool | None = None) -> np.ndarray: ...",
    "__deepcopy__": "def __deepcopy__(self, memo: Any) -> Any: ...",
    "__dlpack__": "def __dlpack__(self, **options: Any) -> Any: ...",
    "__dlpack_device__": "def __dlpack_device__(self) -> tuple[_int, _int]: ...",
}


def methods_text() -> str:
    """``class TensorMethods``: what a Tensor has beyond the body of its class."""
    found = "\n".join(f"    {line}" for name in installed() for line in declaration(name))
    docstring = '"""Written by ``python -m tools.stubs``: what eager/methods.py installs on Tensor."""'
    return f"# ruff: noqa\n{docstring}\n\n{HEADER}\nclass TensorMethods:\n{found}\n"


def functions_text() -> str:
    """The functions of the module ``jtorch`` that no import statement names."""
    found = "\n".join([*(_function(name) for name in _added()), *_imported_late()])
    docstring = '"""Written by ``python -m tools.stubs``: what jtorch/__init__.py adds to its globals."""'
    return f"# ruff: noqa\n{docstring}\n\n{HEADER}\n{found}\n"


def installed() -> list[str]:
    body = _class_body(PACKAGE / "eager" / "tensor.py", "Tensor")
    written = {name for node in body for name in _defined(node)}
    special = {n for n in vars(Tensor) if n.startswith("__") and (_is_operator(n) or n in _SPECIAL)}
    public = {n for n in vars(Tensor) if not n.startswith("_")}
    return sorted((public | special) - written)


def _is_operator(name: str) -> bool:
    symbol = name.strip("_")
    known = {*methods._OPERATORS, *methods._COMPARISONS, "neg", "abs", "invert", "matmul", "pos"}
    return symbol in known or (symbol[1:] in known and symbol[0] in "ri")


def _class_body(file: Path, name: str) -> list[ast.stmt]:
    tree = ast.parse(file.read_text())
    return next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name)


def _defined(node: ast.AST) -> Iterator[str]:
    """The names that a statement of a module or class body defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign):
        for name in ast.walk(ast.Tuple(node.targets)):
            if isinstance(name, ast.Name):
                yield name.id
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def declaration(name: str) -> list[str]:
    """The lines that declare a method or property of Tensor."""
    value = inspect.getattr_static(Tensor, name)
    if name in _SPECIAL:
        return [_SPECIAL[name]]
    if isinstance(value, property):
        return _property(name, value)
    if name.startswith("__"):
        one = name.strip("_") in ("neg", "abs", "invert", "pos")
        ignored = "  # type: ignore[override]" if name in _OWN_OPERATORS else ""
        return [f"def {name}(self{'' if one else ', other: Any'}) -> Tensor: ...{ignored}"]
    if not inspect.isfunction(value):
        return [f"{name}: Any"]
    if name.endswith("_") and not name.startswith("_") and _takes_anything(value):
        return [_in_place(name, value)]
    return stub_of(value, name, method=True, result=result_of(name, value)).splitlines()


def _takes_anything(function: Callable) -> bool:
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return kinds[1:] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]


def _in_place(name: str, function: Callable) -> str:
    """A generic method that writes its result over the tensor: with the arguments of what it calls."""
    inner = inspect.getclosurevars(function).nonlocals.get("function", function)
    called = getattr(jtorch, name[:-1], None) or getattr(Tensor, name[:-1], inner)
    return f"{stub_of(called, name, method=True, drop=('out',)).rpartition(' -> ')[0]} -> Tensor: ..."


def _property(name: str, value: property) -> list[str]:
    found = inspect.signature(value.fget).return_annotation if value.fget else Any
    lines = ["@property", f"def {name}(self) -> {annotation(found)}: ..."]
    if value.fset is not None:
        lines += [f"@{name}.setter", f"def {name}(self, value: Any) -> None: ..."]
    return lines


def result_of(name: str, function: Callable) -> str | None:
    """What an op gives; None where no op has this name, or another one of which it is an alias."""
    op = _BY_PUBLIC.get(name) or next((op for op in TABLE if name in op.methods), None)
    op = op or BY_NAME.get(name) or _BY_PUBLIC.get(function.__name__)
    if op is None:
        return None
    return "Tensor" if op.n_outputs - op.hidden == 1 else "tuple[Tensor, ...]"


def _added() -> list[str]:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    written = {name for node in tree.body for name in _defined(node)}
    public = {n for n, v in vars(jtorch).items() if not n.startswith("_") and not inspect.ismodule(v)}
    return sorted(public - written - TYPES.keys() - ORIGIN.keys())  # the last two: once they were asked for


def _imported_late() -> Iterator[str]:
    """What the module's ``__getattr__`` gives, as import statements."""
    for name in sorted(SUBMODULES):
        yield f"from jtorch import {name} as {name}"
    for name, (module, real) in sorted(ORIGIN.items()):
        seen = real == name and real in _names_of(module)
        yield f"from {module} import {real} as {name}" if seen else _function(name)
    for name in sorted(TYPES):
        yield f"{name}: _type[Tensor]"


@functools.cache
def _names_of(module: str) -> set[str]:
    """What the text of a module defines or imports: what a type checker sees of it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {name for node in tree.body for name in _defined(node)}


def _function(name: str) -> str:
    value = getattr(jtorch, name)
    if inspect.isfunction(value):
        return stub_of(value, name, method=False, result=result_of(name, value))
    return f"{name}: {annotation(type(value))}"


def main() -> None:
    METHODS_FILE.write_text(methods_text())
    FUNCTIONS_FILE.write_text(functions_text())


if __name__ == "__main__":
    main()
