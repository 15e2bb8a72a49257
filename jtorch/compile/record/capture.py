"""One recorded run of a function: its graph, where inputs come from, and what it changes."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.compile.graph.faults import fault_in
from jtorch.compile.graph.ir import Graph, Var
from jtorch.compile.graph.passes import unread_checks
from jtorch.compile.observe import probe, user_attributes
from jtorch.compile.observe.effects import Place
from jtorch.compile.observe.guards import Read
from jtorch.compile.observe.library import see_module
from jtorch.compile.observe.observer import Observer, quietly
from jtorch.compile.observe.questions import TensorRead
from jtorch.compile.observe.reading import Question, check_reads, put_back
from jtorch.compile.observe.relied import relied_on, untold
from jtorch.compile.observe.scalar import Digits
from jtorch.compile.observe.stand_ins import check_error
from jtorch.compile.observe.texts import ErrorText, check_kept
from jtorch.compile.record import caches, callees
from jtorch.compile.record.answers import Answer, hand_over
from jtorch.compile.record.arguments import Arguments
from jtorch.compile.record.arrays import LentNumber
from jtorch.compile.record.attempts import Known, with_replaced
from jtorch.compile.record.caches import Filled
from jtorch.compile.record.clocks import read_clock
from jtorch.compile.record.closing import Effects, close
from jtorch.compile.record.containers import Change, Given
from jtorch.compile.record.deferred_backward import Later, LaterError, way_back
from jtorch.compile.record.drawn import Drawn, looking
from jtorch.compile.record.final_checks import (
    check_arguments,
    check_arrays,
    check_generators,
    check_gradients_read,
    check_graphs,
    check_mode,
    check_scalars,
    explain,
)
from jtorch.compile.record.inputs import Input, captured
from jtorch.compile.record.items import Item
from jtorch.compile.record.nodes import NodeNote
from jtorch.compile.record.once import run_once
from jtorch.compile.record.opened import LEAF, Opened, StandIns, open_all, with_opened
from jtorch.compile.record.rebound import Rebinding, check_rebound, with_own_arrays
from jtorch.compile.record.results import (
    grads_of_made,
    outside_of_gradients,
    results_of,
    with_plain_keys,
)
from jtorch.compile.record.returned import Container, Output, Part, Result, Same
from jtorch.compile.record.sizing import APART, STILL, Counted, Masks, Moving, Sizing, Sizings
from jtorch.compile.record.tape import Tape, check_hooks, differentiate_whole, reached_from, tape_of
from jtorch.compile.record.trace import Tracer
from jtorch.compile.record.tree import flatten, rebuild
from jtorch.compile.record.trials import Seen
from jtorch.core import config, op as op_module, watch
from jtorch.core.device_array import ARRAYS
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, Restart
from jtorch.core.op import Context
from jtorch.eager import shortcuts
from jtorch.eager.begun import noting
from jtorch.eager.tensor import Tensor
from jtorch.eager.unusual import WATCHERS
from jtorch.nn.module import Module


@dataclass
class Capture:
    """What tracing found. Where results are differentiated outside, ``graph`` is the joint graph:
    it also takes
    cotangents of those results and returns gradients of ``leaves``."""

    name: str
    graph: Graph
    inputs: list[Input]
    effects: Effects
    results: list[Result]
    structure: Any
    plain: list[Read]  # what the function read outside
    n_results: int  # graph outputs that are results, before the effects
    leaves: list[Tensor] = field(default_factory=list)  # to differentiate for, in a backward outside
    own_leaves: dict[int, int] = field(default_factory=dict)  # those it made: which result each is, or -1
    cotangents: list[Var] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)  # the leaves that get a gradient
    sources: list[frozenset[int]] = field(default_factory=list)  # and from which results, by number
    n_late: int = 0  # the last outputs: those gradients, then what only a backward outside can check
    early: frozenset[Var] = frozenset()  # what is computed when the function runs, not in a backward outside
    differentiable: list[int] = field(default_factory=list)  # results that carry a graph outside
    tape: Tape | None = None  # how those hang together
    later: Later | None = None  # what a backward outside finds there
    places: dict[int, int] = field(default_factory=dict)  # id of an argument as it was traced -> its place
    traced: dict[int, Tensor] = field(default_factory=dict)  # place -> the argument as it was traced
    toggled: dict[int, bool] = field(default_factory=dict)  # arguments whose requires_grad it sets
    own: frozenset[int] = frozenset()  # ids of the tensors it made itself whose requires_grad it sets
    detached: frozenset[int] = frozenset()  # those among them that it takes off the tape
    sizing: Sizing | None = None  # which sizes of arguments are symbols
    device: Any = None  # on which tensors from outside lie, if any do
    on_device: set[Var] = field(default_factory=set)  # variables that lie there in eager mode
    why_exact: str = ""  # why none could be, where some should
    windows: list[np.ndarray] = field(default_factory=list)  # outside arrays that are views of inputs
    fixed: frozenset[int] = frozenset()  # arguments that must be these very tensors
    exact: frozenset[int] = frozenset()  # float arguments that must be these very numbers
    of_numpy: frozenset[int] = frozenset()  # NumPy's numbers that were passed
    replaced: list[Place] = field(default_factory=list)  # whose tensors are arguments after those passed
    opened: list[Opened] = field(default_factory=list)  # and whose leaves are, after those
    drawn: list[Opened] = field(default_factory=list)  # and what generators give, after those
    closed: frozenset[Any] = frozenset()  # places that could not be opened
    counted: frozenset[int] = frozenset()  # integers among these leaves that each call brings
    written: list[Place] = field(default_factory=list)  # what is written outside after a replay
    constants: list[Any] = field(default_factory=list)  # for each the constant, or MISSING
    changes: list[Change] = field(default_factory=list)  # what it changes in lists and dicts passed to it
    sets_grads: bool = False  # whether tensors among the results get a ``grad``
    error: Exception | None = None  # what the function raised; the rest is what it had done before
    questions: dict[tuple, Question] = field(default_factory=dict)  # what must be true of the arguments
    may_branch: bool = False  # whether another way through the function is another recording
    calls_out: bool = False  # whether it runs disabled functions, or talks to other processes
    # of a recording that raised: what disabled functions gave; None where eager mode cannot go on from that
    answers: list[Answer] | None = field(default_factory=list)
    nodes: list[NodeNote] = field(default_factory=list)  # of the tape that it built
    rebound: list[Any] = field(default_factory=list)  # tensors that it gives other memory
    tells_apart: bool = False  # whether it counts which tensors are the same one
    by_graph: bool = False  # whether it goes back through graphs of tensors from outside
    journal: watch.Journal = field(default_factory=watch.Journal)  # what recording has changed for good
    subscription: watch.Subscription = field(default_factory=watch.Subscription)  # to what others tell of

    def __repr__(self) -> str:
        return (
            f"<recording of '{self.name}': {len(self.graph.eqns)} equations, {len(self.inputs)} inputs, "
            f"{self.n_results} results; print(.graph) shows them>"
        )

    def whole(self, leaves: Iterable[Any]) -> list[Any]:
        """The arguments of a call that passes ``leaves`` now: those, what it finds at the places whose
        tensors it replaces, and what it would draw."""
        found = with_opened(with_replaced(leaves, self.replaced), self.opened)
        with looking(self.drawn):
            return with_opened(found, self.drawn)

    def open(self, returned: Any, containers: Sequence[Any] = ()) -> tuple[list[Any], Any]:
        """Leaves and structure of what a call returned and wrote into the ``containers`` of its arguments,
        where those and outside containers count as leaves."""
        same = {id(r.value) for r in self.results if isinstance(r, Same)}
        same |= {id(tree) for tree in containers if not isinstance(tree, tuple)}
        if containers and self.changes:
            new = [value for change in self.changes for value in change.new_in(containers[change.index])]
            returned = returned, new
        return flatten(returned, lambda value: id(value) in same)

    @property
    def needs_containers(self) -> bool:
        """Whether a replay changes or returns containers of its arguments."""
        return bool(self.changes) or any(isinstance(r, Container) for r in self.results)


def capture(
    function: Callable, leaves: list[Any], structure: Any, context: Context, name: str,
    varying: Iterable[Place] = (), may_wait: bool = False, sizing: Sizings | None = None,
    moving: Moving = STILL, masks: Masks = APART, whole: bool = True, seen: Seen | None = None,
) -> Capture:  # fmt: skip
    """Run ``function`` once on traced values; what is at the places ``varying`` changes from call to call,
    and so do integers that are ``moving``.

    Where it makes an object for all later calls, and this one ``may_wait``, that raises ``Filling``: what
    the first call does may be something else. So do ``ErrorText`` where an error tells elements, and
    ``LaterError`` where the way back raises. ``sizing`` says which sizes are symbols, where they can be,
    ``masks`` what the number of elements is that masks name, where that is asked. ``whole``: what cannot be
    recorded is an error; else nothing is put out. A ``CompileError`` has what was ``read`` until then.
    ``Unseen`` tells of a disabled function that is not among those ``seen``.
    """
    shortcuts.prepare()  # the first op of all may compile them: not while the function is observed
    subscription = watch.Subscription()
    with subscription.recording(), ExitStack() as filled:
        opened = {place.identity: place for place in varying}
        known = Known(
            filled, exact=moving.digits, opened=opened, may_wait=may_wait, sizing=sizing,
            integers=moving.integers, masks=masks, whole=whole, seen=seen,
        )  # fmt: skip
        try:
            made, observer = _attempted(function, leaves, structure, context, name, known)
        except LaterError as found:
            if may_wait and not known.called_out:
                raise
            error = CompileError(str(found))
            error.final, error.read = bool(known.called_out), found.read
            raise error from found.__cause__
        except CompileError as error:
            error.final = error.final or bool(known.called_out and not error.answers)
            raise
        outside = [e.array for e in captured(made.inputs)]
        outside += _of_flags(made)
        facts = relied_on(observer, made.plain, [*outside, *made.windows], made.by_graph)
        observer.relied.check(subscription)
        subscription.close(facts)
        made.subscription = subscription
        filled.pop_all()  # what it keeps in caches stays there, unless the recording fails
    return made


def _of_flags(made: Capture) -> list[np.ndarray]:
    """The memory of tensors from outside whose ``requires_grad`` the function sets, used or not: a replay
    finds them as the recording left them."""
    owners = made.journal.owners("requires_grad")
    return [t._data for t in owners if id(t) not in made.places and type(t._data) in ARRAYS]


def _attempted(
    function: Callable, leaves: list[Any], structure: Any, context: Context, name: str, known: Known
) -> tuple[Capture, Observer]:
    """The first recording that needs not begin again, and who watched it."""
    reason: Restart
    for _ in range(_ATTEMPTS):
        observer, made, refused = Observer(name), None, None
        observer.may_refill, observer.whole = known.may_refill, known.whole
        try:
            made = _capture(function, leaves, structure, context, observer, known)
            why = _why_not(made, known)
            if not why:
                hand_over(known.log, known.readings)
                if made.error is not None:
                    made.answers = _answers(known, observer) or (None if known.called_out else [])
                return made, observer
            made = None
            reason = _with_numbers(known, why)
        except Restart as found:
            refused = observer.drawn.refusal(found)
            if refused is not None:
                raise refused from None
            reason = found.with_traceback(None)  # which holds all that the attempt made
        except Exception as error:
            if isinstance(error, CompileError):
                refused = error
            plain = known.sizing is None and not known.numbers
            plain = plain or len(known.called_out) > len(known.log)  # one raised it, and must not run again
            if plain or (config.get("CHECK") and not isinstance(error, CompileError)):
                raise
            plain = all(type(part) is str for part in error.args)
            reason = _with_numbers(known, str(error) if plain else type(error).__name__)
        finally:
            if made is None:  # the next attempt, or the caller, finds everything as it was
                restored = _restored(observer)
                read = tuple(
                    r
                    for r in observer.reads.values()
                    if restored.isdisjoint([(id(r.container), r.key), (id(r.container), None)])
                )
                is_as_it_was = put_back(read)
                if refused is not None:
                    refused.read, refused.final = read, not is_as_it_was
                    refused.decided = observer.decided
                    if is_as_it_was and refused.in_program:
                        refused.answers = _answers(known, observer)
        known.learn(reason, leaves)
    raise CompileError(
        f"'{name}' begins anew each time it is recorded: it counts in objects of which nobody saw that it "
        "makes them. Make them outside, or call their class in the function itself."
    )


def _restored(observer: Observer) -> set[tuple[int, Any]]:
    """Put back what library code has changed: the places, as (id of a container, key), None for all of it.
    What was read of them was read after the change, perhaps, and need not be so any more."""
    places = {
        (id(held), None)
        for owner, _, _ in observer.noted.undo()
        for held in (vars(owner), *vars(owner).values())
        if isinstance(held, (dict, list, set))
    }
    places |= observer.journal.places() | observer.as_met.put_back()
    observer.journal.undo()
    return places


def _answers(known: Known, observer: Observer) -> list[Answer]:
    """What disabled functions gave in a recording that the program ended, and that was taken back, if the
    call can go on from there in eager mode: each has returned, and nothing was drawn, which would be drawn
    again from where it was before they drew, too."""
    drew = bool(observer.drawn.draws)
    return [] if drew or len(known.called_out) > len(known.log) else list(known.log)


def _why_not(made: Capture, known: Known) -> str:
    """Why a recording may not become a plan: one that raises, as a symbol or an integer that each call brings
    may be the reason; one with symbols that runs others, which would run again for a plan of these very
    sizes."""
    if made.error is not None and (made.sizing is not None or known.numbers):
        if known.counting is not None and known.sizing is None and not known.numbers:
            raise ErrorText(known.counting.refusal)  # Python says it
        told = made.error.args  # the text of a number that is traced would look for who keeps it
        plain = all(type(part) is str for part in told)
        return (str(made.error) if plain else "") or type(made.error).__name__
    if made.sizing is not None and made.calls_out:
        return "it runs functions that are disabled for compiling, or other processes"
    return ""


def _with_numbers(known: Known, why: str) -> Restart:
    """What has the next attempt know more numbers than this one: it may well be recorded so."""
    return Digits(arguments=known.numbers) if known.numbers else Exact(why)


_ATTEMPTS = 250  # each finds an argument or a number more


def _capture(
    function: Callable, leaves: list[Any], structure: Any, context: Context, observer: Observer, known: Known
) -> Capture:  # fmt: skip
    name = observer.name
    tracer = Tracer(name)
    tracer.log, tracer.called_out, tracer.seen = known.log, known.called_out, known.seen
    tracer.plain_effects, tracer.wholes = observer.effects, known.wholes
    tracer.readings = known.readings = []
    probe.check()
    containers, n_passed = getattr(leaves, "containers", ()), len(leaves)
    leaves, opened = _with_what_each_call_brings(leaves, known)
    sizing = None if known.sizing is None else known.sizing(known.fixed, known.integers & known.exact)
    if known.counting is not None:
        if sizing is None and known.masks.numbers is not Counted.EXACT:
            sizing = Sizing()
        tracer.branches.masks, tracer.branches.sizing = known.masks, sizing
    observer.has_symbols = tracer.has_symbols = sizing is not None
    arguments = Arguments(tracer, known, sizing)
    alone = {each.start for each in known.spans if each.form == LEAF}  # numbers outside, not in a container
    arguments.add(leaves, known.spans[0].start if known.spans else len(leaves), deciding=alone)
    known.of_numpy = frozenset(k for k, leaf in enumerate(arguments.leaves) if type(leaf) is LentNumber)
    leaves, traced = arguments.leaves, arguments.traced
    (args, kwargs), made_anew = rebuild(structure, arguments.shown)
    given = Given(made_anew, containers)
    observer.drawn = drawn = Drawn(tracer, arguments)
    observer.start(function, leaves, (args, kwargs))
    observer.numbers = given.numbers
    observer.places, observer.versions_before = tracer.places, tracer.versions
    for value in arguments.shown:
        if type(value) is np.ndarray:
            observer.meet(value)
    observer.effects.plain, tracer.observer = known.digits, observer
    observer.effects.leave_turn = tracer.leave_turn
    observer.runtime_numbers = tracer.runtime_numbers
    observer.array_stand_in = lambda array: tracer.numpy_arrays.of(tracer.lift(array))
    observer.numpy_arrays = tracer.numpy_arrays
    observer.read_clock = functools.partial(read_clock, tracer)
    observer.once = functools.partial(run_once, tracer, observer)
    observer.progress = functools.partial(_progress, tracer, observer)
    if isinstance(function, Module):
        see_module(observer, None, function)
    with _taken_back(tracer, observer, drawn) as changed:
        for place in known.counts.values():
            observer.effects.replace(place, tracer.number(place))
        for k, place in enumerate(known.replaced.values(), n_passed):
            observer.effects.replace(place, arguments.shown[k])
        stand_ins = _stand_in_for(opened, arguments.shown, observer)
        tracer.own_arrays = with_own_arrays(observer.effects, known.rebound.values())
        op_module.CONTEXT.set(context.replace(evaluator=tracer))
        watch.seeding.set(tracer.generators)
        watch.journal.set(observer.journal)
        with observer.observing():
            returned, error = _called(function, args, kwargs, leaves, observer)
            observer.obey()
            if more := [tensor for key, tensor in tracer.rebound.items() if key not in known.rebound]:
                raise Rebinding(more)
            observer.made_arrays.check()
            tracer.numpy_arrays.check(name)
            observer.noted.check(name)
            if error is not None:
                returned = _held_by(observer, error)
            check_mode(context, name)
            made = _recorded(tracer, observer, returned, given)
            stand_ins.check(observer, containers, bool(made.changes or tracer.callees))
    if observer.refilled and observer.may_refill:
        raise Filled
    made.error, made.calls_out = error, bool(tracer.callees or tracer.exchanges)
    made.may_branch = bool(tracer.branches.checks or drawn.draws)
    flags = [*observer.journal.owners("requires_grad"), *observer.journal.owners(watch.DETACHED)]
    made.tells_apart = tracer.graphs.limited or any(not tracer.began(t) for t in flags)
    made.by_graph, made.nodes = tracer.graphs.left, tracer.graphs.nodes.notes
    made.effects.advances, made.journal = tracer.advances, observer.journal
    made.places, made.fixed, made.exact = tracer.places, known.fixed, known.exact
    made.of_numpy = frozenset(k for k in known.of_numpy if k < n_passed)
    made.replaced, made.opened, made.drawn = list(known.replaced.values()), known.spans, drawn.draws
    made.closed, made.counted = known.closed, frozenset(k for k, t in traced.items() if type(t) is Item)
    made.windows = [array for array, _ in tracer.windows.values()]
    made.traced = {k: t for k, t in traced.items() if isinstance(t, Tensor)}
    made.sizing, made.why_exact = sizing, known.why_exact
    made.device, made.on_device = tracer.device, tracer.on_device
    if sizing is not None:
        sizing.recorded(tracer.branches.counts)
        made.sizing = sizing if sizing.shapes or sizing.counts else None
    check_generators(tracer)
    for problem in changed:
        raise CompileError(problem)
    check_arguments(made.effects, made.traced, leaves, name)
    made.plain = [r for r in observer.reads.values() if not _is_followed(tracer, r)]
    made.plain += tracer.options
    made.plain += untold(observer)
    check_reads(made.plain, name, observer.finalized)
    check_gradients_read(tracer.inputs, made.plain, name)
    callees.finish(tracer, made.plain, error)
    check_scalars(tracer, name)
    drawn.check(made.effects)
    made.toggled = {
        tracer.places[id(t)]: t._requires_grad
        for k, t in made.traced.items()
        if t._requires_grad is not leaves[k]._requires_grad
    }
    made.own = frozenset(id(t) for t in made.journal.owners("requires_grad") if tracer.made(t))
    off = {id(t) for t in made.journal.owners(watch.DETACHED)}
    made.detached = frozenset(k for k in made.toggled if id(made.traced[k]) in off)
    return made


def _with_what_each_call_brings(
    leaves: list[Any], known: Known
) -> tuple[list[Any], list[tuple[Opened, list[Any], list[Any]]]]:
    """``leaves`` with what is at the places whose tensors the function replaces, and in containers that
    change from call to call; these."""
    leaves = with_replaced(leaves, known.replaced.values())
    opened = open_all((p for k, p in known.opened.items() if k not in known.counts), len(leaves))
    known.spans = [each for each, _, _ in opened]
    for _, more, _ in opened:
        leaves += more
    known.fix_parts(leaves)
    return leaves, opened


def _stand_in_for(
    opened: list[tuple[Opened, list[Any], list[Any]]], arguments: list[Any], observer: Observer
) -> StandIns:
    """Have the function find copies in the place of containers that change from call to call."""
    stand_ins = StandIns()
    for each, _, real in opened:
        found, containers = each.build(arguments)
        stand_ins.add(each, containers, real)
        observer.effects.replace(each.place, found)
    observer.opened = stand_ins.by_id
    observer.open_places = {each.place.identity: each.place for each, _, _ in opened}
    return stand_ins


def _recorded(tracer: Tracer, observer: Observer, returned: Any, given: Given) -> Capture:
    """The function has ended, and all it changed is as it left it: its graph, and what comes of it."""
    written = observer.effects
    changes, new = given.changes(observer)
    returned = (returned, new) if changes else returned
    grads = grads_of_made(tracer, flatten((returned, written.computed), observer.is_itself)[0])
    whole = (returned, written.computed, grads) if written.computed or grads else returned
    outs, structure = flatten(whole, observer.is_itself)
    structure = with_plain_keys(structure)
    outlive = [*outs, *(grad for _, _, grad in tracer.grads.values())]
    user_attributes.check(observer, None if tracer.callees else outlive)  # these may have been handed any
    check_kept([*outs, *written.constants], tracer.name)

    def is_known(out: Any) -> bool:
        return observer.is_itself(out) or id(out) in tracer.places or id(out) in tracer.rebound

    observer.deep(None, tuple(out for out in outs if not is_known(out)), objects=False)
    results, atoms, alive = results_of(tracer, observer, outs)
    outside_of_gradients(tracer, observer)
    check_hooks(tracer, outs, alive)
    atoms += tracer.branches.checks  # results that nobody sees, or they would be dropped
    found = later = None
    n_early = len(tracer.eqns)
    if alive:
        with way_back(tracer, observer, alive) as later:
            found = differentiate_whole(tracer, outs, results)
    tape = tape_of([outs[k] for k, r in enumerate(results) if r.requires_grad], tracer.name)
    own = [out for out, result in zip(outs, results, strict=True) if isinstance(result, (Output, Part))]
    graph, effects = quietly(close)(tracer, atoms, own)
    _, cotangents, gradients, _ = found or ((), (), (), ())
    late: list[Var] = []
    if unread := unread_checks(graph.replace(outputs=(*graph.outputs, *filter(None, gradients)))):
        reached = reached_from(graph, unread, cotangents)
        late = [check for check, by in zip(unread, reached, strict=True) if by]
        atoms += [check for check, by in zip(unread, reached, strict=True) if not by]
        graph, effects = quietly(close)(tracer, atoms, own)
    made = Capture(tracer.name, graph, tracer.inputs, effects, results, structure, [], len(atoms))
    check_arrays(observer, tracer.name, [e.array for e in effects.writes])
    made.questions, made.written, made.constants = observer.questions, written.places, written.constants
    made.sets_grads, made.changes = bool(grads), changes
    made.rebound = check_rebound(tracer, observer.leaves, outs)
    if found is not None:
        made.leaves, made.cotangents, _, sources = found
        made.wanted = [k for k, g in enumerate(gradients) if g is not None]
        made.sources = [sources[k] for k in made.wanted]
        places = {id(out): k for k, out in reversed([*enumerate(outs)])}
        made.own_leaves = {k: places.get(id(t), -1) for k, t in enumerate(made.leaves) if tracer.made(t)}
        made.graph = graph.replace(
            inputs=(*graph.inputs, *made.cotangents),
            outputs=(*graph.outputs, *(g for g in gradients if g is not None), *late),
        )
        made.n_late = len(made.wanted) + len(late)
        made.early = frozenset(v for eqn in tracer.eqns[:n_early] for v in eqn.outputs)
        made.differentiable = [k for k, r in enumerate(results) if r.requires_grad]
        made.tape, made.later = tape, later
    return made


@contextmanager
def _taken_back(tracer: Tracer, observer: Observer, drawn: Drawn) -> Iterator[list[str]]:
    """What is changed inside is as it was afterwards: each part, also where taking back another one fails.
    The list gets a sentence for what the program may not change."""
    problems: list[str] = []
    with ExitStack() as last:  # the first comes last
        last.callback(drawn.put_back)
        last.callback(_fill_caches, tracer, observer)
        last.callback(check_graphs, tracer, observer, problems)
        last.callback(_undo_versions, tracer)
        last.callback(_note_unseen_changes, observer, problems)
        last.callback(observer.effects.undo)
        last.push(functools.partial(_undo_noted, observer))  # which was noted with these effects in it
        last.callback(setattr, tracer, "written_places", tracer.written_places)
        tracer.written_places = lambda: observer.effects.places
        last.callback(WATCHERS.remove, tracer.graphs.note)
        WATCHERS.append(tracer.graphs.note)
        last.enter_context(noting(tracer.begun))
        last.callback(setattr, observer.journal, "check", None)
        observer.journal.check = tracer.check_stranger
        last.callback(watch.journal.set, watch.journal.get())
        last.callback(watch.seeding.set, watch.seeding.get())
        last.callback(op_module.CONTEXT.set, op_module.CONTEXT.get())
        last.callback(setattr, tracer, "observer", None)  # which holds what the function made
        last.callback(setattr, observer, "once", None)  # which holds the observer
        last.callback(setattr, observer, "progress", None)
        last.callback(setattr, tracer, "open", False)
        yield problems


def _note_unseen_changes(observer: Observer, problems: list[str]) -> None:
    for what in observer.as_met.take_back(observer.effects.known):
        problems.append(
            f"'{observer.name}' changes {what} from outside in a way that is not seen, which it would do at "
            "each call and a recording would do once. Do that outside."
        )


def _undo_noted(observer: Observer, kind: type[BaseException] | None, *_: Any) -> None:
    if kind is not None:
        observer.noted.undo()


def _fill_caches(tracer: Tracer, observer: Observer) -> None:
    observer.refilled |= caches.fill(tracer, observer.caches, observer.effects.writers)


def _progress(tracer: Tracer, observer: Observer) -> tuple[int, ...]:
    """Numbers that grow with what is written outside and drawn."""
    return (
        len(observer.effects.written),
        len(observer.journal.owners()),
        sum(int(cell[0]) for cell, _ in tracer.versions.values()),
        sum(entry.drawn for entry in tracer.generators.entries.values()),
        len(observer.drawn.draws),
        *(number for _, (_, number) in tracer.generators.seeded.values()),
    )


def _is_followed(tracer: Tracer, read: Read) -> bool:
    """Whether the plan notices by itself when what was read changes: it computes with that tensor."""
    return isinstance(read, TensorRead) and id(read.container._data) in tracer.arrays


def _called(
    function: Callable, args: Any, kwargs: Any, leaves: list[Any], observer: Observer
) -> tuple[Any, Exception | None]:
    """(what the function returned, what it raised)"""
    try:
        returned = function(*args, **kwargs)
        observer.let_go()
        return returned, None
    except (CompileError, Restart) as error:
        if isinstance(error, CompileError):
            error.in_program = True
        # Generators that wait in its frames end now, while they are watched: what they do at their end is
        # taken back with all else.
        traceback.clear_frames(error.__traceback__)
        observer.let_go()
        raise
    except MemoryError:  # of which nobody can tell what was done
        raise
    except Exception as error:
        check_error(observer, error)
        explain(error, leaves, observer.name)
        fault = fault_in(error, observer.name)
        if fault is not None:
            raise fault from fault.origin
        return None, error


def _held_by(observer: Observer, error: Exception) -> Any:
    """What an exception holds, if anything that was computed is part of it: results like others."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if observer.holds_traced((cause.args, vars(cause))):
            raise CompileError(
                f"'{observer.name}' raises {type(error).__name__} from {type(cause).__name__}, which holds "
                "what it computed. Raise it without that, or return the tensor and raise outside."
            )
        cause = cause.__cause__ or cause.__context__
    held = error.args, dict(vars(error))
    return held if observer.holds_traced(held) else None


def _undo_versions(tracer: Tracer) -> None:
    for cell, version in tracer.versions.values():
        tracer.advances[id(cell)] = int(cell[0]) - version
        cell[0] += version - int(cell[0])  # nothing was written; a plan may stand in the cell
