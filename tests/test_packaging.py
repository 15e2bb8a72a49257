"""What ``pyproject.toml`` promises: versions, extras, a name of its own; and the tools that read it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jtorch.compile.observe import frames
from tools import interpreters

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {  # distribution -> the module that it is imported as, or None for a command
    "numba-cuda": "numba", "scikit-learn": "sklearn", "mkdocs-material": "mkdocs", "mkdocstrings": None,
    "pytest-xdist": None, "openmpi": None, "ruff": None, "mypy": None, "pyright": None, "build": None,
}  # fmt: skip


def _name(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0]


def _imported() -> set[str]:
    """The top-level names that any file of the repository imports."""
    files = [ROOT / "noxfile.py"]
    for folder in ("jtorch", "benchmarks", "examples", "tools", "tests"):
        files += ROOT.glob(f"{folder}/**/*.py")
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


@pytest.mark.slow
def test_every_extra_is_imported_by_some_file():
    imported = _imported()
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for name in map(_name, requirements):
            module = MODULES.get(name, name)
            assert name == PROJECT["name"] or module is None or module in imported, f"{extra}: {name}"


def test_what_compiles_is_asked_for_where_it_exists():
    """Beyond the last version that is tested, and elsewhere than on CPython, eager mode installs alone."""
    first, *_, last = interpreters.versions()
    assert PROJECT["requires-python"] == f">={first}"
    marker = f"implementation_name == 'cpython' and python_version < '3.{int(last[2:]) + 1}'"
    conditional = {_name(r): r.partition("; ")[2] for r in PROJECT["dependencies"] if ";" in r}
    assert conditional == {"numba": marker, "llvmlite": marker}


def test_the_versions_are_those_that_compile():
    assert [f"{major}.{minor}" for major, minor in frames.LAYOUTS] == interpreters.versions()


def test_the_versions_are_those_of_the_readme():
    text = (ROOT / "README.md").read_text()
    first, *_, last = interpreters.versions()
    assert f"Python {first} to {last}" in text


def _python(folder: Path, version: str, program: str = "exit 0") -> Path:
    path = folder / f"python{version}"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="the interpreters made up here are shell scripts")
def test_interpreters_are_found_and_those_that_do_not_start_are_not(monkeypatch, tmp_path):
    monkeypatch.setattr(interpreters, "versions", lambda: ["3.11", "3.12", "3.13", "3.14"])
    first = _python(tmp_path / "bin", "3.11")
    _python(tmp_path / "bin", "3.12", "exit 127")  # as pyenv's shims
    old, new = (_python(tmp_path / f"pyenv/versions/3.12.{k}/bin", "3.12") for k in (9, 10))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(os, "get_exec_path", lambda: [str(tmp_path / "bin")])
    assert interpreters.found() == {"3.11": first, "3.12": new}
    monkeypatch.setattr(sys, "version_info", type("Version", (), {"major": 3, "minor": 12}))
    assert interpreters.newest_other() == first
    new.unlink()
    old.unlink()
    first.unlink()
    assert interpreters.newest_other() is None


def test_nox_runs_the_suite_on_each_version():
    pytest.importorskip("nox")
    command = [sys.executable, "-m", "nox", "--list", "--noxfile", str(ROOT / "noxfile.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert re.findall(r"^\* tests-(\S+)", done.stdout, re.MULTILINE) == interpreters.versions()
