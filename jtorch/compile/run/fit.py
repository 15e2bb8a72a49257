"""How a plan is fitted to its sizes: what is cut into pieces that threads share, what goes by tiles, and by
which kernel each product runs. All that magnitudes decide, and not structure, when a plan is made executable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jtorch.compile.codegen.code import Code
from jtorch.compile.graph.products import Factors, product_of
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.pieces import nest_time, pieces_of
from jtorch.compile.plan.plan import Run, Task
from jtorch.core.pieces import Piece, is_cut, product_time
from jtorch.native import workers
from jtorch.native.contraction import Call, call_of


class Fit:
    """A plan's tasks at its sizes; ``scans`` are those that are loops, and how long they take. ``is_cut``:
    it is long enough that threads share what can be shared."""

    def __init__(self, code: Code, scans: Mapping[Task, float]) -> None:
        self.code, self.plan, self.scans = code, code.plan, scans
        self._products: dict[Task, tuple[Factors, Call]] = {}
        self._shared: dict[Task, np.ndarray] = {}
        self.is_cut = bool(workers.pool()) and is_cut(map(self.time, self.plan.tasks))

    def time(self, task: Task) -> float:
        """Microseconds that it takes on one thread, about; 0 of what the host does."""
        if task.step.kind is StepKind.HOST:
            return 0.0
        if task in self.scans:
            return self.scans[task]
        if task.nest is None:
            return product_time(self.product(task)[0].product.flops)
        return nest_time(task.nest)

    def product(self, task: Task) -> tuple[Factors, Call]:
        """The product that a task without a kernel of its own is."""
        if task not in self._products:
            factors = product_of(task.step.eqns[0], self.plan.fused.find)
            assert factors is not None  # see graph/finalise.py
            self._products[task] = factors, call_of(factors.product, factors.x.owner.dtype)
        return self._products[task]

    def pieces(self, task: Task) -> list[Piece]:
        """What the kernel of a task is called for, one after the other or by several threads."""
        if task not in self.code.kernels:
            return self.product(task)[1].pieces
        assert task.nest is not None
        cut = pieces_of(task.nest)
        if task.can_fail or not self.is_cut:
            cut = [(cut[0][0], cut[-1][1])] if cut else []
        return [Piece("", part) for part in cut or [(0, 0)]]

    def groups(self, tasks: Sequence[Task]) -> Iterator[Task | Run]:
        """The runs among the tasks, where threads share work, and each other task by itself."""
        here = set(tasks) if self.is_cut else set()
        found = [run for run in self.plan.runs if here.issuperset(run.tasks) and self._goes_by_tiles(run)]
        runs = {run.tasks[0]: run for run in found}
        inside = {task for run in runs.values() for task in run.tasks}
        for task in tasks:
            if task in runs:
                yield runs[task]
            elif task not in inside:
                yield task

    def _goes_by_tiles(self, run: Run) -> bool:
        """Whether each product of a run is cut as the plan says, by a kernel that several threads may be in:
        SciPy's BLAS has a number of threads that they would change."""
        products = [self.product(task) for task in run.tasks if task.nest is None]
        return all(call.product is factors.product and not call.threaded for factors, call in products)

    def is_shared(self, *tasks: Task) -> bool:
        """Whether threads share one task, or all of a run."""
        host = tasks[0].step.kind is StepKind.HOST
        return self.is_cut and not host and (len(tasks) > 1 or len(self.pieces(tasks[0])) > 1)

    def n_words(self, task: Task) -> int:
        """Those of the argument block of one of its pieces."""
        kernel = self.code.kernels.get(task)
        return len(kernel.arguments) if kernel else self.product(task)[1].n_words

    def shared(self, task: Task) -> np.ndarray | None:
        """The memory that the pieces of a product read in common, None where each has all of its own."""
        words = self.product(task)[1].shared
        if words is not None and task not in self._shared:
            self._shared[task] = np.array(words, np.int64)
        return self._shared.get(task)

    def all_shared(self, tasks: Sequence[Task]) -> list[np.ndarray]:
        """That of products among the tasks, which must live on."""
        return [self._shared[task] for task in tasks if task in self._shared]
