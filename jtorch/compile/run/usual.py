"""The table of an instance whose loops are not cut and whose products are all usual ones: the same for all
sizes but for numbers, so a copy of one block of words with some of them changed.

The block is an executor's record and behind it the template's words. What is no number is an offset from
where these begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jtorch.compile.plan.plan import Task
from jtorch.compile.run.assembly import joined
from jtorch.compile.run.template import HostBlock, LoopBlock, ProductBlock, Template
from jtorch.native.executor import PATCH_WORDS, ROW_WORDS, Patch, Row, offsets_in_record, record_of


class Usual:
    """``kernels``: where those of the tasks are. ``numbers`` are the patches of runtime scalars, ``copies``
    says where else a word of the template must stand."""

    def __init__(
        self, template: Template, kernels: Mapping[Task, int], numbers: Sequence[Patch],
        copies: Mapping[int, Sequence[int]], n_arguments: int,
    ) -> None:  # fmt: skip
        self.owners: list[Task] = []
        self.calls: list[tuple[int, Task]] = []  # library calls, and the rows before each
        self.n_arguments, self.numbers = n_arguments, len(numbers)
        self.copy_to, self.copy_from = (
            np.array([pair[k] for pair in template.copied], np.intp) for k in (0, 1)
        )
        self.table = self._table(template, kernels)
        brought = [
            (argument, 8 * to, expr, nbytes)
            for argument, k, expr, nbytes in template.words.patches
            for to in copies.get(k, [k])
        ]
        columns = np.array(brought, np.int64).reshape(-1, 4)
        self.of = columns[:, 2].astype(np.intp)  # the expression of each offset in an argument
        fixed = np.array(numbers, np.int64).reshape(-1, PATCH_WORDS)
        self.patches = np.concatenate([fixed, columns[:, [0, 1, 3]]])
        self.records: dict[bool, np.ndarray] = {}  # by whether other threads of Python run meanwhile
        self.n_words = len(template.words.constants)
        patches_at, rows_at = offsets_in_record(len(self.patches))
        first = patches_at + PATCH_WORDS * self.numbers
        self.offsets_at = np.arange(len(columns)) * PATCH_WORDS + first + 2
        rows = np.arange(len(self.table)) * ROW_WORDS + rows_at + 1
        self.relative_at = np.concatenate([self.offsets_at - 1, rows])

    def _table(self, template: Template, kernels: Mapping[Task, int]) -> np.ndarray:
        rows: list[Row] = []
        begins = False  # a table
        for block in template.blocks:
            if isinstance(block, HostBlock):
                self.calls.append((len(rows), block.task))
                begins = True
                continue
            if isinstance(block, LoopBlock):
                row = Row(kernels[block.task], 8 * block.first, 1, 8 * block.n, 0)
                if not begins and not block.task.can_fail and joined(rows, row):
                    continue
            else:
                assert isinstance(block, ProductBlock)  # loops over time are assembled
                row = Row(block.kernel, 8 * block.usual_at, 1, 0, 0)
            rows.append(row)
            self.owners.append(block.task)
            begins = False
        return np.array(rows, np.int64).reshape(-1, ROW_WORDS)

    def begun(self, constants: np.ndarray, release_gil: bool) -> tuple[np.ndarray, np.ndarray]:
        """(a new record, its words): the second are a part of the same memory, and have the ``constants``."""
        if release_gil not in self.records:
            record = record_of(self.table, self.patches, self.n_arguments, release_gil)
            self.records[release_gil] = np.concatenate([record, np.zeros(self.n_words, np.int64)])
        record = self.records[release_gil].copy()
        words = record[len(record) - self.n_words :]
        words[:] = constants
        return record, words

    def finish(self, record: np.ndarray, words: np.ndarray, values: np.ndarray) -> None:
        """The words have been worked out, from these values of the template's expressions."""
        words[self.copy_to] = words[self.copy_from]
        record[self.offsets_at] += values[self.of]
        record[self.relative_at] += words.__array_interface__["data"][0]

    def parts(self, record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The table and the patches of a record that is finished."""
        patches_at, rows_at = offsets_in_record(len(self.patches))
        end = len(record) - self.n_words
        return record[rows_at:end].reshape(-1, ROW_WORDS), record[patches_at:rows_at].reshape(-1, PATCH_WORDS)
