"""Verified replays: one call run eagerly and from the plan, on the same state, and compared.

The state is snapshotted, eager mode runs and is undone, the plan runs and stays. (A plan that knows of other
ways through the program runs before that, too, and is undone: where the call goes another way, eager mode
would write and draw what no snapshot of this plan has.) Results, every tensor the
plan knows, gradients (of results that are differentiated outside, too) and generators must agree within the
budget of ``stages.py``. Where they don't, the interpreter finds the first equation that is to blame.
Functions with effects that a snapshot does not see (printing, files) show them at each of these runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Graph
from jtorch.compile.inspect.fitting import failing_guard
from jtorch.compile.inspect.localize import localize
from jtorch.compile.inspect.naming import Named
from jtorch.compile.inspect.stages import BUDGET
from jtorch.compile.inspect.tolerance import Tolerance
from jtorch.compile.record.handed import with_arguments
from jtorch.compile.record.returned import Number, Output
from jtorch.compile.record.snapshot import Snapshot, graph_arguments
from jtorch.compile.run.caller import MISS
from jtorch.core import watch
from jtorch.core.errors import CompileError, FailedCheck, OtherBranch, VerifyError
from jtorch.eager import engine
from jtorch.eager.tensor import Tensor, wrap


class Verifier:
    """Decides which calls are verified, and does it. ``every`` is -1 for the first replay of each plan."""

    def __init__(self, every: int, budget: dict[str, float]) -> None:
        self.every = every
        self.budget = {**BUDGET, **budget}
        self.calls: dict[int, int] = {}  # calls of each plan so far
        self.verified = 0

    def done_with(self, plan: Any) -> bool:
        """Whether no later call of ``plan`` will be verified."""
        return self.every < 0 and id(plan) in self.calls

    def call(self, plan: Any, leaves: list[Any], eager: Callable[[], Any], named: Callable[[], Named]) -> Any:
        """What ``plan.call(leaves)`` gives, verified where it is this call's turn. May be MISS."""
        count = self.calls.get(id(plan), 0)
        if count and (self.every < 0 or count % self.every):
            result = plan.replay(leaves)
            self.calls[id(plan)] += result is not MISS
            return result
        if failing_guard(plan, leaves) is not None:
            return MISS
        self.calls[id(plan)] = count + 1
        self.verified += 1
        verification = _Verification(plan, leaves, self.budget, named)
        # the recording is interpreted, too, and disabled functions run in it
        return with_arguments(lambda _: verification.run(eager))(verification.leaves)


class _MissError(Exception):
    """The plan is for no such numbers of elements as masks name in this call, and has written nothing."""


class _Run:
    """What one run gave: results, gradients through them, effects; or the error it raised."""

    def __init__(
        self, opened: tuple[list[Any], Any], gradients: list[Any], effects: list[Any], error: Exception | None
    ) -> None:
        self.leaves, self.structure = opened
        self.values = [np.array(t._data) if isinstance(t, Tensor) else t for t in self.leaves]
        self.gradients = gradients
        self.effects = effects
        self.error = error


