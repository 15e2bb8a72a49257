"""A training step out of a file of the user's, with the user's data, as a workload."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import inspect
import os
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.agree import Tolerance
from benchmarks.own.protocol import OwnFileError, imports_torch, takes_library
from benchmarks.program import Program, Workload

TOLERANCE = Tolerance(losses=1e-3)  # of each of the first steps: in float32 rounding grows from step to step


def workload(row: str) -> Workload:
    """The workload of ``FILE:FUNCTION``. The file runs as its program is built."""
    path, _, name = row.rpartition(":")
    return Workload(
        row, f"{Path(path).name}:{name}", lambda torch: _program(torch, Path(path), name), None, TOLERANCE
    )


def _program(torch: Any, path: Path, name: str) -> Program:
    step, arguments = _step(torch, path, name)

    def to_numpy(loss: Any) -> np.ndarray:
        if loss is None or isinstance(loss, (tuple, list, dict)):
            raise OwnFileError(
                f"{name} must return its loss, got {type(loss).__name__}: modes are compared by it"
            )
        return np.asarray(loss.detach().numpy() if hasattr(loss, "detach") else loss)

    return Program(step, [arguments], lambda: None, dict, to_numpy=to_numpy, can_reset=False)


def _step(torch: Any, path: Path, name: str) -> tuple[Callable[..., Any], tuple]:
    """The step and its arguments, from a run of the file with seeds of 0."""
    if torch.__name__ == "jtorch" and imports_torch(path):
        from jtorch.as_torch import install

        install()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    function = getattr(_module(path), name)
    takes = takes_library(path, name)
    if not takes and _parameters(function):
        raise OwnFileError(f"{name} takes {_parameters(function)}: see the forms in --help")
    made = function(torch) if takes else function()
    if isinstance(made, tuple) and made and callable(made[0]):
        rest = made[1] if len(made) == 2 and isinstance(made[1], (tuple, list)) else made[1:]
        return made[0], tuple(rest)
    return (made if callable(made) else function), ()


def _parameters(function: Any) -> str:
    """Those that must be given, as text."""
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(function).parameters.values()
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return ", ".join(p.name for p in parameters if p.default is p.empty and p.kind not in variadic)
    return ""


def module_of(name: str, path: Path) -> types.ModuleType:
    """An empty module of that file, whose loader tracebacks ask for its lines."""
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def _module(path: Path) -> types.ModuleType:
    """The file as a module, imported as a script would be: its folder comes first, it has no arguments."""
    module = module_of(path.stem, path)
    sys.modules[path.stem] = module  # dataclasses and pickle look there
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


def without_compiling() -> None:
    """In a process of eager mode: a step that the user compiles runs eagerly, too."""
    os.environ["JTORCH_COMPILE"] = "0"
