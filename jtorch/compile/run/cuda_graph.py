"""A plan as one CUDA graph over fixed addresses.

Kernels are in table form (``cuda_table``), and steps with the same text that may run at once are one launch.
Nodes wait for those that touch the same bytes (``cuda_edges``). Products share cuBLAS's workspace, so they
run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda_launch import Footprint, batches, launches
from jtorch.compile.graph.access import layout_of
from jtorch.compile.graph.ir import Var
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.cuda_edges import Edges, union
from jtorch.compile.run.cuda_products import Calls, calls_of, multiply
from jtorch.compile.run.cuda_table import Table
from jtorch.compile.run.cuda_texts import entry_of, load_texts, text_of
from jtorch.core.errors import CompileError
from jtorch.native.cuda.device import Device
from jtorch.native.cuda.graph import Capture, Graph
from jtorch.native.cuda.memory import Buffer


class CudaGraph:
    """``addresses``: where the memory of each place lies that is not the arena. ``launch()`` puts a run into
    the device's stream, and ``table.failed()`` waits for it."""

    def __init__(self, code: Code, device: Device, addresses: Mapping[Place, int]) -> None:
        self.code, self.plan, self.device, self.addresses = code, code.plan, device, addresses
        self.products = products_of(code)
        self.compiled = load_texts(code)
        self.launched: list[tuple[str, int]] = []  # (kernel, how many steps) of each batch
        with device.own():
            self.arena = device.allocate(self.plan.arena_bytes)
            copied = max((calls.copied_bytes for calls in self.products.values()), default=0)
            self.copied = device.allocate(copied)  # of factors; products run one after the other
            self.table = Table(code, device, self.address)
            self.table.blocks()  # says what else each step touches
            self.batches = self._batches()
            self.table.upload([task for batch in self.batches for task in batch if task in code.kernels])
            self.graph = self._captured()

    def launch(self) -> None:
        """Run it once."""
        self.graph.launch()

    def address(self, var: Var) -> int:
        """Where a variable with memory of its own begins."""
        place = self.plan.places[var]
        return self.arena.address + place.at if place.kind is Where.ARENA else self.addresses[place]

    def footprint(self, task: Task) -> Footprint:
        """The bytes that a step touches."""

        def span(var: Var) -> range:
            layout = layout_of(var, self.plan.fused.find)
            assert layout is not None
            begin = self.address(layout.owner)
            return range(begin, begin + layout.owner.type.nbytes)

        own = self.table.own.get(task, [])
        if task in self.products and self.products[task].gemms:
            workspace = self.device.blas.workspace
            own = [_span(workspace)]
            own += [_span(self.copied)] if self.products[task].copied_bytes else []
        return Footprint(tuple(map(span, task.reads)), (*map(span, task.writes), *own))

    def _batches(self) -> list[list[Task]]:
        """The steps of each launch."""
        tasks, kernels = self.plan.tasks, self.code.kernels
        texts = [kernels[t].source if t in kernels else f"product {k}" for k, t in enumerate(tasks)]
        steps = list(zip(texts, map(self.footprint, tasks), strict=True))
        return [[tasks[k] for k in batch] for batch in batches(steps)]

    def _captured(self) -> Graph:
        status = self.table.status_span
        steps = [(Footprint((), (status,)), lambda: self.device.clear(status.start, len(status)))]
        for tasks in self.batches:
            steps.append((union([self.footprint(task) for task in tasks]), self._enqueuing(tasks)))
        edges, capture, nodes = Edges(), Capture(self.device), list[list[int]]()
        with capture.recording():
            for footprint, enqueue in steps:
                capture.wait_for([node for step in edges.add(footprint) for node in nodes[step]])
                enqueue()
                nodes.append(capture.latest)
        assert capture.graph is not None
        return capture.graph

    def _enqueuing(self, tasks: Sequence[Task]) -> Callable[[], None]:
        """What puts a batch into the stream; it loads its kernel now."""
        if tasks[0] in self.products:
            calls = self.products[tasks[0]]
            return lambda: multiply(calls, self.device, self.address, self.copied)
        kernels = [self.code.kernels[task] for task in tasks]
        handle = self.device.kernel(text_of(kernels[0]), entry_of(kernels[0]))
        self.launched.append((kernels[0].entry, len(tasks)))
        row = self.table.rows[tasks[0]]

        def enqueue() -> None:
            for one in launches([kernel.work for kernel in kernels]):
                self.device.launch(handle, one.grid, one.block, [row, one.phase])

        return enqueue


def _span(buffer: Buffer) -> range:
    return range(buffer.address, buffer.address + buffer.nbytes)


def products_of(code: Code) -> dict[Task, Calls]:
    """What is no kernel. Raises CompileError for what no graph of a device can do."""
    found = {}
    for task in code.plan.tasks:
        kind, eqn = task.step.kind, task.step.eqns[0]
        if kind is StepKind.HOST:
            raise CompileError(
                f"{eqn.source}: '{task.name}' is a call to the host, which a plan on a CUDA device cannot do"
            )
        if kind is StepKind.SCAN:
            raise CompileError(
                f"{eqn.source}: '{task.name}' is a loop over time, which a CUDA device does not run yet"
            )
        if task.nest is None:
            found[task] = calls_of(eqn, code.plan.fused.find)
    return found
