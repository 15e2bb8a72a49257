"""While the interpreter shuts down: nothing reads memory that was given back."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import jtorch
x = jtorch.ones(3, requires_grad=True)

@jtorch.compile
def step(x):
    loss = (x * 2).exp().sum()
    loss.backward()
    return loss

class Late:
    '''Runs eager and compiled code when the modules are emptied.'''
    def __del__(self, x=x, step=step, print=print):
        total = (x.detach() * 2 + 1).sum()
        step(x)
        print("late", float(total))

step(x), step(x)
(x + 1).sum().backward()
"""
KEEP_LATE = "import builtins; builtins.late = Late()"  # the module that CPython empties last of all


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc overwrites freed memory")
@pytest.mark.parametrize("loader", ["own", "llvm"])
@pytest.mark.parametrize("late", [False, True], ids=["", "destructor"])
def test_a_program_ends_well_where_freed_memory_is_overwritten(loader: str, late: bool) -> None:
    environment = dict(os.environ, PYTHONMALLOC="malloc", MALLOC_PERTURB_="255", PYTHONFAULTHANDLER="1")
    if loader == "llvm":
        environment["JTORCH_JIT"] = "llvm"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + KEEP_LATE * late],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("late 9.0\n" if late else "")
