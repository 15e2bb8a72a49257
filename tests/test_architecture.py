"""The direction of imports, and the rules that keep the layers apart. A failure names the offending line."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.core.op import BY_NAME
from tests.each import each

PACKAGE = Path(__file__).parents[1] / "jtorch"
FILES = sorted(PACKAGE.rglob("*.py"))

# Who may import whom, itself aside; the order is that in which data flows. A file belongs to the longest
# path that it begins with. Imports inside functions count as all others; those for type checkers alone don't.
_LIBRARY = (
    "as_torch autograd nn optim utils amp distributed distributions func vision serialization testing"
    " training backends cpu cuda viz signal sparse jit public"
)
_FLOW = ("core", "native", "ops", "eager", "compile")
_FACE = "__init__.py compiler.py"  # what users import
_BELOW_RECORDING = "core ops eager nn optim amp"
ROOMS = {
    "core": "",
    "native": "core",
    "ops": "core",
    "eager": "core ops",
    "eager/machine": "core ops eager native",
    "compile/graph": "core ops",
    "compile/plan": "core compile/graph",
    "compile/codegen": "core native compile/graph compile/plan",
    "compile/observe": f"{_BELOW_RECORDING} public",
    "compile/record": f"{_BELOW_RECORDING} compile/graph compile/observe",
    "compile/run": f"{_BELOW_RECORDING} native compile/graph compile/plan compile/codegen compile/observe"
    " compile/record compile/pipeline.py compile/target.py compile/timings.py",
    "compile/inspect": f"{_BELOW_RECORDING} native compile/graph compile/plan compile/codegen compile/observe"
    " compile/record compile/run compile/target.py compile/timings.py",
    "compile/timings.py": "",
    "compile/target.py": "compile/graph compile/plan compile/codegen",
    "compile/debug.py": "core compile/graph compile/plan compile/codegen compile/timings.py",
    "compile/pipeline.py": "core compile/graph compile/plan compile/codegen compile/target.py"
    " compile/debug.py compile/timings.py",
    "compile/__init__.py": "compile compile/run",
    "compile": f"{_BELOW_RECORDING} compiler.py compile/graph compile/plan compile/observe compile/record"
    " compile/run compile/inspect compile/debug.py compile/timings.py",
    # what stands on eager mode: layers, optimizers, data, names of the module, what serves PyTorch's scripts
    **dict.fromkeys(_LIBRARY.split(), f"core ops eager compat {_LIBRARY} {_FACE}"),
    "compat": f"core ops eager {_LIBRARY} {_FACE}",
    "testing": f"core ops eager {_LIBRARY} {_FACE} compile/inspect",  # assert_no_retrace reads the ledger
    # the three that know the whole: the package itself, and two files that users run or call
    "__init__.py": f"core native ops eager eager/machine compile/__init__.py {_LIBRARY}",
    "compiler.py": "core eager compile",
    "doctor.py": "core native compile/observe public __init__.py",
}


def _name(path: Path) -> str:
    """``jtorch.eager.tensor`` for the file of that module."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


BY_MODULE = {_name(path): path for path in FILES}


def _room(path: Path) -> str:
    """The entry of ROOMS that a file belongs to; "public" for the modules that lie in the package itself."""
    place = path.relative_to(PACKAGE).as_posix()
    fitting = [room for room in ROOMS if place == room or place.startswith(f"{room}/")]
    return max(fitting, key=len) if fitting else "public"


