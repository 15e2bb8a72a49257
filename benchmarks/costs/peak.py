"""What a training step needs in memory: by the tensors that are there, and by what the system sees.

The system's figure is how far the resident set grows from before the program is built to the highest that it
is in steps after the first two. Linux resets its high-water mark when asked, and glibc gives back what
was freed; a first instance of the program has brought libraries, threads and kernels into memory before.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.program import Program

FIRST = 2  # steps that make gradients and state, and may compile
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
NOT_HERE = (
    "peaks are Linux's high-water mark of a process (/proc/self/clear_refs), which is not to be had here"
)


@dataclass(frozen=True)
class Memory:
    """Bytes. ``kept`` are of the tensors that stay between steps, by what they are; ``saved`` is what the
    tape keeps for backward, ``arena`` a plan's scratch memory, ``peak`` what the system sees of all of it.
    None where the mode has no such thing, or the system does not tell."""

    kept: Mapping[str, int]
    saved: int | None
    arena: int | None
    peak: int | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(contestant: str, make: Callable[[], Program], steps: int) -> Memory:
    """The memory of ``steps`` steps, after the first two, of a program as that contestant runs it."""
    from benchmarks.contestant import COMPILED, MODES

    library = importlib.import_module("jtorch" if contestant in MODES else "torch")
    compiler = library.compile if contestant == COMPILED else lambda step: step

    def begun() -> tuple[Program, Callable[..., Any]]:
        program = make()
        step = compiler(program.step)
        _run(program, step, FIRST)
        return program, step

    begun()
    if contestant == COMPILED:
        library.compiler.reset()
    before = _resident()
    program, step = begun()
    program.reset = lambda: None  # with it goes its copy of the initial state, which training has not
    after = _resident()
    if before is None or after is None or not _lower_the_mark():
        peak = None
    else:
        _run(program, step, steps)
        peak = _status("VmHWM") - before
    kept = {what: sum(map(_bytes, tensors)) for what, tensors in program.kept().items()}
    if contestant == COMPILED:
        return Memory(kept, None, step.explain().arena_bytes, peak)  # type: ignore[attr-defined]
    from benchmarks.tape import saved_bytes

    return Memory(kept, saved_bytes(library, program), None, peak)


def _run(program: Program, step: Callable[..., Any], steps: int) -> None:
    for k in range(steps):
        step(*program.arguments[k % len(program.arguments)])


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()


def _resident() -> int | None:
    """Bytes in memory now, without what was freed; None where nobody tells."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        return _status("VmRSS")
    except (OSError, AttributeError, TypeError):  # no glibc
        return None


def _status(key: str) -> int:
    text = _STATUS.read_text()
    return int(text.partition(f"\n{key}:")[2].split()[0]) * 1024


def _lower_the_mark() -> bool:
    """Let the high-water mark begin anew, from what is in memory now; whether that was possible."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True
