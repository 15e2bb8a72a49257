"""The direction of imports, and the rules that keep the layers apart. A failure names the offending line."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.op import BY_NAME

PACKAGE = Path(__file__).parents[1] / "jtorch"
FILES = sorted(PACKAGE.rglob("*.py"))
LEAVES = {
    "allocation", "config", "errors", "dtypes", "devices", "generator", "philox", "watch", "index", "xp",
    "lazy_grad",
    "library_threads",
    "memory_formats",
    "return_types",
    "strides",
    "threads",
}  # fmt: skip
FRONT = ("trace", "api")  # where Tensors become graphs
CORE = ("access", "ir", "interpret", "passes", "fuse", "loops", "memory", "codegen", "rules")


def _name(path: Path) -> str:
    """``jtorch.eager.tensor`` for the file of that module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> list[tuple[int, str, bool]]:
    """(line, module, whether at import time) of everything a file imports."""
    tree = ast.parse(path.read_text())
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    guarded = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    found = []
    for node in ast.walk(tree):
        now = id(node) not in lazy and id(node) not in guarded
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, now) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.lineno, node.module, now))
            found += [(node.lineno, f"{node.module}.{alias.name}", now) for alias in node.names]
    return found


def _layer(module: str) -> str:
    parts = module.split(".")
    if parts[0] != "jtorch" or len(parts) < 2:
        return ""
    if parts[1] in LEAVES:
        return "leaf"
    if parts[1] == "compile":
        part = parts[2] if len(parts) > 2 else ""
        return "core" if part in CORE else "front" if part in FRONT else "compile"
    return parts[1]


ALLOWED = {  # layer -> layers it may import, itself aside
    "leaf": {"leaf"},
    "op": {"leaf"},
    "ops": {"leaf", "op"},
    "eager": {"leaf", "op", "ops"},
    "core": {"leaf", "op", "ops", "compile"},
    "front": {"leaf", "op", "ops", "core", "compile", "eager", "nn", "optim"},
    "compile": {"leaf", "op", "ops", "core", "front", "eager", "nn", "optim"},
    "autograd": {"leaf", "op", "ops", "eager"},
}
# nn, optim, utils and the rest stand on the public API: they may import all but the compiler's insides


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    layer = _layer(_name(path))
    offending = []
    for line, module, _ in _imports(path):
        target = _layer(module)
        if not target or target == layer or (target not in ALLOWED and layer not in ALLOWED):
            continue
        allowed = ALLOWED.get(layer)
        if allowed is None:
            if target in ("core", "front") or (
                target == "compile" and layer in ("nn", "optim", "utils", "vision")
            ):
                offending.append(f"{path}:{line}: {layer or 'jtorch'} imports {module}")
        elif target not in allowed and (
            target in ALLOWED or target in ("nn", "optim", "utils", "vision")
        ):
            offending.append(f"{path}:{line}: {layer} imports {module}")
    assert not offending, "\n".join(offending)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_numba_is_imported_by_the_compiler_alone(path):
    inside = "compile" in path.relative_to(PACKAGE).parts
    for line, module, _ in _imports(path):
        if module.partition(".")[0] in ("numba", "llvmlite"):
            assert inside, f"{path}:{line}: {module} outside jtorch/compile"
        assert module.partition(".")[0] not in ("torch", "jax", "tensorflow"), (
            f"{path}:{line}: {module}"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_lock_of_the_library_stays_closed_in_a_forked_child(path):
    """``functools.cached_property`` locks all objects of the class in Python 3.11, and knows of no fork."""
    for line, module, _ in _imports(path):
        assert module != "functools.cached_property", f"{path}:{line}"
    assert "functools.cached_property" not in path.read_text(), path


def test_importing_jtorch_imports_no_numba():
    program = "import sys, jtorch; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("numba", "llvmlite", "torch", "jax"):
        assert f"'{heavy}'" not in loaded, f"import jtorch loads {heavy}"


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if "compile" in p.relative_to(PACKAGE).parts and p.name != "rules.py"],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_compiler_names_no_ops(path):
    """Passes ask for the kind of an op: a name as a literal is only for the table of rewrite rules."""
    compared = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        about_names = any(isinstance(s, ast.Attribute) and s.attr == "name" for s in sides)
        words = [
            w.value
            for s in sides
            for w in ast.walk(s)
            if isinstance(w, ast.Constant) and isinstance(w.value, str)
        ]
        if about_names:
            compared += [f"{path}:{node.lineno}: {w!r}" for w in words if w in BY_NAME]
    assert not compared, "\n".join(compared)


def test_eager_has_no_tracing_branch():
    for path in (PACKAGE / "eager").glob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.partition("#")[0]
            assert "is_tracing" not in code, f"{path}:{number}"
            assert "jtorch.compile" not in code, f"{path}:{number}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_raw_values_become_tensors_by_wrap(path):
    """``Tensor(x)`` is for users: it makes float32 of any array. Over a raw value: ``wrap`` or ``leaf``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "Tensor", f"{path}:{node.lineno}"