class _Verification:
    def __init__(
        self, plan: Any, leaves: list[Any], budget: dict[str, float], named: Callable[[], Named]
    ) -> None:
        self.plan = plan
        self.passed, self.leaves = leaves, plan.capture.whole(leaves)
        self.budget = budget
        self.named = named
        self.snapshot = Snapshot(plan.capture, leaves)
        self.cotangents: list[np.ndarray] = []

    def run(self, eager: Callable[[], Any]) -> Any:
        inputs = graph_arguments(self.plan.capture, self.passed)
        if self.plan.capture.may_branch and not self.plan.capture.calls_out:
            try:
                self._observe(self._replayed)
            except _MissError:
                return MISS
            finally:
                self.snapshot.restore()
        with watch.listening() as listener:
            _, expected = self._observe(eager)
            self.snapshot.restore()
        if self.plan.capture.written:  # what eager mode changed is as it was
            self.plan.subscription.forget(listener)
        try:
            results, found = self._observe(self._replayed)
        except _MissError:
            return MISS
        graph = self.plan.graph_for(self.leaves)
        given = [*inputs, *self.cotangents]
        # what the function writes outside with a graph: nobody goes back through it here
        given += [np.zeros(var.shape, var.dtype) for var in graph.inputs[len(given) :]]
        tolerance = Tolerance(graph, given, self.budget)
        if isinstance(found.error, FailedCheck):  # the call runs eagerly, as it has, and may catch the error
            self.snapshot.restore()
            raise found.error
        told = self._compare(expected, found, tolerance)
        if told is not None:
            self.snapshot.restore()
            try:
                who = localize(self.plan, self.leaves, tolerance, expected.values)
            except CompileError as error:  # of a disabled callee, which runs again for that
                who = f"Which equation is to blame cannot be told: {error}"
            raise VerifyError(f"'{self.plan.capture.name}' compiled differs from eager: {told}\n{who}")
        if found.error is not None:
            raise found.error
        return results

    def _replayed(self) -> Any:
        result = self.plan.replay(self.passed)
        if result is MISS:
            raise _MissError
        return result

    def _observe(self, run: Callable[[], Any]) -> tuple[Any, _Run]:
        results: Any = None
        error: Exception | None = None
        gradients: list[Any] = []
        try:
            results = run()
            effects = self.snapshot.effects()
            gradients = self._gradients(results)
        except (OtherBranch, _MissError):  # another plan takes the call
            raise
        except Exception as raised:
            error, effects = raised, self.snapshot.effects()
        return results, _Run(self._opened(results), gradients, effects, error)

    def _opened(self, results: Any) -> tuple[list[Any], Any]:
        return self.plan.capture.open(results, getattr(self.leaves, "containers", ()))

    def _gradients(self, results: Any) -> list[Any]:
        """The gradients that a backward pass outside would give, for cotangents of our own. What they go
        through stays: it may be a graph of arguments, too."""
        capture = self.plan.capture
        if not capture.differentiable:
            return []
        returned = self._opened(results)[0]  # what is written outside as well comes after that
        outs = [returned[k] for k in capture.differentiable if k < len(returned)]
        self.cotangents = [_cotangent(t) for t in outs]
        places = capture.places
        wanted = [self.leaves[places[id(t)]] if id(t) in places else t for t in capture.leaves]
        run = engine.Run(False, True)
        hooks = [t._hooks for t in wanted]
        try:
            for t in wanted:  # whoever goes backward outside runs them
                t._hooks = None
            found = run.play(outs, [wrap(g) for g in self.cotangents], wanted)
        finally:
            for t, h in zip(wanted, hooks, strict=True):
                t._hooks = h
        return [None if g is None else np.array(g._data if isinstance(g, Tensor) else g) for g in found]

    # -- comparing ----------------------------------------------------------------------------------------

    def _compare(self, expected: _Run, found: _Run, tolerance: Tolerance) -> str | None:
        if type(expected.error) is not type(found.error):
            return f"{_error(expected.error)} against {_error(found.error)}"
        if expected.structure != found.structure:
            return "its results have another form"
        atoms = _Atoms(self.plan.capture, tolerance.graph, self.leaves)
        for k, (a, b) in enumerate(zip(expected.values, found.values, strict=True)):
            told = self._value_differs(a, b, tolerance, atoms.results.get(k))
            if told:
                return f"result {k}: {told}"
        names = self.snapshot.names(self._name)
        known = [atoms.arrays.get(id(a)) for a in self.snapshot.arrays]
        known += [atoms.grads.get(id(t)) for t in self.snapshot.tensors]
        known += [None] * (len(names) - len(known))
        for name, a, b, atom in zip(names, expected.effects, found.effects, known, strict=True):
            told = tolerance.differs_from_eager(a, b, atom)
            if told:
                return f"{name} afterwards: {told}"
        for k, (a, b) in enumerate(zip(expected.gradients, found.gradients, strict=False)):
            told = tolerance.differs_from_eager(a, b, atoms.gradients.get(k))
            if told:
                return f"the gradient for {self._name(self.plan.capture.leaves[k]._data)}: {told}"
        return None

    def _value_differs(self, a: Any, b: Any, tolerance: Tolerance, atom: Any) -> str | None:
        if isinstance(a, np.generic) and type(a) is type(b):
            a, b = np.asarray(a), np.asarray(b)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                return tolerance.differs_from_eager(a, b, atom)
            return f"{type(a).__name__} against {type(b).__name__}"
        if isinstance(a, float) and isinstance(b, float):
            return tolerance.differs_from_eager(tolerance.rounded(a, atom), tolerance.rounded(b, atom), atom)
        return None if a is b or a == b else f"{a!r} against {b!r}"

    def _name(self, array: Any) -> str:
        for k, leaf in enumerate(self.leaves):
            if isinstance(leaf, Tensor) and leaf._data is array and k < len(self.passed):
                return f"argument {k}"
        return self.named().name_of_array(array) or "a captured tensor"


class _Atoms:
    """Which output of the recorded graph is what: for results by number, for arrays and gradients by id."""

    def __init__(self, capture: Any, graph: Graph, leaves: list[Any]) -> None:
        outputs = graph.outputs
        effects, rest = capture.effects, iter(outputs[capture.n_results :])
        made = ((k, r) for k, r in enumerate(capture.results) if isinstance(r, (Output, Number)))
        self.results = {k: outputs[r.index] for k, r in made}

        def now(tensor: Any) -> Any:
            return leaves[capture.places[id(tensor)]] if id(tensor) in capture.places else tensor

        self.arrays = {
            id(e.array if e.argument is None else leaves[e.argument]._data): next(rest)
            for e in effects.writes
        }
        self.grads = {id(now(e.tensor)): next(rest) for e in effects.grad_writes}
        self.grads |= {id(now(t)): next(rest) for t, atom in effects.grads if atom is not None}
        self.gradients = {k: next(rest) for k in capture.wanted}


def _cotangent(tensor: Tensor) -> np.ndarray:
    """Numbers that no symmetry of a sum hides."""
    return np.cos(np.arange(tensor.numel())).reshape(tensor.shape).astype(tensor._data.dtype)


def _error(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {error}"
