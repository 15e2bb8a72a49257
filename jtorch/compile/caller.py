"""The way in: one generated function per plan that checks the guards, marshals, replays and wraps.

It is source text, made for exactly these arguments, because a loop over guard objects would cost more than a
small step does. For a step of two tensors it reads

    def call(leaves):
        context = CONTEXT.get()
        if context.evaluator is not EAGER or context.grad is not True or WATCH[0] != plan.epoch: return MISS
        a0, a1 = leaves
        ...
        r0 = empty((), f32)
        status = run(d0, d1, r0, s0)
        if status: fail(status)
        clock.count += 1
        return Tensor(r0)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch import op as op_module
from jtorch import watch
from jtorch.compile.inputs import ArrayInput, GradInput, ScalarInput
from jtorch.compile.tree import unflatten
from jtorch.eager.evaluate import EAGER
from jtorch.eager.tensor import Tensor
from jtorch.op import Context

MISS = object()  # the answer of a plan whose guards don't hold

_SIGNS = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=",
}  # fmt: skip


def make(plan: Any, leaves: list[Any], context: Context) -> Callable[[tuple], Any]:
    """The function ``call(leaves)`` of a plan."""
    writer = _Caller(plan, leaves, context)
    text = writer.source()
    exec(compile(text, "<jtorch call>", "exec"), writer.names)
    call = writer.names["call"]
    call.source = text
    return call


class _Caller:
    def __init__(self, plan: Any, leaves: list[Any], context: Context) -> None:
        self.plan = plan
        self.leaves = leaves
        self.context = context
        self.lines: list[str] = []
        self.late: list[str] = []  # what follows the replay: writing staged copies back
        self.names: dict[str, Any] = {
            "CONTEXT": op_module.CONTEXT, "EAGER": EAGER, "WATCH": watch.structure, "MISS": MISS,
            "Tensor": Tensor, "plan": plan, "empty": np.empty, "run": plan.replay.run,
            "clock": plan.clock, "gradients": plan.gradients, "fail": lambda s: fail(plan, s),
            "in_order": np.ascontiguousarray, "unflatten": unflatten, "structure": plan.capture.structure,
        }  # fmt: skip

    def source(self) -> str:
        self._guards()
        arguments = [self._argument(entry) for entry in self.plan.wiring.order]
        self._counters()
        if self.plan.gradients.slots:
            self.add("if gradients.stale:")
            self.add("    gradients.refresh()")
        self.add(f"status = run({', '.join(arguments)})")
        self.add("if status:")
        self.add("    fail(status)")
        self._after()
        self.add(f"return {self._returned()}")
        return "def call(leaves):\n" + "\n".join(f"    {line}" for line in self.lines) + "\n"

    def add(self, line: str) -> None:
        self.lines.append(line)

    def miss_unless(self, test: str) -> None:
        self.add(f"if not ({test}): return MISS")

    def name(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{sum(1 for n in self.names if n.startswith(prefix))}"
        self.names[name] = value
        return name

    # -- guards --------------------------------------------------------------------------------------------

    def _guards(self) -> None:
        self.add("context = CONTEXT.get()")
        self.miss_unless(
            f"context.evaluator is EAGER and context.grad is {self.context.grad} and WATCH[0] == plan.epoch"
        )
        n = len(self.leaves)
        self.miss_unless(f"len(leaves) == {n}")
        if n:
            self.add(f"{''.join(f'a{k}, ' for k in range(n))}= leaves")
        first: dict[int, int] = {}
        for k, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor):
                self._tensor_guard(k, leaf)
                same = first.setdefault(id(leaf._data), k)
                if same != k:
                    self.miss_unless(f"d{k} is d{same}")
            elif leaf.__class__ is float:
                self.miss_unless(f"a{k}.__class__ is float")
            else:
                self._static_guard(k, leaf)
        for read in self.plan.capture.plain:
            self._plain_guard(read)
        self._overlap_guard([k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)])
        for entry in self.plan.capture.inputs:
            if isinstance(entry, GradInput):
                tensor = self.name("t", entry.tensor)
                self.miss_unless(f"{tensor}._grad is {'not ' if entry.present else ''}None")

    def _tensor_guard(self, k: int, leaf: Tensor) -> None:
        data = leaf._data
        cls, dtype = self.name("C", type(leaf)), self.name("D", data.dtype)
        self.miss_unless(f"a{k}.__class__ is {cls}")
        self.add(f"d{k} = a{k}._data")
        is_leaf = f" and (a{k}._node is None) is {leaf._node is None}" if leaf._requires_grad else ""
        self.miss_unless(
            f"d{k}.shape == {data.shape} and (d{k}.dtype is {dtype} or d{k}.dtype == {dtype}) and "
            f"d{k}.strides == {data.strides} and a{k}._requires_grad is {leaf._requires_grad}{is_leaf}"
        )

    def _static_guard(self, k: int, leaf: Any) -> None:
        value = self.name("V", leaf)
        if isinstance(leaf, (bool, int, str, bytes, type(None))):
            cls = self.name("C", type(leaf))
            self.miss_unless(f"a{k}.__class__ is {cls} and a{k} == {value}")
        else:
            self.miss_unless(f"a{k} is {value}")

    def _plain_guard(self, read: Any) -> None:
        container, value = self.name("g", read.container), self.name("V", read.value)
        named = isinstance(read.container, dict)
        now = f"{container}.get({read.key!r})" if named else f"{container}.cell_contents"
        holds = self.name("holds", read.holds)
        self.miss_unless(f"{now} is {value} or {holds}()")

    def _overlap_guard(self, tensors: list[int]) -> None:
        """Arguments must not lie in memory that the plan writes, unless they did when it was recorded."""
        writes = self.plan.capture.effects.writes
        if not writes or not tensors:
            return
        owners = frozenset(id(_owner(e.array)) for e in writes if e.argument is None)
        written = [e.argument for e in writes if e.argument is not None]
        recorded = any(id(_owner(e.array)) in owners for e in self.plan.capture.inputs
                       if isinstance(e, ArrayInput) and e.argument is not None)  # fmt: skip
        if not recorded and owners:
            self.names["owners"], self.names["owner"] = owners, _owner
            for k in tensors:
                self.miss_unless(f"id(d{k} if d{k}.base is None else owner(d{k})) not in owners")
        for w in written:
            for k in tensors:
                if k != w and self.leaves[k]._data is not self.leaves[w]._data:
                    self.names["overlap"] = np.may_share_memory
                    self.miss_unless(f"not overlap(d{k}, d{w})")

    # -- marshalling ---------------------------------------------------------------------------------------

    def _argument(self, entry: Any) -> str:
        """The expression of one argument of the executor, after the lines that it needs."""
        if isinstance(entry, tuple):
            index = entry[1]
            type = self._output_type(index)
            dtype = self.name("D", type.dtype)
            self.add(f"r{index} = empty({type.shape}, {dtype})")
            return f"r{index}"
        if isinstance(entry, ScalarInput):
            return self._scalar(entry)
        if isinstance(entry, GradInput):
            return self._grad(entry)
        assert isinstance(entry, ArrayInput)
        if entry.argument is None:
            return self._staged(self.name("k", entry.array), entry)
        k = entry.argument
        array = self.leaves[k]._data
        return f"d{k}" if array.flags.c_contiguous else self._staged(f"d{k}", entry)

    def _staged(self, source: str, entry: ArrayInput) -> str:
        staged = self.name("o", None)
        self.add(f"{staged} = in_order({source})")
        self.plan.wiring.keep.append(entry.array)
        if entry.written:
            self.late.append(f"{source}[...] = {staged}")
        return staged

    def _output_type(self, index: int) -> Any:
        targets = self.plan.program.graph.outputs
        if index < self.plan.capture.n_results:
            return targets[index].type
        place = {(t.kind, t.index): k for k, t in enumerate(self.plan.targets)}
        return targets[place[("result", index)]].type

    def _scalar(self, entry: ScalarInput) -> str:
        if entry.argument is not None:
            value = f"a{entry.argument}"
        else:
            value = self.name("s", None)
            container = self.name("h", entry.container)
            self.add(f"{value} = {container}{''.join(f'[{k!r}]' for k in entry.path)}")
            self.add(f"if {value}.__class__ is not float: {value} = float({value})")
        for test, other in dict.fromkeys(entry.guards):
            self.miss_unless(f"{value} {_SIGNS[test]} {_number(other)}")
        return value

    def _grad(self, entry: GradInput) -> str:
        value = self.name("q", None)
        if not entry.present:
            self.add(f"{value} = empty({entry.var.shape})")
            return value
        tensor = self.name("t", entry.tensor)
        self.add(f"{value} = in_order({tensor}.grad._data)")
        dtype = self.name("D", entry.var.dtype)
        self.miss_unless(f"{value}.shape == {entry.var.shape} and {value}.dtype == {dtype}")
        return value

    def _counters(self) -> None:
        for word, entry in self.plan.wiring.counters:
            array, generator = self.name("w", word), self.name("G", entry.generator)
            self.add(f"{array}[0] = {generator}.{entry.attribute}")

    # -- afterwards ------------------------------------------------------------------------------------------

    def _after(self) -> None:
        self.add("clock.count += 1")
        for line in self.late:
            self.add(line)
        for generator, drawn in self.plan.capture.effects.draws:
            self.add(f"{self.name('G', generator)}.call += {drawn}")
        for entry in self.plan.capture.effects.writes:
            if entry.argument is not None:
                self.add(f"a{entry.argument}._cell[0] += 1")
        for k, index in self.plan.grad_outputs:
            self.add(f"a{k}.grad = Tensor(r{index})")
        for tensor in self.plan.cleared:
            self.add(f"{self.name('t', tensor)}.grad = None")

    def _returned(self) -> str:
        values = [self._result(r) for r in self.plan.capture.results]
        if self.plan.backward is not None:
            n = self.plan.first_saved
            self.names["attach"] = self.plan.backward.attach
            arrays = "".join(f"r{k}, " for k in range(n, n + self.plan.backward.n_saved))
            tensors = "".join(f"{v}, " for v in values)
            self.add(f"results = [{tensors}]")
            self.add(f"attach(leaves, results, [{arrays}])")
            return "unflatten(structure, results)"
        if self.plan.capture.structure == "*":
            return values[0]
        return f"unflatten(structure, [{', '.join(values)}])"

    def _result(self, result: Any) -> str:
        if result.kind == "tensor":
            return f"Tensor(r{result.index})"
        if result.kind == "number":
            return f"r{result.index}.item()"
        if result.kind == "view":
            self.names["view"] = view_of_array
            entry = result.source
            array = f"d{entry.argument}" if entry.argument is not None else self.name("k", entry.array)
            return f"view({array}, {self.name('c', result.chain)})"
        return self._same(result.value)

    def _same(self, value: Any) -> str:
        """Something returned as it is: an argument of this call, or a constant of the program."""
        for k, leaf in enumerate(self.leaves):
            if leaf is value and isinstance(leaf, Tensor):
                return f"a{k}"
        return self.name("V", value)


def view_of_array(array: np.ndarray, chain: tuple) -> Tensor:
    """The memory of an outside array through a chain of views: a result that aliases it."""
    for op, statics in chain:
        array = op.body(EAGER.xp, array, **statics)
    return Tensor(array)


def _number(value: float) -> str:
    return repr(value) if np.isfinite(value) else f"float('{value}')"


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def fail(plan: Any, status: int) -> None:
    """Raise the error that a kernel reported."""
    sentence, source = plan.replay.status_text(status)
    where = f" (at {source})" if source is not None else ""
    kind = IndexError if "index" in sentence else RuntimeError
    raise kind(f"{sentence}{where}")
