"""Calls that cannot be recorded, and so run eagerly: told once, with the line and the way round."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jtorch.compile.observe.guards import PLAIN, test_of
from jtorch.core.errors import CompileError, EagerWarning, user_source
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor

MOST = 3
"""After so many refused recordings calls of one structure are not tried again: each takes as long as many
eager calls."""

_KEPT = 16

Form = tuple[Any, ...]
"""What tells calls apart that may go other ways: kinds of tensors, values of all else, and the mode. Of an
object it is where it lies: another one there would run eagerly, too, which is right in any case."""


def form_of(leaves: Sequence[Any], context: Context) -> Form:
    return context.mode, *map(_form, leaves)


def _form(leaf: Any) -> Any:
    kind = type(leaf)  # isinstance() may ask an object of the user's for its class
    if issubclass(kind, Tensor):
        return kind, leaf._data.dtype, leaf._data.shape, leaf._requires_grad
    return kind, leaf if issubclass(kind, PLAIN) else id(leaf)


class _Known(NamedTuple):
    """Calls of one structure and form. ``holds()``: whether what was read is as it was."""

    structure: Any
    form: Form
    holds: Callable[[], bool]


def _always() -> bool:
    return True


class EagerCalls:
    """Those of the function ``name``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: list[_Known] = []
        self._latest: _Known | None = None  # of those that have tensors and numbers for arguments alone
        self._refused: Counter[Any] = Counter()  # recordings, by the structure of the arguments
        self.reasons: dict[str, str] = {}  # by the place where each came up

    def has(self, leaves: Sequence[Any], structure: Any, context: Context, flat: bool, first: bool) -> bool:
        """Whether a call of these that no plan takes is one of them, as things are. ``flat``: the leaves are
        the arguments; ``first``: there is no plan for this structure."""
        if not self._known:
            return False
        form = form_of(leaves, context)
        found = next((k for k in self._known if k[:2] == (structure, form) and k.holds()), None)
        if found is None and self._refused[structure] >= MOST:
            if not first:  # the next one of this form may be one that a plan takes
                return True
            found = _Known(structure, form, _always)
        if flat and found is not None:
            self._latest = found
        return found is not None

    def has_again(self, args: Sequence[Any], context: Context) -> bool:
        """Whether the latest one was like a call with these arguments, of which none was passed by keyword:
        asked before all else."""
        latest = self._latest
        return latest is not None and latest.form == form_of(args, context) and latest.holds()

    def plan_is_made(self) -> None:
        """Which takes calls that ran eagerly, maybe."""
        self._latest = None

    def add(self, error: CompileError, structure: Any, form: Form) -> None:
        """Calls like the one that met ``error`` are, as long as what that had read is as it was."""
        self._known = [_Known(structure, form, test_of(error.read)), *self._known[: _KEPT - 1]]

    def refuse(self, error: CompileError, structure: Any, form: Form) -> None:
        """The same of a call that cannot be recorded. Where elements decided which way it goes, the next one
        may go another: an ``if not self.initialized`` on a buffer is about the first call alone."""
        self._refused[structure] += 1
        if not error.decided or self._refused[structure] >= MOST:
            self.add(error, structure, form)

    def tell(self, error: CompileError) -> bool:
        """Say that a call runs eagerly, once for each place; whether that is new."""
        text = str(error)
        place = text.partition(": ")[0]
        if place in self.reasons:
            return False
        self.reasons[place] = text
        where = user_source()
        warnings.warn_explicit(
            f"calls of '{self.name}' like this one run eagerly (fullgraph=True makes an error of it), since "
            f"they cannot be recorded: {text}",
            EagerWarning, where.file, where.line,
        )  # fmt: skip
        return True
