"""The generated caller as objects: who asks its guards one by one, times its stages or tells of them has the
lines themselves, and reads no text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from jtorch.core.errors import Source

STAGES = ("guard", "marshal", "kernels", "wrap")  # in this order; a mark stands where the next one begins
_INDENT = "    "


class About(Enum):
    """What a guard asks about."""

    MODE = "the modes, modules, hooks and optimizers that the function may use"
    STRUCTURE = "how many arguments there are, and the form of containers outside"
    TENSOR = "the type, shape, dtype, layout and flags of a tensor argument"
    SIZES = "the sizes of the call, on which the recording or its plan rests"
    NUMBER = "a number of the call, on which a branch or a text rests"
    VALUE = "an argument that is no tensor, and what else the recording rests on of the arguments"
    GRADIENT = "the gradients that tensors have"
    MEMORY = "which of the tensors lie in the same memory"
    OUTSIDE = "what was read outside"


@dataclass(frozen=True)
class Line:
    """One statement. ``state``: it has to do with what the function reaches by itself, not with arguments."""

    text: str
    state: bool = False
    depth: int = 0

    def code(self, ways: Ways) -> list[str]:
        return [self.text + ways.comment(self)]


@dataclass(frozen=True)
class Mark(Line):
    """Where the stage ``text`` begins."""

    def code(self, ways: Ways) -> list[str]:
        return [ways.mark(self.text)]


@dataclass(frozen=True)
class Return(Line):
    """The end of a call, which gives the value ``text``."""

    def code(self, ways: Ways) -> list[str]:
        return ways.returned(self.text)


@dataclass(frozen=True)
class Guard(Line):
    """The test ``text``, without which the plan is none for the call. Where it ``gives_up``, the test may
    raise what is in GONE instead of being false; where it ``branches``, another answer is another way through
    the program. ``source`` is the user's line that it comes from."""

    about: About = About.VALUE
    gives_up: bool = False
    branches: bool = False
    source: Source | None = field(default=None, compare=False)

    def code(self, ways: Ways) -> list[str]:
        test = f"if not ({self.text}): {ways.miss(self)}"
        if not self.gives_up:
            return [test + ways.comment(self)]
        gone = f"except GONE: {ways.miss(self)}"
        return ["try:", f"{_INDENT}{test}{ways.comment(self)}: {self.about.value}", gone + ways.comment(self)]

    def of(self, labels: Sequence[str]) -> str:
        """The test, in which the arguments have these names."""
        return re.sub(
            r"\ba(\d+)\b", lambda m: labels[int(m[1])] if int(m[1]) < len(labels) else m[0], self.text
        )


class Ways:
    """How the caller is written down: as it runs, or for a question of who looks into it."""

    def comment(self, line: Line) -> str:
        return "  # state" if line.state else ""

    def mark(self, stage: str) -> str:
        return f"# {stage}"

    def miss(self, guard: Guard) -> str:
        return "raise OtherBranch" if guard.branches else "return MISS"

    def returned(self, value: str) -> list[str]:
        return [f"return {value}"]


def deeper(lines: Iterable[Line]) -> list[Line]:
    return [replace(line, depth=line.depth + 1) for line in lines]


def guards_of(lines: Iterable[Line]) -> list[Guard]:
    return [line for line in lines if isinstance(line, Guard)]


def until(lines: Iterable[Line], stage: str) -> list[Line]:
    """The lines before that stage."""
    found = list(lines)
    return found[: found.index(next(e for e in found if isinstance(e, Mark) and e.text == stage))]


def written(lines: Iterable[Line], ways: Ways | None = None) -> str:
    """The source of ``call(leaves)``."""
    ways = ways or Ways()
    parts = [_INDENT * (line.depth + 1) + part for line in lines for part in line.code(ways)]
    return "\n".join(["def call(leaves):", *parts, ""])


def function_of(lines: Iterable[Line], names: dict[str, Any], ways: Ways | None = None) -> Callable[..., Any]:
    """That function; it sees ``names``."""
    exec(compile(written(lines, ways), "<jtorch call>", "exec"), names)
    return names["call"]
