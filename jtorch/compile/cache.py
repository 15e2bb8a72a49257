"""``python -m jtorch.compile.cache build --cuda script.py [arguments]``: run a program, and keep the texts of
all kernels that it has a CUDA device run, for machines that have no numba-cuda.

It is ``JTORCH_CUDA_TEXTS`` (``run/cuda_texts.py``) with questions before it and an answer behind it: whether
this machine can make any, and what the folder holds.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from jtorch.compile.run import cuda_texts, device_memory
from jtorch.core import config
from jtorch.core.errors import CudaError

NAME = "python -m jtorch.compile.cache"
_FOLDER = "texts"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the program; 2 where this machine, or the folder, can have no texts, 1 where the
    program asked for none."""
    given = _parser().parse_args(arguments)
    folder = Path(given.folder or str(config.get("CUDA_TEXTS")) or _FOLDER).expanduser().absolute()
    os.environ["JTORCH_CUDA_TEXTS"] = str(folder)
    lacks = [*_lacks()]
    if lacks:
        print(f"{NAME}: no text of a kernel can be made here: {'; '.join(lacks)}", file=sys.stderr)
        return 2
    before = cuda_texts.kept_texts()
    status = _run(given.script, given.arguments)
    found = cuda_texts.kept_texts()
    if not found:
        print(f"{NAME}: {given.script} has computed nothing on a CUDA device", file=sys.stderr)
        return status or 1
    print(f"{folder}: {len(found)} texts, {len(found - before)} of them new", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=NAME, description="texts of kernels for other machines")
    parser.add_argument("action", choices=("build",))
    parser.add_argument(
        "--cuda", action="store_true", required=True,
        help="kernels of CUDA devices; those of a processor are made where they run",
    )  # fmt: skip
    parser.add_argument("--folder", help=f"default: JTORCH_CUDA_TEXTS, or {_FOLDER!r}")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    return parser


def _lacks() -> list[str]:
    """What this machine lacks to make texts."""
    found = []
    try:
        cuda_texts.kept_texts()
    except CudaError as error:
        found.append(str(error))
    if not cuda_texts.has_compiler():
        found.append(cuda_texts.NO_COMPILER)
    try:
        device_memory.current()
    except CudaError as error:
        if str(error) not in found:
            found.append(str(error))
    return found


def _run(script: str, arguments: Sequence[str]) -> int:
    """Run it as ``python script.py`` does; its exit status."""
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if isinstance(error.code, int):
            return error.code
        if error.code is not None:
            print(error.code, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    from jtorch.core.command import run

    raise SystemExit(run(main, NAME))
