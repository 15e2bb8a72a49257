"""The function object that ``jtorch.compile`` gives."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import os
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from jtorch.compile import made_anew
from jtorch.compile.asking import Asks, BoundFunction
from jtorch.compile.decorator import P, R
from jtorch.compile.graph.faults import fault_in
from jtorch.compile.inspect.fitting import LastCall, failing_guard
from jtorch.compile.inspect.ledger import Ledger
from jtorch.compile.inspect.naming import named_by
from jtorch.compile.inspect.verify import Verifier
from jtorch.compile.observe.attributes import CALLABLES
from jtorch.compile.observe.reading import became
from jtorch.compile.options import Options
from jtorch.compile.record.answers import one_recording
from jtorch.compile.record.arrays import given, lend_all
from jtorch.compile.record.capture import Capture, capture
from jtorch.compile.record.tree import flatten_call
from jtorch.compile.record.trials import Resumed, Trial
from jtorch.compile.recorder import Recorder
from jtorch.compile.run.caller import MISS
from jtorch.compile.run.compiled import CompiledPlan
from jtorch.compile.timings import Timings
from jtorch.core import config, op as op_module, progress
from jtorch.core.errors import (
    CompileError,
    FailedCheck,
    InternalError,
    OtherBranch,
    VerifyError,
    add_line,
    name_line,
)
from jtorch.eager import anomaly
from jtorch.eager.evaluate import EAGER
from jtorch.eager.profiling import WATCHING
from jtorch.eager.saved_hooks import IN_FORCE
from jtorch.nn.utils.parametrize import CACHE

_LOOKS = 10  # how often a call looks for its plan while other threads change what plans rely on
MAX_PLANS = 64  # per function; the least recently used one goes
FORGOTTEN = -1  # when such a plan was used

Q = ParamSpec("Q")
S = TypeVar("S")

FUNCTIONS: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()  # all there are, for ``reset``
HOLDERS: list[list[CompiledFunction]] = []  # lists of who wants to look at all that are made, later
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
        self._recorder = Recorder(self)
        self.last_call: LastCall | None = None  # the latest call that took the long way
        self.uncounted = 0  # replays that were measurements
        self._dropped_calls = 0  # of plans that are no more
        self._told_of_branches = False
        self.shared_code: types.CodeType | None = None  # of functions whose recordings it has, too
        self._recordings = 0
        self._latest: CompiledPlan | None = None
        self._previous: LastCall | None = None  # of the plan that was the latest before
        self._signature: inspect.Signature | None = None
        if self.options.verify_every:
            self.verifier = Verifier(self.options.verify_every, dict(self.options.budget))

    def share(self, known: CompiledFunction, code: types.CodeType) -> None:
        """Have the recordings of ``known``, as long as the function has this ``code``."""
        self.shared_code, self.plans = code, known.plans
        self._recorder.share(known._recorder)

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
                    if not self._recorder.is_whole:
                        self._recorder.seen.refuse(error)
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
        recorder = self._recorder
        if not kwargs and recorder.eagerly.has_again(args, context):
            return self.function(*args)
        sees_each_op = (
            context.level is not None or anomaly.ACTIVE or IN_FORCE.get() or CACHE.depth or WATCHING
        )
        if sees_each_op:
            return self.function(*args, **kwargs)
        start = time.perf_counter()
        args, kwargs = self._positional(args, kwargs)
        try:
            leaves, structure = flatten_call(args, kwargs)
            leaves[:] = lend_all(leaves, self.name)
        except CompileError as error:
            if recorder.is_whole:
                raise
            recorder.tell_of_eager(error, Timings())
            return self.function(*args, **kwargs)
        plans = self.plans.setdefault(structure, [])
        outdated = 0  # recordings of this call
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
            if recorder.eagerly.has(leaves, structure, context, flat, not plans):
                return self.function(*args, **kwargs)
            if self._branches_too_often(ways):
                return self.function(*args, **kwargs)
            with one_recording():
                with _recording:
                    if self._recordings != recordings:
                        continue  # another thread recorded, perhaps this very call
                    with progress.of(self.name):
                        others = [plan for some in tuple(self.plans.values()) for plan in some]
                        recorded = recorder.record(leaves, structure, plans, others)
                    if isinstance(recorded, tuple):
                        self._keep(recorded[0], plans)
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
            outdated += 1
        if outdated == _LOOKS:
            recorder.give_up(outdated, leaves, structure, context)
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

    def _keep(self, plan: CompiledPlan, plans: list[CompiledPlan]) -> None:
        """Have ``plan`` among the ``plans`` for its structure, if it is a new one."""
        if all(known is not plan for known in plans):
            self.timings = plan.timings
            with _ordering:
                plans.append(plan)

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
    def retraces(self) -> Ledger:
        """Why it was recorded again."""
        return self._recorder.ledger

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
