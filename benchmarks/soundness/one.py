"""One case in one library: ``python -m benchmarks.soundness.one jtorch "01 closure_number"``.

Prints the verdict as JSON, last.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.soundness import cases  # noqa: F401 - declares the cases
from benchmarks.soundness.table import CASES, Program, Verdict, judge


def run(library: str, name: str) -> Verdict:
    """The verdict over case ``name`` of ``library``: "jtorch", "torch" or "jax"."""
    module = importlib.import_module(library)
    return judge(programs(library)[name], module, compiler_of(library, module))


def programs(library: str) -> dict[str, Program]:
    """The cases by name, as far as the library can say them."""
    if library != "jax":
        return {case.name: case.program for case in CASES}
    from benchmarks.soundness import jax_state  # noqa: F401 - declares its cases
    from benchmarks.soundness.jax_cases import PROGRAMS

    return {f"{number:02d} {p.__name__}": p for number, some in PROGRAMS.items() for p in some}


def compiler_of(library: str, module: Any) -> Callable:
    if library == "jax":
        return module.jit
    compiler: Callable = module.compile
    return compiler


if __name__ == "__main__":
    verdict = run(sys.argv[1], sys.argv[2])
    print(json.dumps([verdict.kind, verdict.told]))
