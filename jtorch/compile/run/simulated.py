"""Running a plan's CUDA kernels under numba-cuda's simulator, on machines without a device.

The simulator is chosen when numba-cuda is imported: ``NUMBA_ENABLE_CUDASIM=1`` must be in the environment of
the process before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda_launch import Footprint, batches
from jtorch.compile.codegen.cuda_simulate import SIMULATED_THREADS, run_batch
from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.plan import Task
from jtorch.compile.run.runner import store
from jtorch.compile.run.unjitted import Unjitted
from jtorch.compile.target import Binding


class Simulated(Unjitted):
    """The same duties as ``Replay``. Steps with one text that touch different memory are one launch:
    ``launched`` lists (kernel, how many steps) of the latest run."""

    threads = SIMULATED_THREADS

    def __init__(self, code: Code, binding: Binding) -> None:
        super().__init__(code, binding)
        self.launched: list[tuple[str, int]] = []

    def _load(self) -> dict[str, Any]:
        """Nothing: the simulator compiles each launch."""
        return {}

    def run(self, *arguments: Any) -> int:
        with self.alone:
            store(self.numbers, arguments)
            status = self._run(arguments)
            self._ended += not status
        return status

    def _run(self, arguments: Sequence[Any]) -> int:
        self.launched = []
        tasks = self.plan.tasks
        kernels = [self.code.kernels.get(task) for task in tasks]
        steps = [
            (kernel.source if kernel else f"call {k}", self._footprint(task, arguments))
            for k, (task, kernel) in enumerate(zip(tasks, kernels, strict=True))
        ]
        for batch in batches(steps):
            chosen = [kernel for kernel in (kernels[k] for k in batch) if kernel is not None]
            if not chosen:
                self.run_one(tasks[batch[0]], arguments)
                continue
            self.launched.append((chosen[0].entry, len(batch)))
            finds = [lambda pointer: self._argument(pointer, arguments)] * len(batch)
            for k, kernel, errors in zip(batch, chosen, run_batch(chosen, finds, self.threads), strict=True):
                if errors:
                    self.failed = tasks[k]
                    return (k << 16) | _status(kernel, errors)
        return 0

    def run_one(self, task: Task, arguments: Sequence[Any] = ()) -> int:
        kernel = self.code.kernels.get(task)
        if kernel is None:
            return super().run_one(task, arguments)
        (errors,) = run_batch([kernel], [lambda pointer: self._argument(pointer, arguments)], self.threads)
        return _status(kernel, errors)

    def _footprint(self, task: Task, arguments: Sequence[Any]) -> Footprint:
        def span(var: Var) -> range:
            layout = layout_of(var, self.plan.fused.find)
            assert layout is not None
            start = self._address(self.plan.places[layout.owner], arguments)
            return range(start, start + layout.owner.type.nbytes)

        return Footprint(tuple(map(span, task.reads)), tuple(map(span, task.writes)))


def _status(kernel: Any, errors: list[str]) -> int:
    """The number of the first of ``errors`` among those of the kernel, from 1 on; 0 where there is none."""
    return [failure.sentence for failure in kernel.errors].index(errors[0]) + 1 if errors else 0
