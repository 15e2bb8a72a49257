"""Who records the calls of one compiled function that no plan takes, and what it has learned of them."""

from __future__ import annotations

import logging
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jtorch.compile import debug
from jtorch.compile.eager_calls import EagerCalls, Form, form_of
from jtorch.compile.graph.faults import told
from jtorch.compile.inspect.facts import facts_of
from jtorch.compile.inspect.ledger import (
    Change,
    Ledger,
    Retrace,
    causes,
    confirmed,
    in_words,
    tell,
    with_plan,
)  # fmt: skip
from jtorch.compile.inspect.naming import labels_of
from jtorch.compile.observe.effects import Filling
from jtorch.compile.observe.texts import ErrorText
from jtorch.compile.record.answers import hand_over
from jtorch.compile.record.capture import Capture, capture
from jtorch.compile.record.deferred_backward import LaterError
from jtorch.compile.record.opened import varying
from jtorch.compile.record.sizing import (
    APART,
    STILL,
    Axes,
    Counted,
    Masks,
    Moved,
    Moving,
    Sizings,
    are_marked,
    sizing_of,
)
from jtorch.compile.record.trials import Resumed, Seen, Trial, Unseen
from jtorch.compile.run import targets
from jtorch.compile.run.caller import MISS
from jtorch.compile.run.compiled import CompiledPlan
from jtorch.compile.timings import Timings
from jtorch.core import config, op as op_module
from jtorch.core.collector import seldom_collected
from jtorch.core.environment import Exact
from jtorch.core.errors import (
    CompileError,
    FailedCheck,
    RetraceError,
    RetraceWarning,
    name_line,
    user_source,
)
from jtorch.core.op import Context

if TYPE_CHECKING:
    from jtorch.compile.api import CompiledFunction

MANY = 5  # recordings of one function after which it is told how much they cost
_CANNOT_BE_RECORDED = "calls like it run eagerly; fullgraph=True makes an error of it"
_log = logging.getLogger("jtorch.compile")


@dataclass(slots=True)
class _Call:
    """A call that is recorded: its arguments, the plans for its ``structure``, and why none takes it."""

    leaves: list[Any]
    structure: Any
    plans: list[CompiledPlan]
    is_first: bool  # of all calls of this function
    labels: list[str]
    context: Context
    changes: tuple[Change, ...]
    is_refused: bool  # a plan that is known may take it again, and no other is made
    timings: Timings


