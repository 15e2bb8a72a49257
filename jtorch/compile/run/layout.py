"""Where all that an instance needs lies in its memory, one array of words, and how it is filled in.

The array is an executor's record, then the template's words, then the blocks of steps that have one of
their own (``parts.py``). For all sizes that go the same way it is the same but for numbers: it is found
once, copied, and filled in by a few operations on all of it. What is given for the sizes at hand, as edges
of pieces and what products are told, comes as one array, whose first number is 0.

Places are counted from where the words begin; what is the address of one is ``8 * place`` in the copy, until
the memory is there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jtorch.compile.plan.plan import Task
from jtorch.compile.run.parts import HostStep, LoopPieces, Part, Parts, Step
from jtorch.native.executor import PATCH_WORDS, ROW_WORDS, Patch, Row, offsets_in_record, record_of


class Way(NamedTuple):
    """How all goes, in order: ``pool`` has the threads that share what is in pieces; other threads of Python
    run meanwhile where it ``releases`` them. Two sizes that go one way have one layout."""

    steps: tuple[Step, ...]
    pool: int
    releases: bool


class Layout:
    """That of a ``way``. ``numbers`` are the patches of runtime scalars. ``owners`` has the task of each row,
    ``calls`` library calls and the rows before each."""

    def __init__(self, way: Way, parts: Parts, numbers: Sequence[Patch], n_arguments: int) -> None:
        self.way = way
        self.at: dict[int, tuple[int, int]] = {}  # of steps with own blocks the row, the first number given
        self.owners: list[Task] = []
        self.calls: list[tuple[int, Task]] = []
        self.n_words = parts.n_words
        self._rows: list[Row] = []
        self._found: list[Part] = []  # those that have more than constant words, or words of their own
        self._begins: list[int] = []  # where the block of each is
        self._before: list[int] = []  # numbers that are given for others
        end, n_given = self.n_words, 0
        for k, step in enumerate(way.steps):
            if isinstance(step, HostStep):
                self.calls.append((len(self._rows), step.block.task))
                continue
            part = parts.of(step)
            row = part.row
            if not part.in_words:
                self.at[k] = len(self._rows), n_given + 1
                pool = way.pool if part.is_shared else 0
                row = Row(row.kernel, row.block + 8 * end, row.repeat, row.stride, pool)
                if isinstance(step, LoopPieces) and step.block in parts.brought:
                    self._have(
                        parts.of(LoopPieces(step.block, 1)), 0, 0
                    )  # for sizes with one: ``layouts.py``
            if not part.is_still:
                self._have(part, 0 if part.in_words else end, n_given)
                end += len(part.block)
                n_given += part.n_given
            if not (part.may_join and self._joined(row)):
                self._rows.append(row)
                self.owners.append(part.task)
        self.n_given = n_given
        self._join(parts, numbers, n_arguments, way.releases)

    def copy(self) -> Layout:
        """One with a base of its own."""
        made = Layout.__new__(Layout)
        made.__dict__.update(self.__dict__)
        made.base = self.base.copy()
        return made

    # -- filled in for some sizes --------------------------------------------------------------------------

    def begun(self, constants: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(new memory, the words in it, which have these ``constants``)."""
        memory = self.base.copy()
        words = self.words(memory)
        words[:] = constants
        return memory, words

    def words(self, memory: np.ndarray) -> np.ndarray:
        """The template's words in it."""
        return memory[self.words_at : self.words_at + self.n_words]

    def finish(self, memory: np.ndarray, values: np.ndarray, given: np.ndarray) -> None:
        """The words have been worked out, from these values of the template's expressions."""
        memory[self.given_to] = given[self.given_from]
        memory[self.pointed_to] = memory[self.pointed_from] + given[self.beyond]
        memory[self.offset_to] += values[self.offset_of] + given[self.offset_beyond]
        memory[self.relative] += memory.__array_interface__["data"][0] + 8 * self.words_at

    def tables(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows and the patches of memory that is filled in."""
        rows = memory[self.rows_at : self.words_at].reshape(-1, ROW_WORDS)
        return rows, memory[self.patches_at : self.rows_at].reshape(-1, PATCH_WORDS)

    def places_of(self, word: int) -> np.ndarray:
        """Where in the memory stands what this word points to."""
        own = self.words_at + word
        return np.append(self.pointed_to[self.pointed_from == own], own)

    # -- found once ----------------------------------------------------------------------------------------

    def _have(self, part: Part, begin: int, before: int) -> None:
        """One more part, whose block begins there, with so many numbers that are given before."""
        self._found.append(part)
        self._begins.append(begin)
        self._before.append(before)

    def _joined(self, row: Row) -> bool:
        """Whether ``row`` has become one more time of the last one: no library call is between them."""
        after_call = self.calls and self.calls[-1][0] == len(self._rows)
        return not after_call and joined(self._rows, row)

    def _join(self, parts: Parts, numbers: Sequence[Patch], n_arguments: int, releases: bool) -> None:
        """All parts together."""
        to, words, beyond = self._columns(3, [part.pointed for part in self._found])
        way = parts.patch_of[words]
        brought = way >= 0  # by a call
        argument, self.offset_of, nbytes = parts.patches[way[brought]].T
        self.offset_beyond = beyond[brought]
        moving = np.stack([argument, 8 * to[brought], nbytes], axis=1)
        patches = np.concatenate([np.array(numbers, np.int64).reshape(-1, PATCH_WORDS), moving])
        numbers_of_rows = itertools.chain.from_iterable(self._rows)
        rows = np.fromiter(numbers_of_rows, np.int64).reshape(-1, ROW_WORDS)
        record = record_of(rows, patches, n_arguments, releases)
        begin = self.words_at = len(record)
        self.patches_at, self.rows_at = offsets_in_record(len(patches))
        self.offset_to = self.patches_at + PATCH_WORDS * np.arange(len(numbers), len(patches)) + 2
        blocks = [part.block for part in self._found]
        self.base = np.concatenate([record, np.zeros(self.n_words, np.int64), *blocks])
        self.pointed_to, self.pointed_from = begin + to[~brought], begin + words[~brought]
        self.beyond = beyond[~brought]
        given_to, self.given_from = self._columns(2, [part.given for part in self._found])
        self.given_to = begin + given_to
        places, targets = self._columns(2, [part.addresses for part in self._found], are_places=True)
        self.base[begin + places] = 8 * targets
        blocks_at = self.rows_at + ROW_WORDS * np.arange(len(rows)) + 1
        self.relative = np.concatenate([self.offset_to - 1, blocks_at, begin + places])

    def _columns(self, n: int, each: Sequence[np.ndarray], are_places: bool = False) -> np.ndarray:
        """The ``n`` columns of all parts as one, the first of which has places, as has the last if they
        ``are_places``; else that has numbers that are given."""
        some = [k for k, columns in enumerate(each) if columns.size]
        together = np.concatenate([np.zeros((n, 0), np.intp), *(each[k] for k in some)], axis=1)
        counts = [each[k].shape[1] for k in some]
        begins = np.repeat(np.array([self._begins[k] for k in some], np.intp), counts)
        together[0] += begins
        if are_places:
            together[-1] += begins
        else:
            before = np.repeat(np.array([self._before[k] for k in some], np.intp), counts)
            together[-1] += before * (together[-1] > 0)
        return together


def joined(rows: list[Row], row: Row) -> bool:
    """Whether ``row`` has become one more time of the last one, whose blocks end where its block begins."""
    if not rows:
        return False
    kernel, block, repeat, stride, pool = last = rows[-1]
    if not last.goes_on_with(row) or stride != row.stride or block + repeat * stride != row.block:
        return False
    rows[-1] = Row(kernel, block, repeat + 1, stride, pool)
    return True
