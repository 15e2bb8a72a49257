"""The command line of the benchmarks: which command is meant. Nothing here imports NumPy."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.commands import COMMANDS, NAMES, Command
from benchmarks.options import Parser, did_you_mean

PROGRAM = "python -m benchmarks"
DEFAULT = "verdict"


def main(arguments: Sequence[str] | None = None, compiler: Any = None) -> int:
    """Run a command; 0 if every row has its figures, 1 if one is an error, 130 after Ctrl-C.

    ``compiler`` stands in for ``jtorch.compile`` in tests.
    """
    os.environ["JTORCH_FULLGRAPH"] = "1"  # or a step that runs eagerly would be shown as a compiled one
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given and given[0] in ("-h", "--help"):
        print(usage())
        return 0
    command, p, options = parse(given)
    return command.run(p, options, compiler)


def parse(given: Sequence[str]) -> tuple[Command, Parser, argparse.Namespace]:
    """The command that ``given`` names, its parser and its options; exits with 2 where there is none.

    Without a name it is DEFAULT; the name of a workload alone means ``run``.
    """
    first, rest = (given[0], list(given[1:])) if given else ("", [])
    if first in COMMANDS:
        command = COMMANDS[first]
    elif first in NAMES:
        command, rest = COMMANDS["run"], list(given)
    elif not first or first.startswith("-"):
        command, rest = COMMANDS[DEFAULT], list(given)
    else:
        meant = did_you_mean(first, (*COMMANDS, *NAMES))
        there = f"there are {', '.join(COMMANDS)}, and workloads of run: {', '.join(NAMES)}"
        Parser(prog=PROGRAM).error(f"no command named {first}{meant}; {there}")
    p = command.parser()
    return command, p, p.parse(rest)


def usage() -> str:
    """What ``--help`` prints: all commands."""
    width = max(map(len, COMMANDS))
    lines = [f"  {c.name:<{width}}  {' '.join(c.summary.split())}" for c in COMMANDS.values()]
    return "\n".join(
        [
            f"usage: {PROGRAM} [COMMAND] [ARGUMENTS]",
            "",
            f"Without a command: {DEFAULT}, which takes less than three minutes on two cores.",
            "A row whose modes compute different numbers is an error, and the exit status is 1.",
            "",
            *lines,
            "",
            f"{PROGRAM} COMMAND --help says what a command takes. A workload's name alone means run.",
        ]
    )