class Recorder:
    """That of ``compiled``."""

    def __init__(self, compiled: CompiledFunction) -> None:
        self._compiled = weakref.ref(compiled)  # no cycle: it goes with its function
        self.name, self.function, self.options = compiled.name, compiled.function, compiled.options
        self.ledger = Ledger()
        self.eagerly = EagerCalls(self.name)
        self.seen = Seen()  # functions that are disabled for compiling
        self._moved = Moved()
        self._made, self._spent = 0, 0.0  # how many recordings became plans, and the seconds they took

    def share(self, other: Recorder) -> None:
        """Have learned what ``other`` has, and will."""
        self.ledger, self.seen, self._moved = other.ledger, other.seen, other._moved

    def record(
        self, leaves: list[Any], structure: Any, plans: list[CompiledPlan], others: list[CompiledPlan]
    ) -> tuple[CompiledPlan, Capture] | Trial | Resumed | None:
        """A plan for a call that no plan takes, and its recording. None where it runs eagerly: ``on_retrace``
        says so, it makes an object that later calls find, or raises an error whose text tells elements. How
        it does where a disabled function is to be seen at work, or has run already."""
        context = op_module.CONTEXT.get()
        form = form_of(leaves, context)
        facts = facts_of(self.function, leaves, structure, context)
        known = plans or others
        labels = labels_of(structure, self.function)
        changes = causes(known, leaves, facts, labels, self.ledger) if known else ()
        refused = bool(known) and self.options.on_retrace in ("raise", "eager")
        if refused and any(c.before != c.after for c in changes):
            self._refuse(changes, Timings())
            return None
        moving = STILL if self.options.dynamic is False else self._moved.with_call(structure, leaves)
        call = _Call(leaves, structure, plans, not known, labels, context, changes, refused, Timings())
        try:
            with seldom_collected():
                recorded = self._recorded(call, moving)
        except (Filling, ErrorText):  # what it does is not what a later call does
            return None
        except Unseen:
            return Trial(self.seen)
        except LaterError as found:
            self._leave_to_backward(found, structure, form, call.timings)
            return None
        except CompileError as error:
            if type(error) is not CompileError or error.final or self.is_whole:
                error.read = ()  # which would live as long as the error
                raise
            name_line(error, self.function)
            self.eagerly.refuse(error, structure, form)
            self.tell_of_eager(error, call.timings)
            if not error.answers:
                return None
            self.seen.avoid(str(error))
            return Resumed(error)
        if recorded is None or isinstance(recorded, Resumed):
            return recorded
        plan, made = recorded
        plan.facts = facts
        self._moved.recorded(structure, moving, made)
        return plan, made

    def give_up(self, times: int, leaves: list[Any], structure: Any, context: Context) -> None:
        """Have calls like this one run eagerly: none of so many recordings held until its end."""
        if self.is_whole:
            return
        error = CompileError(
            f"'{self.name}': each of {times} recordings goes by something that had changed by its end"
        )
        self.eagerly.refuse(error, structure, form_of(leaves, context))
        self.tell_of_eager(error, Timings())

    def tell_of_eager(self, error: CompileError, timings: Timings) -> None:
        """Once for each place that a call runs eagerly."""
        if self.eagerly.tell(error):
            self._note((Change(str(error), "", "", _CANNOT_BE_RECORDED),), "eager", timings)

    @property
    def is_whole(self) -> bool:
        """Whether what cannot be recorded is an error."""
        fullgraph = self.options.fullgraph
        return bool(config.get("FULLGRAPH")) if fullgraph is None else fullgraph

    def _recorded(self, call: _Call, moving: Moving) -> tuple[CompiledPlan, Capture] | Resumed | None:
        """A plan for as many calls as may be, and the recording that it is made of. None where another
        recording is refused, or a check fails of what is known already: eager mode says so, as it does how a
        function of tensors on a device raises."""
        sizing, why = self._sizing(call.leaves, moving), ""
        any_sizes = targets.chosen(self.options.interpreted).of_sizes is not None
        masks = APART if any_sizes else Masks(Counted.EXACT)
        may_wait = True
        while True:
            with call.timings.measure("trace"):
                made = capture(
                    self.function, call.leaves, call.structure, call.context, self.name, varying(call.plans),
                    may_wait=may_wait, sizing=sizing, moving=moving, masks=masks, whole=self.is_whole,
                    seen=None if self.is_whole else self.seen,
                )  # fmt: skip
            made.why_exact = made.why_exact or why or moving.why_exact
            if made.error is not None and made.device is not None:
                made.journal.undo()
                return self._raised_in_eager_mode(made)
            try:
                plan = self._plan_of(made, call)
            except Exact as error:  # no plan for any of these sizes: one for fewer of them
                made.journal.undo()
                counted = made.sizing is not None and bool(made.sizing.counted)
                if counted and (closer := masks.closer(error)) is not None:
                    masks = closer
                else:
                    sizing, moving, why = None, STILL, str(error)
                may_wait = False
                continue
            except FailedCheck:
                made.journal.undo()
                return None
            except BaseException as error:
                if made.error is None:
                    made.journal.undo()
                if isinstance(error, CompileError):
                    error.final = error.final or made.calls_out or made.error is not None
                    error.read = made.plain
                raise
            if plan is None:
                made.journal.undo()
                return None
            return plan, made

    def _raised_in_eager_mode(self, made: Capture) -> Resumed | None:
        """What lets eager mode raise what a function of tensors on a device has raised; disabled functions
        that ran by then give it what they gave."""
        hand_over([], [])  # no replay takes that
        if made.answers == []:
            return None
        error = CompileError(
            f"'{self.name}' has raised {type(made.error).__name__} after it had called a function that is "
            "disabled for compiling, and eager mode, which is to do what it did before, cannot go on from "
            "there: it draws random numbers, or goes another way."
        )
        error.final = True
        if made.answers is None:
            raise error from made.error
        error.answers = made.answers
        return Resumed(error)

    def _leave_to_backward(self, found: LaterError, structure: Any, form: Form, timings: Timings) -> None:
        """Note, once, that calls of this ``form`` run eagerly: the error belongs to their backward()."""
        self.eagerly.add(found, structure, form)
        advice = "calls like it run eagerly, without another recording, and backward() raises that"
        self._note((Change(found.what, "", "", advice),), "eager", timings)

    def _sizing(self, leaves: list[Any], moving: Moving) -> Sizings | None:
        """What says which sizes of these arguments are symbols; None where all are numbers."""
        every = self.options.dynamic
        axes: Axes = frozenset() if moving.why_exact else moving.axes
        if every is False or not (every or axes or are_marked(leaves)):
            return None
        return lambda fixed, integers: sizing_of(leaves, bool(every), axes, integers, fixed)

    def _plan_of(self, made: Capture, call: _Call) -> CompiledPlan | None:
        leaves, changes, context = call.leaves, call.changes, call.context
        if made.error is not None:
            self._raise(
                made.error, CompiledPlan(made, leaves, context, call.timings, targets.INTERPRETER), leaves
            )
        texts = {id(p): p.told() for p in call.plans}  # before one of them subscribes anew
        plan = next((p for p in call.plans if p.accepts_again(made, leaves, context)), None)
        if plan is not None:
            if changes:
                self._note(confirmed(changes, texts[id(plan)]), "confirmed", call.timings)
            return plan
        if call.is_refused:
            self._refuse(changes, call.timings)
            return None
        plan = self._compile(made, call)
        if changes:
            changes = with_plan(changes, made, call.labels, self.options.dynamic is not False)
            self._note(changes, "recorded", call.timings)
        self._count(changes, call.timings.total)
        return plan

    def _raise(self, error: Exception, plan: CompiledPlan, leaves: list[Any]) -> None:
        """Raise what the function raised; what was done before it stays done, as in eager mode."""
        result = plan.replay(leaves)
        if result is MISS:
            raise CompileError(
                f"'{self.name}' raises {type(error).__name__} after it has changed what it asks of its "
                "arguments (._version): what it did before that cannot be done again. Ask it outside."
            ) from error
        if result is not None:  # numbers and tensors that the exception holds
            error.args, facts = result
            vars(error).update(facts)
        raise error

    def _count(self, changes: tuple[Change, ...], seconds: float) -> None:
        """Warn, once, of a function that is recorded again and again: each time costs as many calls."""
        self._made += 1
        self._spent += seconds
        if self._made != MANY + 1 or not changes:
            return
        where = user_source()
        warnings.warn_explicit(
            f"'{self.name}' has been recorded {self._made} times, which took {self._spent:.2f} s; the last "
            f"time because {in_words(changes)}. {changes[0].advice}. {self.name}.retraces lists them all; "
            'on_retrace="eager" runs calls that no recording fits uncompiled.',
            RetraceWarning, where.file, where.line,
        )  # fmt: skip

    def _compile(self, made: Capture, call: _Call) -> CompiledPlan:
        target = targets.chosen(self.options.interpreted, made.device)
        with told(self.name):
            plan = CompiledPlan(made, call.leaves, call.context, call.timings, target)
        if call.is_first:
            _log.info("compiled '%s': %s", self.name, debug.one_line(plan.program, call.timings))
        plan.number = self._made + 1
        self.eagerly.plan_is_made()
        return plan

    def _refuse(self, changes: tuple[Change, ...], timings: Timings) -> None:
        outcome = "eager" if self.options.on_retrace == "eager" else "raised"
        entry = self._note(changes, outcome, timings)
        if outcome == "raised":
            raise RetraceError(str(entry))

    def _note(self, changes: tuple[Change, ...], outcome: str, timings: Timings) -> Retrace:
        spent, kernels = timings.total * 1e3, timings.kernels_compiled
        entry = Retrace(self.name, changes, user_source(), outcome, spent, kernels)
        tell(self.ledger, self._compiled(), entry)
        if "retrace" in str(config.get("LOG")).split(","):
            _log.warning("%s", entry)
        if self.options.on_retrace == "warn":
            warnings.warn(str(entry), RetraceWarning, stacklevel=5)
        return entry
