"""What a command of ``python -m benchmarks`` is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.options import Parser

Options = argparse.Namespace


@dataclass(frozen=True)
class Command:
    """``arguments`` adds what it takes to a parser; ``run(parser, options, compiler)`` gives its exit status.

    ``compiler`` stands in for ``jtorch.compile`` in tests.
    """

    name: str
    summary: str
    arguments: Callable[[Parser], Any]
    run: Callable[[Parser, Options, Any], int]

    def parser(self) -> Parser:
        p = Parser(prog=f"python -m benchmarks {self.name}", description=self.summary)
        self.arguments(p)
        return p
