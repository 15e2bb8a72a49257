"""A plan as one CUDA graph over fixed addresses, or as several with calls of the host's between them.

Kernels are in table form (``cuda_table``), and steps with the same text that may run at once are one launch.
Nodes wait for those that touch the same bytes (``cuda_edges``). Products share cuBLAS's workspace, so they
run one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jtorch.compile.codegen.cuda_launch import Footprint, batches, launches
from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.cuda_edges import Edges, union
from jtorch.compile.run.cuda_host import CallBetween, call_between
from jtorch.compile.run.cuda_products import multiply
from jtorch.compile.run.cuda_steps import Placed, Step, Steps, Turning
from jtorch.compile.run.cuda_table import Table
from jtorch.compile.run.cuda_texts import entry_of, load_texts, text_of
from jtorch.compile.run.cuda_turns import Turns
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.graph import Capture, Graph
from jtorch.native.cuda.memory import Buffer


class CudaGraph:
    """``addresses``: where the memory of each place lies that is not the arena. ``allocate`` gives memory
    that a run leaves nothing in for the next one. ``tf32``: whether its products may round to it."""

    def __init__(
        self, steps: Steps, device: Device, addresses: Mapping[Place, int],
        allocate: Callable[[int], Buffer], tf32: bool,
    ) -> None:  # fmt: skip
        self.tf32 = tf32
        self.plan, self.device, self.addresses = steps.plan, device, addresses
        self.compiled = sum(map(load_texts, steps.codes))
        self.launched: list[tuple[str, int]] = []  # (kernel, how many steps) of each batch
        with device.own():
            self.arena = allocate(self.plan.arena_bytes)
            self.arenas = {loop: allocate(loop.plan.arena_bytes) for loop in steps.loops}
            copied = max((step.product.copied_bytes for step in steps.all if step.product), default=0)
            self.copied = allocate(copied)  # of factors; products run one after the other
            arenas = {loop: arena.address for loop, arena in self.arenas.items()}
            self.whole = Parts(list(steps.placed(self.address, arenas)), self, allocate)
        self.parts, self.batches, self.table = self.whole.parts, self.whole.batches, self.whole.table
        last = self.parts[-1]
        self.last = last if isinstance(last, Graph) and not self.table.n_errors else None
        """The graph that ``run`` leaves to whoever ends the run, as nobody has to know how it went."""

    def run(self) -> tuple[Step, int] | None:
        """Run it once, but for the ``last`` graph. The first step that reported an error, and its number;
        where none may, and nothing is called, the device is not waited for. The device belongs to the thread
        but while it runs the program's Python."""
        return self.whole.run(self.last)

    def alone(self, task: Task) -> Parts:
        """What runs a task of the plan by itself."""
        placed = [one for one in self.whole.placed if _task_of(one) is task]
        with self.device.own():
            return Parts(placed, self, self.device.allocate)

    def address(self, var: Var) -> int:
        """Where a variable of the plan with memory of its own begins."""
        place = self.plan.places[var]
        return self.arena.address + place.at if place.kind is Where.ARENA else self.addresses[place]


