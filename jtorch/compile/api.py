"""The function object that ``jtorch.compile`` gives."""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import operator
import os
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from jtorch.compile import debug, made_anew
from jtorch.compile.asking import Asks, BoundFunction
from jtorch.compile.decorator import P, R
from jtorch.compile.eager_calls import EagerCalls, Form, form_of
from jtorch.compile.graph.faults import fault_in, told
from jtorch.compile.inspect.facts import facts_of
from jtorch.compile.inspect.fitting import LastCall, failing_guard
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
from jtorch.compile.inspect.naming import labels_of, named_by
from jtorch.compile.inspect.verify import Verifier
from jtorch.compile.observe.attributes import CALLABLES
from jtorch.compile.observe.effects import Filling
from jtorch.compile.observe.reading import became
from jtorch.compile.observe.texts import ErrorText
from jtorch.compile.options import Options
from jtorch.compile.record.answers import one_recording
from jtorch.compile.record.arrays import given, lend_all
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
from jtorch.compile.record.tree import flatten_call
from jtorch.compile.record.trials import Resumed, Seen, Trial, Unseen
from jtorch.compile.run import targets
from jtorch.compile.run.caller import MISS
from jtorch.compile.run.compiled import CompiledPlan
from jtorch.compile.timings import Timings
from jtorch.core import config, op as op_module, progress
from jtorch.core.environment import Exact
from jtorch.core.errors import (
    CompileError,
    FailedCheck,
    InternalError,
    OtherBranch,
    RetraceError,
    RetraceWarning,
    VerifyError,
    add_line,
    name_line,
    user_source,
)
from jtorch.core.op import Context
from jtorch.eager import anomaly
from jtorch.eager.evaluate import EAGER
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.nn.utils.parametrize import CACHE

MANY = 5  # recordings of one function after which it is told how much they cost
_CANNOT_BE_RECORDED = "calls like it run eagerly; fullgraph=True makes an error of it"
_LOOKS = 10  # how often a call looks for its plan while other threads change what plans rely on
MAX_PLANS = 64  # per function; the least recently used one goes
FORGOTTEN = -1  # when such a plan was used

Q = ParamSpec("Q")
S = TypeVar("S")

FUNCTIONS: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()  # all there are, for ``reset``
HOLDERS: list[list[CompiledFunction]] = []  # lists of who wants to look at all that are made, later
_log = logging.getLogger("jtorch.compile")
_uses = itertools.count()  # tells which plan was used last
_recording = threading.RLock()  # one thread records at a time; a compiled function inside is part of that
_ordering = threading.RLock()  # and one changes which plans there are, in which order


def _fresh_locks() -> None:
    # A fork may come while another thread of the parent records; that thread does not exist in the child.
    global _recording, _ordering
    _recording, _ordering = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fresh_locks)


class _Shadowed:
    """A property that an attribute of an instance hides: users hang their own on functions."""

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.function(instance)


