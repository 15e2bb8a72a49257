"""What may go wrong while a plan runs: why it stopped, in the words that its user gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jtorch.core.errors import Source


class FailureKind(Enum):
    """What a failure is."""

    VALUE = "an operand that the op has no result for"
    INDEX = "an index out of range"
    BRANCH = "a branch that goes another way than it was recorded: another plan may take the call"


@dataclass(frozen=True, slots=True)
class Failure:
    """One way for a kernel to fail. ``source`` is the line of the user's program whose op it belongs to."""

    kind: FailureKind
    sentence: str
    source: Source | None = None

    def error(self) -> Exception:
        """What to raise."""
        error = IndexError if self.kind is FailureKind.INDEX else RuntimeError
        return error(f"{self.sentence} (at {self.source})" if self.source is not None else self.sentence)
