"""Every setting, in one table. ``python -m jtorch.config`` prints it.

A setting is read from the environment variable ``JTORCH_<NAME>`` when it is asked for, so a test or a
shell can change it between two calls.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    type: type
    default: object
    help: str
    words: tuple[str, ...] = ()  # of a comma list: what may be in it
    choices: tuple[str, ...] = ()  # one of these

    @property
    def variable(self) -> str:
        return f"JTORCH_{self.name}"


QUIET = "quiet"  # instead of stages: no line on a terminal while a first call takes long
STAGES = (
    "trace",
    "widen",
    "prune",
    "fold",
    "simplify",
    "share",
    "graph",
    "final",
    "plan",
    "kernels",
    "retrace",
)

SETTINGS = {
    s.name: s
    for s in (
        Setting(
            "LOG",
            str,
            "",
            f"comma list of {','.join(STAGES)}; {QUIET} keeps first calls from showing how far they are",
            words=(*STAGES, QUIET),
        ),
        Setting("DUMP", str, "", "folder that gets every stage of every compilation as numbered files"),
        Setting("COMPILE", bool, True, "0 runs compiled functions eagerly"),
        Setting(
            "JIT",
            str,
            "1",
            "0 runs the generated source as plain Python; llvm has LLVM load compiled code",
            choices=("0", "1", "llvm"),
        ),
        Setting("FULLGRAPH", bool, False, "1 makes an error of what cannot be recorded, as fullgraph=True"),
        Setting("CHECK", bool, False, "1 checks the graph after each pass"),
        Setting("FUEL", int, -1, "at most this many fusions and rewrites: bisects a miscompile"),
        Setting("CACHE", str, "", "folder of compiled kernels; 0 switches the cache off"),
        Setting(
            "CUDA_TEXTS", str, "", "folder of kernels for CUDA devices, which another machine has translated"
        ),
        Setting("DEVICE", str, "cpu", "the device of new tensors"),
        Setting(
            "NUM_THREADS",
            int,
            0,
            "the most threads of an op, before OPENBLAS_NUM_THREADS and OMP_NUM_THREADS; 0 is one per core",
        ),
        Setting(
            "DISTRIBUTED_DEBUG",
            str,
            "OFF",
            "DETAIL compares what all processes ask for before each collective",
            choices=("OFF", "INFO", "DETAIL"),
        ),
    )
}


def get(name: str) -> str | int | bool:
    """The value of a setting, of the setting's type. Raises ValueError for text or words that are none."""
    setting = SETTINGS[name]
    text = os.environ.get(setting.variable)
    if text is None or text == "":
        return setting.default  # type: ignore[return-value]
    unknown = [word for word in text.split(",") if setting.words and word not in setting.words]
    if unknown:
        raise ValueError(f"{setting.variable}={text!r}: no {', '.join(map(repr, unknown))}: {setting.help}")
    if setting.choices and text not in setting.choices:
        known = ", ".join(setting.choices)
        raise ValueError(f"{setting.variable}={text!r}: not one of {known}: {setting.help}")
    try:
        return bool(int(text)) if setting.type is bool else setting.type(text)
    except ValueError:
        raise ValueError(
            f"{setting.variable}={text!r} is not of type {setting.type.__name__}: {setting.help}"
        ) from None


def jitted() -> bool:
    """Whether kernels become native code."""
    return get("JIT") != "0"


def table() -> str:
    """The settings with their values now, as aligned text."""
    rows = [("variable", "type", "default", "now", "what it does")]
    rows += [
        (s.variable, s.type.__name__, repr(s.default), repr(get(s.name)), s.help)
        for s in SETTINGS.values()
    ]  # fmt: skip
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
