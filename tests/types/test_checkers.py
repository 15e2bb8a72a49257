"""What mypy and pyright find in programs of users: the mistakes, and nothing else."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = [f for f in sorted((ROOT / "examples").glob("*.py")) if "sklearn" not in f.read_text()]
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
OTHERS = {  # what pyright says of any program, this library or another
    "reportMissingImports", "reportMissingModuleSource", "reportOptionalMemberAccess",
    "reportPossiblyUnbound",
}  # fmt: skip


def _mypy(folder: Path) -> set[tuple[str, int]]:
    """The file and line of each error."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--check-untyped-defs",
        "--ignore-missing-imports",
    ]
    found = _run(
        [*command, "--cache-dir", str(folder / "cache"), *map(str, (RIGHT, WRONG, *EXAMPLES))], folder
    )
    return {(Path(file).name, int(line)) for file, line in re.findall(r"^(.+?):(\d+): error", found, re.M)}


def _pyright(folder: Path) -> set[tuple[str, int]]:
    found = _run(
        [sys.executable, "-m", "pyright", "--outputjson", *map(str, (RIGHT, WRONG, *EXAMPLES))], folder
    )
    errors = [e for e in json.loads(found)["generalDiagnostics"] if e["severity"] == "error"]
    kept = [e for e in errors if not e.get("rule", "").startswith(tuple(OTHERS))]
    return {(Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in kept}


def _run(command: list[str], folder: Path) -> str:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr  # 1: errors were found
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("checker", [_mypy, _pyright], ids=["mypy", "pyright"])
def test_mistakes_are_found_and_nothing_else(checker, tmp_path):
    name = checker.__name__.strip("_")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    started = subprocess.run([sys.executable, "-m", name, "--version"], capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"{name} does not start here: {started.stderr[-200:]}")
    lines = WRONG.read_text().splitlines()
    mistakes = {("wrong.py", i) for i, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = checker(tmp_path)
    assert found == mistakes, {"missed": mistakes - found, "claimed": found - mistakes}


def test_the_right_program_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(RIGHT)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