@functools.cache
def _imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of everything of jtorch and of others that a file imports when it runs."""
    tree = ast.parse(path.read_text())
    for_checkers = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in [n for statement in branch.body for n in ast.walk(statement)]
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(node.lineno, name if name in BY_MODULE else node.module) for name in names]
    return found


@each("path", FILES, ids=_name)
def test_imports_point_down(path):
    room = _room(path)
    allowed = {room, *ROOMS[room].split()}
    offending = [
        f"{path}:{line}: {room} imports {module}"
        for line, module in _imports(path)
        if module in BY_MODULE and _room(BY_MODULE[module]) not in allowed
    ]
    assert not offending, "\n".join(offending)


_OF_EAGER = {"_data", "_cell", "_node", "_index", "_base", "_how", "_requires_grad"}
_ON_THE_SEAM = [
    path
    for path in FILES
    if _room(path) in {*_LIBRARY.split(), "testing"} - {"autograd", "public"}  # these two are its own face
]


@each("path", _ON_THE_SEAM, ids=_name)
def test_the_library_stands_on_the_public_names_of_eager_mode(path):
    """``eager/public.py`` is all that layers, optimizers and the rest know of it."""
    behind = [
        f"{path}:{line}: {module}"
        for line, module in _imports(path)
        if module.startswith("jtorch.eager") and module != "jtorch.eager.public"
    ]
    behind += [
        f"{path}:{node.lineno}: .{node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in _OF_EAGER
    ]
    assert not behind, "\n".join(behind)


@pytest.mark.slow
def test_the_public_names_of_eager_mode_are_those_that_are_used():
    from jtorch.eager import public

    used = {
        alias.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "jtorch.eager.public"
        for alias in node.names
    }
    assert set(public.__all__) == used


def test_the_table_of_rooms_is_the_package():
    """Every folder is in it, nothing in it is gone, and no room is above another one and below it, too."""
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders - {room.partition("/")[0] for room in ROOMS} == set()
    assert [room for room in ROOMS if room != "public" and not (PACKAGE / room).exists()] == []
    rooms = {room: set(allowed.split()) for room, allowed in ROOMS.items() if room.partition("/")[0] in _FLOW}
    while rooms:
        lowest = [room for room, allowed in rooms.items() if not allowed & rooms.keys() - {room}]
        assert lowest, f"these import each other: {sorted(rooms)}"
        for room in lowest:
            del rooms[room]


@each("path", FILES, ids=_name)
def test_numba_is_imported_by_the_compiler_alone(path):
    inside = path.relative_to(PACKAGE).parts[0] in ("compile", "native")
    for line, module in _imports(path):
        if module.partition(".")[0] in ("numba", "llvmlite"):
            assert inside, f"{path}:{line}: {module} outside jtorch/compile and jtorch/native"
        assert module.partition(".")[0] not in ("torch", "jax", "tensorflow"), f"{path}:{line}: {module}"


@each("path", FILES, ids=_name)
def test_no_lock_of_the_library_stays_closed_in_a_forked_child(path):
    """``functools.cached_property`` locks all objects of the class in Python 3.11, and knows of no fork."""
    assert not re.search(r"@(functools\.)?cached_property", path.read_text()), path


def test_importing_jtorch_imports_no_numba():
    program = "import sys, jtorch; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    for heavy in ("numba", "llvmlite", "torch", "jax"):
        assert f"'{heavy}'" not in loaded, f"import jtorch loads {heavy}"


def test_a_recording_imports_no_special_functions():
    """Whether an op takes a dtype is asked with no elements, and importing SciPy for that doubled a call."""
    program = (
        "import sys, jtorch, jtorch.nn.functional as F\n"
        "step = jtorch.compile(lambda x: (F.gelu(x) * jtorch.sigmoid(x) + jtorch.erfc(x)).sum())\n"
        "print(step(jtorch.ones(3)).item(), 'scipy.special' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    value, loaded = told.split()
    assert float(value) == pytest.approx(2.317115, rel=1e-6) and loaded == "False", told


@each(
    "path",
    [p for p in FILES if "compile" in p.relative_to(PACKAGE).parts and p.name != "rules.py"],
    ids=_name,
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
    for path in (PACKAGE / "eager").rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.partition("#")[0]
            assert "is_tracing" not in code, f"{path}:{number}"
            assert "jtorch.compile" not in code, f"{path}:{number}"


@each("path", FILES, ids=_name)
def test_raw_values_become_tensors_by_wrap(path):
    """``Tensor(x)`` is for users: it makes float32 of any array. Over a raw value: ``wrap`` or ``leaf``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "Tensor", f"{path}:{node.lineno}"


_NO_CHECKS = {  # functions that ask isinstance() of float, and what of
    "_bits": "an operand of NumPy's",
    "constructed": "the sizes of a tensor",
    "_no_number": "data that is no tensor's",
    "__init__": "the options of what is made outside",
}
_COMPUTING = [
    f for f in FILES if f.relative_to(PACKAGE).parts[0] in ["ops", "eager", "nn", "optim", "distributions"]
]


@each("path", _COMPUTING, ids=_name)
def test_numbers_are_asked_for_by_is_number(path):
    """What stands for a number in a recording is no float to the library: a check behind isinstance() would
    be lost there. ``core.number_ranges`` has ``is_number`` and ``number_type``, which know both."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef) or function.name in _NO_CHECKS:
            continue
        for node in ast.walk(function):
            asks = isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
            if asks and "float" in {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}:
                assert "as_runtime_scalar" in ast.unparse(function), f"{path}:{node.lineno}"
