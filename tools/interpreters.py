"""The Pythons that jtorch is tested on, and which of them this machine has.

    python -m tools.interpreters            # version and path of each one found, a line each
    python -m tools.interpreters --newest   # the path of the newest that is not the one running this

The versions are the classifiers of ``pyproject.toml``. They are looked for on PATH and among pyenv's; one
that does not start (pyenv's shim of a version that is not switched on) is not there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CLASSIFIER = "Programming Language :: Python :: 3."


def versions() -> list[str]:
    """``["3.11", ...]``, oldest first."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [f"3.{c.removeprefix(_CLASSIFIER)}" for c in classifiers if c.startswith(_CLASSIFIER)]


def found() -> dict[str, Path]:
    """The interpreter of each version that is here."""
    tried = ((version, next(filter(_starts, _places(version)), None)) for version in versions())
    return {version: path for version, path in tried if path is not None}


def newest_other() -> Path | None:
    """The newest that is not of the version running this; None where that is the only one."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return next((path for version, path in reversed(found().items()) if version != own), None)


def _places(version: str) -> Iterator[Path]:
    """Of pyenv's the last of its own sort, as 3.12.10 stands before 3.12.9 in the alphabet."""
    for folder in os.get_exec_path():
        yield Path(folder, f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"), key=_numbers, reverse=True)


def _numbers(path: Path) -> list[int]:
    return [int(part) for part in path.parents[1].name.split(".") if part.isdigit()]


def _starts(path: Path) -> bool:
    if not os.access(path, os.X_OK):
        return False
    try:
        done = subprocess.run([path, "-c", "import venv"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.interpreters", description=__doc__.splitlines()[0])
    parser.add_argument("--newest", action="store_true", help="the path of the newest other one, and no more")
    if parser.parse_args(arguments).newest:
        print(newest_other() or "")
    else:
        print("\n".join(f"{version:6}{path}" for version, path in found().items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