class Parts:
    """Steps in order, over fixed addresses: graphs, calls of the host's and loops that the host turns between
    them. ``like``: other ones of the same steps, which have scratch memory for both."""

    def __init__(
        self, placed: Sequence[Placed | Turning], whole: CudaGraph, allocate: Callable[[int], Buffer],
        like: Parts | None = None,
    ) -> None:  # fmt: skip
        self.whole, self.device, self.allocate = whole, whole.device, allocate
        self.placed = placed
        steps = [one for one in placed if isinstance(one, Placed)]
        self.table: Table = Table(steps, self.device, allocate, like.table if like else None)
        self.table.blocks()  # says what else each step touches
        self.touched = {one: self._footprint(one) for one in steps}
        batched = [self._batches(part) if isinstance(part, list) else part for part in _parts(placed)]
        self.batches = [batch for part in batched if isinstance(part, list) for batch in part]
        self.table.upload([one for batch in self.batches for one in batch if one.step.kernel])
        before = like.parts if like else [None] * len(batched)
        both = enumerate(zip(batched, before, strict=True))
        self.parts: list[Graph | CallBetween | Turns] = [
            self._made(part, other, k == 0) for k, (part, other) in both
        ]

    def run(self, last: Graph | None = None) -> tuple[Step, int] | None:
        """Run them once, but for the ``last`` one."""
        for part in self.parts:
            if part is last:
                break
            if isinstance(part, Graph):
                with self.device.own():
                    part.launch()
                continue
            failed = self._failed() or part.run()
            if failed:
                return failed
        return self._failed()

    def launch(self) -> None:
        """Run them once, where all of them are graphs, whatever errors they report."""
        for part in self.parts:
            if isinstance(part, Graph):
                part.launch()

    def _failed(self) -> tuple[Step, int] | None:
        with self.device.own():
            return self.table.failed() if self.table.n_errors else None

    def _footprint(self, placed: Placed) -> Footprint:
        """The bytes that a step touches."""
        step, address = placed

        def span(var: Var) -> range:
            layout = layout_of(var, step.find)
            assert layout is not None
            begin = address(layout.owner)
            return range(begin, begin + layout.owner.type.nbytes)

        own = self.table.own.get(placed, [])
        if step.product and step.product.gemms:
            own = [_span(self.device.blas.workspace)]
            own += [_span(self.whole.copied)] if step.product.copied_bytes else []
        return Footprint(tuple(map(span, step.task.reads)), (*map(span, step.task.writes), *own))

    def _batches(self, placed: Sequence[Placed]) -> list[list[Placed]]:
        """The steps of each launch."""
        texts = [p.step.kernel.source if p.step.kernel else f"product {k}" for k, p in enumerate(placed)]
        steps = [(text, self.touched[one]) for text, one in zip(texts, placed, strict=True)]
        return [[placed[k] for k in batch] for batch in batches(steps)]

    def _made(
        self, part: list[list[Placed]] | Placed | Turning, like: Any, is_first: bool
    ) -> Graph | CallBetween | Turns:
        if isinstance(part, Placed):
            return call_between(part, self.device)
        if isinstance(part, Turning):
            return self._turns_of(part, like)
        steps: list[tuple[Footprint, Callable[[], None]]] = []
        if is_first:
            status = self.table.status_span
            steps.append((Footprint((), (status,)), lambda: self.device.clear(status.start, len(status))))
        for batch in part:
            steps.append((union([self.touched[one] for one in batch]), self._enqueuing(batch)))
        return self._captured(steps)

    def _turns_of(self, turning: Turning, like: Turns | None) -> Turns:
        def make(placed: Sequence[Placed | Turning], first: Parts | None) -> Parts:
            return Parts(placed, self.whole, self.allocate, first)

        return Turns(turning, self.device, make, like)

    def _captured(self, steps: Sequence[tuple[Footprint, Callable[[], None]]]) -> Graph:
        edges, capture, nodes = Edges(), Capture(self.device), list[list[int]]()
        with capture.recording():
            for footprint, enqueue in steps:
                capture.wait_for([node for step in edges.add(footprint) for node in nodes[step]])
                enqueue()
                nodes.append(capture.latest)
        assert capture.graph is not None
        return capture.graph

    def _enqueuing(self, batch: Sequence[Placed]) -> Callable[[], None]:
        """What puts a batch into the stream; it loads its kernel now."""
        (step, address), kernels = batch[0], [one.step.kernel for one in batch]
        if step.product:
            copied, tf32 = self.whole.copied, self.whole.tf32
            return functools.partial(multiply, step.product, self.device, address, copied, tf32)
        handle = self.device.kernel(text_of(step.kernel), entry_of(step.kernel))
        self.whole.launched.append((step.kernel.entry, len(batch)))
        row = self.table.rows[batch[0]]

        def enqueue() -> None:
            for one in launches([kernel.work for kernel in kernels]):
                self.device.launch(handle, one.grid, one.block, [row, one.phase])

        return enqueue


def _parts(placed: Sequence[Placed | Turning]) -> list[list[Placed] | Placed | Turning]:
    """Steps of one graph, of which the first may have none, and what the host does between."""
    found: list[list[Placed] | Placed | Turning] = [[]]
    for one in placed:
        last = found[-1]
        if isinstance(one, Turning) or one.step.is_host:
            found.append(one)
        elif isinstance(last, list):
            last.append(one)
        else:
            found.append([one])
    return found


def _task_of(one: Placed | Turning) -> Task:
    """The task of the whole plan that it is a part of."""
    return one.step.whole if isinstance(one, Placed) else one.whole


def _span(buffer: Buffer) -> range:
    return range(buffer.address, buffer.address + buffer.nbytes)
