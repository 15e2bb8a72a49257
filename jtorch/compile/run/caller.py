"""The way in: one generated function per plan that checks the guards, marshals, replays and wraps.

It is source text, made for exactly these arguments, because a loop over guard objects would cost more than a
small step does. For a step of two tensors it reads

    def call(leaves):
        context = CONTEXT.get()
        if not (context.evaluator is EAGER and context.mode == 1 and not SAVED_HOOKS.get()
                and (not plan.news or plan.is_as_before())): return MISS  # state
        a0, a1 = leaves
        ...
        try:
            if not (...): return MISS  # state: what was read outside
        except GONE: return MISS  # state
        r0 = empty((), f32)
        stopped = None
        try:
            status = run(d0, d1, r0, s0)
            if not status: clock.count += 1
        except BaseException as error:
            if replay.ended == clock.count: stop(error)
            status, stopped = 0, error
            clock.count += 1
        if status: fail(status)
        returned = wrap(r0)
        if stopped is not None: raise stopped
        return returned
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.observe.effects import finisher
from jtorch.compile.observe.scalar import Formula, FormulaTest
from jtorch.compile.plan.plan import Use
from jtorch.compile.record.arrays import is_lent
from jtorch.compile.record.containers import changer
from jtorch.compile.record.inputs import (
    LARGEST,
    ArrayInput,
    GradInput,
    NumberInput,
    ScalarInput,
    Visitor,
    captured,
    of,
)
from jtorch.compile.record.returned import Output
from jtorch.compile.record.shared_memory import disjoint, owners
from jtorch.compile.record.tree import unflatten
from jtorch.compile.run.caller_guards import Guarded, number_text
from jtorch.compile.run.lines import About, Line, Mark, Return, deeper, function_of
from jtorch.core import op as op_module
from jtorch.core.device_array import in_order
from jtorch.core.errors import CompileError, CudaError, FailedCheck, OtherBranch
from jtorch.core.failure import FailureKind
from jtorch.core.op import Context
from jtorch.core.strides import can_be_written, takes_sums
from jtorch.eager import tensor as tensors
from jtorch.eager.evaluate import EAGER
from jtorch.eager.rebase import NOTED, tell_each
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.eager.tensor import Tensor, wrap

MISS = object()  # the answer of a plan whose guards don't hold

_SIGNS = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=",
}  # fmt: skip


def make(plan: Any, leaves: list[Any], context: Context) -> tuple[list[Line], Callable[[tuple], Any]]:
    """The function ``call(leaves)`` of a plan: its lines, and itself."""
    writer = _Caller(plan, leaves, context)
    lines = writer.written()
    return lines, function_of(lines, writer.names)


class _Caller(Guarded, Visitor[str]):
    def __init__(self, plan: Any, leaves: list[Any], context: Context) -> None:
        super().__init__(plan, leaves, context)
        self.gradients: dict[int, str] = {}  # id of an input that is a gradient -> its name here
        self.numbers: dict[Any, str] = {}  # where a float of the call lies -> its name here
        self.joint: list[FormulaTest] = []
        self.late: list[str] = []  # what follows the replay: writing staged copies back
        self.views: dict[tuple, str] = {}  # results that are views on the tape -> their names here
        self.names |= {
            "CONTEXT": op_module.CONTEXT, "SAVED_HOOKS": IN_FORCE, "EAGER": EAGER,
            "MISS": MISS, "OtherBranch": OtherBranch,
            "Tensor": Tensor, "wrap": wrap, "leaf": tensors.leaf, "plan": plan,
            "empty": np.empty, "there": plan.empty_there, "run": plan.runner.run,
            "clock": plan.clock, "gradients": plan.gradients, "fail": lambda s: fail(plan, s),
            "stop": lambda error: stop(plan, error),
            "replay": plan.runner, "give_back": give_back, "put_back": put_back,
            "in_order": in_order, "unflatten": unflatten, "structure": plan.capture.structure,
        }  # fmt: skip

    def written(self) -> list[Line]:
        """All lines of the function."""
        self.guard()
        self.lines.append(Mark("marshal"))
        arguments = [self._argument(entry) for entry in self.plan.wiring.order]
        self._joint_guards()
        self._gradients_apart()
        self.lines.append(Mark("kernels"))
        guards, self.lines = self.lines, []
        run = "run" if self.sizing is None else "made.run"
        self._run(f"{run}({', '.join(arguments)})")
        self.lines.append(Mark("wrap"))
        self._after()
        self.add(f"returned = {self._returned()}")
        for k in self.plan.capture.detached:  # what was computed before that hangs on its graph
            self.add(f"a{k}.detach_()")
        self.add("if stopped is not None: raise stopped")
        self.lines.append(Return("returned"))
        if self.plan.wiring.counters or not self.plan.runner.is_atomic:  # Ctrl-C may come as it lets go, too
            self.lines = [Line("with replay.alone:"), *deeper(self.lines)]
        return guards + self.lines

    def _run(self, call: str) -> None:
        """The replay, and what puts back gradients and generators where it fails. Ctrl-C that comes when it
        has ended, before its status is known, is kept until all that follows it is done.

        What is more than one native call belongs to one thread at a time: the words of scalars and counters,
        the arena, the error.
        """
        lines, undo = self._draws()
        tries = [f"status = {call}", "if not status: clock.count += 1"]
        if self.plan.gradients.slots:
            # right before the call: no other thread comes in between and takes a gradient
            lines.insert(0, "before = ()")
            tries.insert(0, "while gradients.stale: before = (*gradients.refresh(), *before)")
            undo.insert(0, "gradients.restore(before)")
        lines += ["stopped = None", "try:", *(f"    {line}" for line in tries)]
        lines += ["except BaseException as error:", "    if replay.ended == clock.count:"]
        lines += [f"        {line}" for line in (*undo, "stop(error)")]
        lines += ["    status, stopped = 0, error", "    clock.count += 1"]
        if self.sizing is not None:
            undo.append("replay.failed = made")
        lines += ["if status:", *(f"    {line}" for line in (*undo, "fail(status)"))]
        self.lines += map(Line, lines)

    # -- marshalling ---------------------------------------------------------------------------------------

    def _argument(self, entry: Any) -> str:
        """The expression of one argument of the executor, after the lines that it needs."""
        if not isinstance(entry, tuple):
            return entry.visit(self)
        index = entry[1]
        type = self.output_type(index)
        dtype = self.name("D", type.dtype)
        empty = "there" if self.plan.lies_there(index) else "empty"
        self.add(f"r{index} = {empty}({type.shape}, {dtype})")
        return f"r{index}"

    def array(self, entry: ArrayInput) -> str:
        if entry.rebound is not None:
            return self.own[id(entry.rebound)]
        if entry.argument is None:
            return self._staged(self.name("k", entry.array), entry)
        k = entry.argument
        array = self.leaves[k]._data
        return f"d{k}" if array.flags.c_contiguous else self._staged(f"d{k}", entry)

    def _staged(self, source: str, entry: ArrayInput) -> str:
        staged = self.name("o", None)
        self.add(f"{staged} = in_order({source})")
        self.plan.wiring.binding.keep.append(entry.array)
        if entry.written:
            self.late.append(f"{source}[...] = {staged}")
        return staged

    def output_type(self, index: int) -> Any:
        outputs = self.plan.program.graph.outputs
        if index < self.plan.capture.n_results:
            return outputs[index].type
        place = {(d.kind, d.index): k for k, d in enumerate(self.plan.destinations)}
        return outputs[place[Use.RESULT, index]].type

    def scalar(self, entry: ScalarInput) -> str:
        if entry.argument is not None:
            value = f"a{entry.argument}"
        else:
            value = self.name("s", None)
            container = self.name("h", entry.container)
            self.add(f"{value} = {container}{''.join(f'[{k!r}]' for k in entry.path)}", state=True)
            self.add(f"if {value}.__class__ is not float: {value} = float({value})", state=True)
        self.numbers[entry.origin] = value
        for asked in dict.fromkeys(entry.guards):
            if isinstance(asked, FormulaTest):
                self.joint.append(asked)
                continue
            if asked.test is math.copysign:
                self.names["copysign"] = math.copysign
                text = f"copysign(1.0, {value}) == {asked.other}"
            else:
                holds = f"{value} {_SIGNS[asked.test]} {number_text(asked.other)}"
                text = holds if asked.outcome else f"not {holds}"
            self.miss_unless(About.NUMBER, text, entry.argument is None, asked.source, branches=entry.drawn)
        return value

    def _joint_guards(self) -> None:
        """Those that several numbers of the call answer together."""
        for asked in dict.fromkeys(self.joint):
            left, right = self._formula(asked.left), self._formula(asked.right)
            holds = f"{left} {_SIGNS[asked.test]} {right}"
            text = holds if asked.outcome else f"not {holds}"
            self.miss_unless(About.NUMBER, text, asked.reads_state, asked.source)

    def _formula(self, formula: Any) -> str:
        """Python for a number that was computed from some of the call, by their names here."""
        if isinstance(formula, Formula):
            texts = [*map(self._formula, formula.operands)]
            return f"({f' {formula.sign} '.join(texts) if len(texts) > 1 else formula.sign + texts[0]})"
        return self.numbers[formula] if isinstance(formula, tuple) else number_text(formula)

    def number(self, entry: NumberInput) -> str:
        if entry.argument is not None:
            self.names["as_array"], array = np.array, self.name("n", None)
            self.add(f"{array} = as_array(a{entry.argument}, {self.name('D', entry.var.dtype)})")
            return array
        value, array = self.name("v", None), self.name("n", None)
        self.add(f"{value} = {self.name('h', entry.place.get)}()", state=True)
        small = "" if entry.kind is float else f" and {-LARGEST} <= {value} <= {LARGEST}"
        self.miss_unless(About.NUMBER, f"{value}.__class__ is {entry.kind.__name__}{small}", state=True)
        self.names["as_array"] = np.array
        self.add(f"{array} = as_array({value}, {self.name('D', entry.var.dtype)})", state=True)
        return array

    def grad(self, entry: GradInput) -> str:
        value = self.name("q", None)
        if not entry.present:
            empty = "there" if self.plan.capture.device is not None else "empty"
            self.add(f"{value} = {empty}({entry.var.shape}, {self.name('D', entry.var.dtype)})")
            return value
        grad = self.gradients[id(entry)] = self.name("p", None)
        self.add(f"{grad} = {self.tensor(entry.tensor)}.grad", state=True)
        self.add(f"{value} = in_order({grad}._data)", state=True)
        dtype = self.name("D", entry.var.dtype)
        alike = f"{value}.shape == {entry.var.shape} and {value}.dtype == {dtype}"
        self.miss_unless(About.GRADIENT, f"{grad}._requires_grad is False and {alike}", state=True)
        if entry.written:
            self.names["can_be_written"] = can_be_written
            self.miss_unless(About.GRADIENT, f"can_be_written({grad}._data)", state=True)
        elif not entry.takes_sums:
            self.names["takes_sums"] = takes_sums
            self.miss_unless(About.GRADIENT, f"not takes_sums({grad}._data)", state=True)
        return value

    def _gradients_apart(self) -> None:
        """Gradients that are changed in place share no memory with what else goes in."""
        inputs = self.plan.capture.inputs
        self._gradients_have_one_name()
        written = {id(entry) for entry, _ in self.plan.grad_writes}
        if not written:
            return
        names = "".join(f"{self.gradients[k]}._data, " for k in written)
        others = [f"{n}._data" for k, n in self.gradients.items() if k not in written]
        arrays = of(ArrayInput, inputs)
        others += self.own.values()
        others += [f"d{k}" for k in sorted({e.argument for e in arrays if e.argument is not None})]
        self.names["disjoint"] = disjoint
        outside = self.name("A", owners(e.array for e in captured(inputs)))
        test = f"disjoint(({names}), {outside}, ({''.join(f'{o}, ' for o in others)}))"
        self.miss_unless(About.MEMORY, test, state=True)

    def _gradients_have_one_name(self) -> None:
        """None of them is another, an argument, or a tensor that the function reads otherwise."""
        if not self.gradients:
            return
        places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        ids = [f"id({name})" for name in self.gradients.values()]
        one_each = {id(self.leaves[k]): f"id(a{k})" for k in places}.values()
        if len(ids) + len(one_each) > 1:
            together = ", ".join([*ids, *one_each])
            self.miss_unless(About.GRADIENT, f"len({{{together}}}) == {len(ids) + len(one_each)}", state=True)
        read = [r.value for r in self.plan.capture.plain if isinstance(r.value, Tensor)]
        if read:
            known = self.name("known", frozenset(map(id, read)))
            self.miss_unless(About.GRADIENT, f"{known}.isdisjoint(({', '.join(ids)}, ))", state=True)

    def _draws(self) -> tuple[list[str], list[str]]:
        """(lines that hand the generators' positions over and move them on, lines that take that back)."""
        lines, undo = [], []
        for word, entry in self.plan.wiring.counters:
            if entry.attribute != "call":
                array, generator = self.name("w", word), self.name("G", entry.generator)
                lines.append(f"{array}[0] = {generator}.{entry.attribute}")
        drawn = {id(generator): count for generator, count in self.plan.capture.effects.draws}
        for word, entry in self.plan.wiring.counters:
            if entry.attribute == "call":
                array, generator = self.name("w", word), self.name("G", entry.generator)
                call, count = self.name("n", None), drawn[id(entry.generator)]
                lines.append(f"{array}[0] = {call} = {generator}.call")
                lines.append(f"{generator}.call = {call} + {count}")
                undo.append(f"give_back({generator}, {call}, {count})")
        for seeded, (key, call) in self.plan.capture.effects.seeds:
            generator, before = self.name("G", seeded), self.name("n", None)
            lines.append(f"{before} = {generator}.key, {generator}.call")
            lines.append(f"{generator}.key, {generator}.call = {key}, {call}")
            undo.insert(0, f"put_back({generator}, {before}, ({key}, {call}))")  # it may have drawn before
        return lines, undo

    # -- afterwards ------------------------------------------------------------------------------------------

    def _tell(self, written: list[str]) -> None:
        """Lines that tell of writes to arguments, whose cells these are, and to what lies outside."""
        outside = [e for e in self.plan.capture.effects.writes if e.argument is None]
        written = [*written, *(self.name("c", cell) for e in outside for cell in e.cells.values())]
        if written:
            self.names["tell_each"], noted = tell_each, self.name("noted", NOTED)
            self.add(f"if {noted}: tell_each(({', '.join(written)},))")

    def _after(self) -> None:
        for line in self.late:
            self.add(line)
        advances = self.plan.capture.effects.advances
        cells = {c for entry in self.plan.capture.effects.writes for c in entry.cells}
        written: list[str] = []
        for tensor in {id(t): t for t in self.plan.capture.traced.values()}.values():
            if id(tensor._cell) in cells:
                self.add(f"{self.tensor(tensor)}._cell[0] += {advances[id(tensor._cell)]}")
                written.append(f"{self.tensor(tensor)}._cell")
        self._tell(written)
        for entry, index in self.plan.grad_writes:
            grad = self.gradients[id(entry)]
            self.add(f"{grad}._data[...] = r{index}")
            self.add(f"{grad}._cell[0] += {entry.advances}")
        for k, flag in self.plan.capture.toggled.items():
            if k not in self.plan.capture.detached:
                self.add(f"a{k}.requires_grad_({flag})")
        for tensor, grad, shown in self.plan.capture.effects.shared_grads:
            made = self.tensor(grad) if shown is None else shown.text(self)
            self.add(f"{self.tensor(tensor)}.grad = {made}")
        for k, index in self.plan.grad_outputs:
            self.add(f"a{k}.grad = wrap(r{index})")
        for tensor in self.plan.cleared:
            self.add(f"{self.tensor(tensor)}.grad = None")

    def _returned(self) -> str:
        results = self.plan.capture.results
        if self.plan.capture.needs_containers:
            self.add("containers, leaves = leaves.containers, tuple(leaves)")
        if len(results) == 1 and isinstance(results[0], Output):
            values = [results[0].text(self)]
        else:
            values = [f"y{k}" for k in range(len(results))]
            for k in sorted(range(len(results)), key=lambda k: results[k].order):
                self.add(f"y{k} = {results[k].text(self)}")
        if self.plan.backward is not None:
            n = self.plan.first_saved
            self.names["attach"] = self.plan.backward.attach
            arrays = "".join(f"r{k}, " for k in range(n, n + self.plan.backward.n_saved))
            tensors = "".join(f"{v}, " for v in values)
            self.add(f"results = [{tensors}]")
            capture = self.plan.capture
            found = capture.replaced or capture.opened or capture.drawn
            if found or any(map(is_lent, self.leaves)):
                self.add(f"leaves = ({''.join(f'a{k}, ' for k in range(len(self.leaves)))})")
            sizes = "" if self.sizing is None else f", ({''.join(f'{s}, ' for s in self.symbols)})"
            self.add(f"attach(leaves, results, [{arrays}]{sizes})")
            return self._finished("unflatten(structure, results)")
        if self.plan.capture.structure == "*":
            return self._finished(values[0])
        return self._finished(f"unflatten(structure, [{', '.join(values)}])")

    def _finished(self, returned: str) -> str:
        """What is returned, once what the function writes outside is written."""
        capture = self.plan.capture
        if capture.written or capture.sets_grads:
            finish = finisher(capture.written, capture.constants, capture.sets_grads)
            returned = f"{self.name('finish', finish)}({returned})"
        if capture.changes:
            returned = f"{self.name('change', changer(capture.changes))}({returned}, containers)"
        return returned

    def keep(self, made: str) -> str:
        """A name for what the expression ``made`` gives."""
        name = self.name("f", None)
        self.add(f"{name} = {made}")
        return name


def put_back(generator: Any, before: tuple[int, int], position: tuple[int, int]) -> None:
    """Undo that a replay that failed put it at ``position``, unless another thread moved it since."""
    if (generator.key, generator.call) == position:
        generator.key, generator.call = before


def give_back(generator: Any, call: int, drawn: int) -> None:
    """Undo the draws of a replay that failed, unless another thread drew since."""
    if generator.call == call + drawn:
        generator.call = call


def fail(plan: Any, status: int) -> None:
    """Raise the error that a kernel reported."""
    failure = plan.runner.failure(status)
    if failure.kind is FailureKind.BRANCH:
        raise OtherBranch
    stop(plan, failure.error())


def stop(plan: Any, error: BaseException) -> None:
    """Raise what ended a replay that wrote nothing: as ``FailedCheck`` where the function itself may run now.

    Not where a disabled callee or a collective has run already: it would again. Nor for what eager mode has
    no part in.
    """
    ours = isinstance(error, (OtherBranch, CompileError, CudaError, MemoryError))
    if isinstance(error, Exception) and not ours and not plan.capture.calls_out:
        raise FailedCheck(error) from None
    raise error
