"""The tests on every Python that is installed: those of ``pyproject.toml`` that are missing are skipped.

nox                                 # the whole suite on each
nox -s tests-3.13 -- tests/eager    # some of it on one
"""

import os
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent))
from tools.interpreters import found, versions

nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"
# pyenv's versions are found though none is switched on
os.environ["PATH"] = os.pathsep.join([*(str(path.parent) for path in found().values()), os.environ["PATH"]])

# two processes share the machine, see pyproject.toml
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@nox.session(python=versions())
def tests(session: nox.Session) -> None:
    session.install("-e", ".[bench,test]")
    session.run("python", "-m", "pytest", *session.posargs, env=ONE_THREAD)
