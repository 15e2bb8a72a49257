"""The same random numbers a second time: what a checkpointed function needs when it runs again.

A random op asks the evaluator for its (seed, call number). Noting the answers, and giving them again in the
same order, repeats the draws of every generator, eagerly and while a graph is recorded, and leaves the
generators as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jtorch.core import op as op_module


class _Noting:
    """An evaluator that notes what each random op got."""

    def __init__(self, evaluator: Any, notes: list[tuple[Any, Any]]) -> None:
        self._evaluator = evaluator
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._evaluator, name)

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        found = self._evaluator.next_call(generator)
        self._notes.append(found)
        return found


class _Repeating(_Noting):
    """An evaluator that gives the noted answers again; new ones where a run draws more than the first."""

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        return self._notes.pop(0) if self._notes else self._evaluator.next_call(generator)


@contextmanager
def noted_draws(notes: list[tuple[Any, Any]]) -> Iterator[None]:
    """Append to ``notes`` what the random ops of the block draw from."""
    with _under(_Noting(op_module.CONTEXT.get().evaluator, notes)):
        yield


@contextmanager
def repeated_draws(notes: list[tuple[Any, Any]]) -> Iterator[None]:
    """Let the random ops of the block draw what was noted."""
    with _under(_Repeating(op_module.CONTEXT.get().evaluator, list(notes))):
        yield


@contextmanager
def _under(evaluator: Any) -> Iterator[None]:
    context = op_module.CONTEXT.get()
    try:
        op_module.CONTEXT.set(context.replace(evaluator=evaluator))
        yield
    finally:
        op_module.CONTEXT.set(context)