class CompiledFunction(Asks, Generic[P, R]):
    """A function that is recorded on its first call with arguments of a kind, and replayed after that.

    ``timings`` has the seconds of the latest compilation, ``graph()`` its IR, ``source()`` its kernels,
    ``retraces`` why it was recorded again. ``explain()`` tells what it does, ``stats()`` what it costs.
    """

    def __init__(self, function: Callable, options: Options | None = None) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.options = options or Options()
        self.verifier: Verifier | None = None
        self.reset()
        FUNCTIONS.add(self)
        for held in HOLDERS:
            held.append(self)

    def reset(self) -> None:
        """Forget every recording."""
        self.plans: dict[Any, list[CompiledPlan]] = {}
        self.timings = Timings()
        self.retraces = Ledger()
        self.last_call: LastCall | None = None  # the latest call that took the long way
        self.uncounted = 0  # replays that were measurements
        self._dropped_calls = 0  # of plans that are no more
        self._told_of_branches = False
        self._eagerly = EagerCalls(self.name)
        self._seen = Seen()  # functions that are disabled for compiling
        self.shared_code: types.CodeType | None = None  # of functions whose recordings it has, too
        self._made, self._spent = 0, 0.0  # how many recordings became plans, and the seconds they took
        self._recordings = 0
        self._moved = Moved()
        self._latest: CompiledPlan | None = None
        self._previous: LastCall | None = None  # of the plan that was the latest before
        self._signature: inspect.Signature | None = None
        if self.options.verify_every:
            self.verifier = Verifier(self.options.verify_every, dict(self.options.budget))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.shared_code is not None and not made_anew.is_like(self, self.shared_code):
            self.reset()
        latest = self._latest  # another thread may put a plan of its own there meanwhile
        try:
            if latest is not None and not kwargs:
                try:
                    result = latest.call(args)
                except OtherBranch:
                    return self._find(args, kwargs, latest)
                if result is not MISS:
                    return result
                previous = self._previous
                if previous is not None:
                    try:
                        result = previous.plan.call(args)
                    except OtherBranch:
                        return self._find(args, kwargs, previous.plan)
                    if result is not MISS:
                        self._use_again(previous)
                        return result
            return self._find(args, kwargs)
        except FailedCheck:
            pass  # and nothing was written: eager mode has the error, and what was done before it
        except Exception as error:
            fault = error if isinstance(error, InternalError) else fault_in(error, self.name)
            if fault is None:
                if type(error) is CompileError:
                    name_line(error, self.function)
                    if not self._is_whole:
                        self._seen.refuse(error)
                raise
            raise fault from fault.origin
        try:
            return self.function(*args, **kwargs)
        except Exception as error:
            add_line(error)
            raise

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: CompiledFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> CompiledFunction[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "function" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.function, name)

    def __reduce__(self) -> Any:  # a copy, or what is unpickled, records for itself
        return CompiledFunction, (self.function, self.options)

    # -- finding or making a plan --------------------------------------------------------------------------

    def _find(self, args: tuple, kwargs: dict[str, Any], other: CompiledPlan | None = None) -> Any:
        """Run a call by the plan that takes it, made where there is none; not by ``other``, which stopped."""
        context = op_module.CONTEXT.get()
        if self.options.disabled or context.evaluator is not EAGER or not config.get("COMPILE"):
            return self.function(*args, **kwargs)  # inside another trace it is part of that one
        if not kwargs and self._eagerly.has_again(args, context):
            return self.function(*args)
        if anomaly.ACTIVE or IN_FORCE.get() or CACHE.depth:  # all of which see each op
            return self.function(*args, **kwargs)
        start = time.perf_counter()
        args, kwargs = self._positional(args, kwargs)
        try:
            leaves, structure = flatten_call(args, kwargs)
            leaves[:] = lend_all(leaves, self.name)
        except CompileError as error:
            if self._is_whole:
                raise
            self._tell_of_eager(error, 0.0)
            return self.function(*args, **kwargs)
        plans = self.plans.setdefault(structure, [])
        for _ in range(_LOOKS):
            recordings = self._recordings
            ways = 0 if other is None else 1
            for plan in tuple(plans):
                try:
                    result = MISS if plan is other else self._replay(plan, leaves, args, kwargs)
                except OtherBranch:
                    ways += 1
                    continue
                if result is not MISS:
                    self._use(plan, plans, args, leaves, structure)
                    return result
            flat = len(args) == len(leaves) and all(map(operator.is_, args, leaves))
            if self._eagerly.has(leaves, structure, context, flat, not plans):
                return self.function(*args, **kwargs)
            if self._branches_too_often(ways):
                return self.function(*args, **kwargs)
            with one_recording():
                with _recording:
                    if self._recordings != recordings:
                        continue  # another thread recorded, perhaps this very call
                    with progress.of(self.name):
                        recorded = self._record(leaves, structure, plans)
                    self._recordings += 1
                if isinstance(recorded, (Trial, Resumed)):
                    with recorded.watching():
                        return self.function(*args, **kwargs)
                if recorded is None:
                    return self.function(*args, **kwargs)
                found, made = recorded
                self._use(found, plans, args, leaves, structure)
                result = self._first_replay(found, made, leaves, args, kwargs)
            if result is not MISS:
                if not found.timings.first_call:  # else it was confirmed
                    found.timings.first_call = time.perf_counter() - start
                return result
            if not found.news:  # else another thread changed something: look again
                raise _not_accepted(found, leaves, self.name)
        return self.function(*args, **kwargs)

    def _branches_too_often(self, ways: int) -> bool:
        """Whether a call of yet another way through the branches runs eagerly, which is told once."""
        if ways < self.options.max_branches:
            return False
        if not self._told_of_branches:
            self._told_of_branches = True
            warnings.warn(
                f"'{self.name}' has gone {ways} ways through its branches, the most that are compiled "
                "(max_branches): calls that go another way run eagerly. Compute both ways and choose by "
                "jtorch.where, or compile the parts between the branches.",
                stacklevel=4,
            )
        return True

    def _first_replay(
        self, plan: CompiledPlan, made: Capture, leaves: list[Any], args: tuple, kwargs: dict[str, Any]
    ) -> Any:
        """The call of which ``made`` is the recording; in eager mode where rounding decides the way that it
        goes, and kernels round otherwise."""
        try:
            result = self._replay(plan, leaves, args, kwargs)
        except (OtherBranch, FailedCheck) as error:  # eager mode does all that the recording has done
            made.journal.undo()
            plan.subscription.expire("what its recording has changed")
            if isinstance(error, FailedCheck):
                raise
            return self.function(*args, **kwargs)
        plan.holds_for_one_call(made)
        if plan.once:  # it has set modes that it was recorded without: look again
            plan.subscription.expire("modes that it sets")
        return result

    def _replay(self, plan: CompiledPlan, leaves: list[Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        if self.verifier is None:
            return plan.replay(leaves)
        try:
            return self.verifier.call(
                plan, leaves, lambda: self.function(*args, **kwargs), lambda: named_by(self.function)
            )
        except VerifyError as error:
            told = self._difference(plan, leaves, flatten_call(args, kwargs)[1])
            raise VerifyError(f"{error}\n{told}" if told else str(error)) from None

    def recorded(self, leaves: list[Any], structure: Any) -> Capture:
        """A recording of a call as the state is now, of which nothing stays."""
        with _recording, one_recording():
            made = capture(self.function, leaves, structure, op_module.CONTEXT.get(), self.name)
            made.journal.undo()
        return made

    def _difference(self, plan: CompiledPlan, leaves: list[Any], structure: Any) -> str:
        from jtorch.compile.inspect.retrace_check import difference

        with _recording:
            return difference(plan, self.function, leaves, structure, op_module.CONTEXT.get())

    def _positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Keyword arguments where their position is known: ``f(x, y=y)`` is the same call as ``f(x, y)``."""
        if not kwargs:
            return args, kwargs
        if self._signature is None:
            self._signature = inspect.signature(self.function)
        bound = self._signature.bind(*args, **kwargs)
        return bound.args, bound.kwargs

    def _record(
        self, leaves: list[Any], structure: Any, plans: list[CompiledPlan]
    ) -> tuple[CompiledPlan, Capture] | Trial | Resumed | None:
        """A plan for a call that no plan takes, and its recording. None where it runs eagerly: ``on_retrace``
        says so, it makes an object that later calls find, or raises an error whose text tells elements. How
        it does where a disabled function is to be seen at work, or has run already."""
        context = op_module.CONTEXT.get()
        form = form_of(leaves, context)
        facts = facts_of(self.function, leaves, structure, context)
        known = plans or [plan for some in tuple(self.plans.values()) for plan in some]
        labels = labels_of(structure, self.function)
        changes = causes(known, leaves, facts, labels, self.retraces) if known else ()
        refused = self.options.on_retrace in ("raise", "eager") and known
        if refused and any(c.before != c.after for c in changes):
            self._refuse(changes, 0.0)
            return None
        moving = STILL if self.options.dynamic is False else self._moved.with_call(structure, leaves)
        timings = Timings()
        try:
            recorded = self._recorded(
                leaves, structure, plans, labels, context, moving, timings, changes, bool(refused)
            )  # fmt: skip
        except (Filling, ErrorText):  # what it does is not what a later call does
            return None
        except Unseen:
            return Trial(self._seen)
        except LaterError as found:
            self._leave_to_backward(found, structure, form, timings)
            return None
        except CompileError as error:
            if type(error) is not CompileError or error.final or self._is_whole:
                error.read = ()  # which would live as long as the error
                raise
            name_line(error, self.function)
            self._eagerly.refuse(error, structure, form)
            self._tell_of_eager(error, timings.total)
            if not error.answers:
                return None
            self._seen.avoid(str(error))
            return Resumed(error)
        if recorded is None:
            return None
        plan, made = recorded
        plan.facts = facts
        self._moved.recorded(structure, moving, made)
        return plan, made

    def _tell_of_eager(self, error: CompileError, seconds: float) -> None:
        """Once for each place that a call runs eagerly."""
        if self._eagerly.tell(error):
            self._note((Change(str(error), "", "", _CANNOT_BE_RECORDED),), "eager", seconds, 0)

    @property
    def _is_whole(self) -> bool:
        """Whether what cannot be recorded is an error."""
        fullgraph = self.options.fullgraph
        return bool(config.get("FULLGRAPH")) if fullgraph is None else fullgraph

    def _recorded(
        self, leaves: list[Any], structure: Any, plans: list[CompiledPlan], labels: list[str],
        context: Context, moving: Moving, timings: Timings, changes: tuple[Change, ...], refused: bool,
    ) -> tuple[CompiledPlan, Capture] | None:  # fmt: skip
        """A plan for as many calls as may be, and the recording that it is made of. None where another
        recording is refused, or a check fails of what is known already: eager mode says so."""
        sizing, why = self._sizing(leaves, moving), ""
        is_cpu = targets.chosen(self.options.interpreted) is targets.CPU
        masks = APART if is_cpu else Masks(Counted.EXACT)
        may_wait = True
        while True:
            with timings.measure("trace"):
                made = capture(
                    self.function, leaves, structure, context, self.name, varying(plans), may_wait=may_wait,
                    sizing=sizing, moving=moving, masks=masks, whole=self._is_whole,
                    seen=None if self._is_whole else self._seen,
                )  # fmt: skip
            made.why_exact = made.why_exact or why or moving.why_exact
            try:
                plan = self._plan_of(made, leaves, labels, plans, context, timings, changes, refused)
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

    def _leave_to_backward(self, found: LaterError, structure: Any, form: Form, timings: Timings) -> None:
        """Note, once, that calls of this ``form`` run eagerly: the error belongs to their backward()."""
        self._eagerly.add(found, structure, form)
        advice = "calls like it run eagerly, without another recording, and backward() raises that"
        self._note((Change(found.what, "", "", advice),), "eager", timings.total, 0)

    def _sizing(self, leaves: list[Any], moving: Moving) -> Sizings | None:
        """What says which sizes of these arguments are symbols; None where all are numbers."""
        every = self.options.dynamic
        axes: Axes = frozenset() if moving.why_exact else moving.axes
        if every is False or not (every or axes or are_marked(leaves)):
            return None
        return lambda fixed, integers: sizing_of(leaves, bool(every), axes, integers, fixed)

    def _plan_of(
        self, made: Capture, leaves: list[Any], labels: list[str], plans: list[CompiledPlan],
        context: Context, timings: Timings, changes: tuple[Change, ...], refused: bool,
    ) -> CompiledPlan | None:  # fmt: skip
        if made.error is not None and made.device is not None:
            return None  # eager mode says so
        if made.error is not None:
            self._raise(made.error, CompiledPlan(made, leaves, context, timings, targets.INTERPRETER), leaves)
        told = {id(p): p.told() for p in plans}  # before one of them subscribes anew
        plan = next((p for p in plans if p.accepts_again(made, leaves, context)), None)
        outcome = "recorded" if plan is None else "confirmed"
        if plan is None:
            if refused:
                self._refuse(changes, timings.trace)
                return None
            plan = self._compile(made, leaves, timings, plans)
        if changes:
            if outcome == "confirmed":
                changes = confirmed(changes, told[id(plan)])
            else:
                changes = with_plan(changes, made, labels, self.options.dynamic is not False)
            self._note(changes, outcome, timings.total, timings.kernels_compiled)
        if outcome == "recorded":
            self._count(changes, timings.total)
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

    def _compile(
        self, made: Capture, leaves: list[Any], timings: Timings, plans: list[CompiledPlan]
    ) -> CompiledPlan:
        target = targets.chosen(self.options.interpreted, made.device)
        with told(self.name):
            plan = CompiledPlan(made, leaves, op_module.CONTEXT.get(), timings, target)
        if not any(self.plans.values()):
            _log.info("compiled '%s': %s", self.name, debug.one_line(plan.program, timings))
        self.timings = timings
        plan.number = self._made + 1
        with _ordering:
            plans.append(plan)
        self._eagerly.plan_is_made()
        return plan

    def _refuse(self, changes: tuple[Change, ...], seconds: float) -> None:
        outcome = "eager" if self.options.on_retrace == "eager" else "raised"
        entry = self._note(changes, outcome, seconds, 0)
        if outcome == "raised":
            raise RetraceError(str(entry))

    def _note(self, changes: tuple[Change, ...], outcome: str, seconds: float, kernels: int) -> Retrace:
        entry = Retrace(self.name, changes, user_source(), outcome, seconds * 1e3, kernels)
        tell(self, entry)
        if "retrace" in str(config.get("LOG")).split(","):
            _log.warning("%s", entry)
        if self.options.on_retrace == "warn":
            warnings.warn(str(entry), RetraceWarning, stacklevel=5)
        return entry

    def _use(
        self, plan: CompiledPlan, plans: list[CompiledPlan], args: tuple, leaves: list[Any], structure: Any
    ) -> None:
        with _ordering:  # or a plan that another thread adds meanwhile would be lost
            if not plans or plans[0] is not plan:  # all at once: other threads read the list
                plans[:] = [plan, *(p for p in plans if p is not plan)]
            plan.used = next(_uses)
            self._forget_oldest()
        last, self.last_call = self.last_call, LastCall(plan, leaves, structure)
        flat = len(args) == len(leaves) and all(a is given(b) for a, b in zip(args, leaves, strict=True))
        flat = flat and structure[2][1][1] == ()  # an empty list passed by keyword is no leaf
        if self.verifier is not None and not self.verifier.done_with(plan):
            flat = False
        if last is not None and last.plan is self._latest and last.plan is not plan:
            self._previous = last
        if self._previous is not None and self._previous.plan.used == FORGOTTEN:
            self._previous = None
        self._latest = plan if flat else None

    def _use_again(self, previous: LastCall) -> None:
        """The plan before the latest takes a call: of two that take turns, both are at hand."""
        with _ordering:
            previous.plan.used = next(_uses)
            self._previous, self.last_call, self._latest = self.last_call, previous, previous.plan

    def _forget_oldest(self) -> None:
        """Drop the least recently used plans where there are more than ``MAX_PLANS``."""
        everywhere = tuple(self.plans.items())
        if sum(len(plans) for _, plans in everywhere) <= MAX_PLANS:
            return
        by_use = sorted(((p.used, s) for s, plans in everywhere for p in plans), key=operator.itemgetter(0))
        for used, structure in by_use[:-MAX_PLANS]:
            plans = self.plans.get(structure, [])  # another thread may forget them, too
            self._dropped_calls += sum(p.clock.count for p in plans if p.used == used)
            for plan in plans:
                if plan.used == used:
                    plan.used = FORGOTTEN
            plans[:] = [p for p in plans if p.used != FORGOTTEN]
            if not plans:
                self.plans.pop(structure, None)

    # -- looking inside --------------------------------------------------------------------------------------

    @_Shadowed
    def calls(self) -> int:
        """How many calls were replays so far."""
        held = sum(p.clock.count for plans in tuple(self.plans.values()) for p in plans)
        return self._dropped_calls + held - self.uncounted


CALLABLES.add(CompiledFunction)  # on which users hang attributes


def _not_accepted(plan: CompiledPlan, leaves: list[Any], name: str) -> Exception:
    """Why a plan that was just made does not take its own call: what it read has changed since."""
    for read in plan.capture.plain:
        if not read.holds():
            return CompileError(
                f"{read.source}: '{name}' reads {read.label()}, which changed right after it was recorded "
                f"({became(read)}): by a finalizer (__del__) of something that the function made, or by "
                "another thread. Read it outside, and pass it in."
            )
    guard = failing_guard(plan, leaves)
    why = "" if guard is None else guard.text
    return AssertionError(f"'{name}': a plan just made does not accept its own arguments: {why}")
