"""What a compiled function answers about its plans: the questions of ``docs/asking.md``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jtorch.compile import debug
from jtorch.compile.inspect.facts import facts_of, in_short, with_state_now
from jtorch.compile.inspect.fitting import Asked, LastCall, choose
from jtorch.compile.inspect.ledger import changes_of, in_words
from jtorch.compile.inspect.naming import Named, named_by
from jtorch.compile.record.arrays import lend_all
from jtorch.compile.record.tree import flatten
from jtorch.core import op as op_module

if TYPE_CHECKING:
    from jtorch.compile.recorder import Recorder


class BoundFunction(functools.partial):
    """A compiled method of one object: it answers questions with arguments for calls of that object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.func, name)
        if name not in vars(Asks):
            return found

        n = found.__code__.co_argcount - 1  # before those of a call, as the folder of ``save_repro``

        @functools.wraps(found)
        def ask(*args: Any, **kwargs: Any) -> Any:
            own, given = args[:n], args[n:]
            return found(*own, *(self.args if given or kwargs else ()), *given, **kwargs)

        return ask


class Asks:
    """The questions, as methods. Each takes the arguments of a call and answers for the plan that it would
    take, or else the latest one that differs from it in state alone (gradients, modes, attributes); without
    arguments for that of the latest call. The answer says which plan that is. Raises RuntimeError where there
    is none.
    """

    name: str
    function: Callable
    plans: dict[Any, list[Any]]
    _recorder: Recorder
    last_call: LastCall | None
    retraces: Any
    calls: Any
    options: Any

    def __repr__(self) -> str:
        made = sum(map(len, self.plans.values()))
        if not made:
            return f"<compiled '{self.name}', not recorded yet: call it>"
        plans = "1 plan" if made == 1 else f"{made} plans"
        return (
            f"<compiled '{self.name}' with {plans}, replayed {self.calls} times: ask explain(), stats(), "
            "profile(), document()>"
        )

    def recording(self, *args: Any, **kwargs: Any) -> str:
        """The IR as it was recorded, before any pass."""
        asked = self._asked(args, kwargs)
        return self._headed(asked, str(asked.plan.capture.graph))

    def graph(self, *args: Any, **kwargs: Any) -> str:
        """The optimised IR."""
        asked = self._asked(args, kwargs)
        return self._headed(asked, str(asked.plan.program.graph))

    def kernels(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The kernels, each once, in the order they run."""
        return list(self._asked(args, kwargs).plan.program.code.texts().values())

    def source(self, *args: Any, **kwargs: Any) -> str:
        """The source text of those kernels."""
        asked = self._asked(args, kwargs)
        program = asked.plan.program
        return self._headed(asked, debug.kernel_text(program.code, *program.runner.inner))

    def plan(self, *args: Any, **kwargs: Any) -> str:
        """The steps, with what they read and write, and where."""
        asked = self._asked(args, kwargs)
        program = asked.plan.program
        texts = [debug.plan_text(program.plan)]
        for code in program.runner.inner:
            texts.append(f"a step of {code.plan.fused.graph.name}:\n{debug.plan_text(code.plan)}")
        return self._headed(asked, "\n\n".join(texts))

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        """What the plan captured, computes, fused and guards: prints as text."""
        from jtorch.compile.inspect.explain import explain

        asked = self._asked(args, kwargs)
        return explain(asked, self.name, self.named())

    def document(self, *args: Any, with_reasons: bool = False, **kwargs: Any) -> dict[str, Any]:
        """All that is known of the plan as one plain document, which ``json.dumps`` takes, and which
        ``docs/document.md`` describes. ``with_reasons`` adds each rewrite of the passes, with its rule, and
        why neighbouring groups were not fused: for that the passes run once more.
        """
        from jtorch.compile.inspect.document import document

        asked = self._asked(args, kwargs)
        plans = sorted((p for some in self.plans.values() for p in some), key=lambda p: p.number)
        return document(asked, self.name, self.named(), plans, self.retraces, with_reasons)

    def stats(self, *args: Any, **kwargs: Any) -> Any:
        """What calls cost, in microseconds by stage, and when compiling has paid for itself.

        Measured now; everything the calls change is put back.
        """
        from jtorch.compile.inspect.stats import stats

        return stats(self, self._asked(args, kwargs, measured=True))

    def profile(self, *args: Any, **kwargs: Any) -> Any:
        """Time, operations, bytes and the share of the machine's limit of each step, the longest first.

        Measured now, over copies of the arguments.
        """
        from jtorch.compile.inspect.profile import profile

        return profile(self.name, self._asked(args, kwargs, measured=True))

    def save_repro(self, folder: Any, *args: Any, **kwargs: Any) -> Any:
        """Write a script and its inputs that run this program's graph in every way and compare them.

        The inputs are what they are now; what lies on a device is copied, and the ways are the CPU's. Returns
        the script's path.
        """
        from jtorch.compile.inspect.repro import save_repro

        return save_repro(self._asked(args, kwargs, measured=True), folder)

    def record_again(self, *args: Any, **kwargs: Any) -> str:
        """Record the call with these arguments, or the latest one, once more, and tell which line traced
        differently; "" where none did. What differs rests on something that is not guarded: see
        ``docs/compiled.md`` for what cannot be seen.
        """
        asked = self._asked(args, kwargs, measured=True)
        return self._difference(asked.plan, asked.leaves, asked.structure)

    def named(self) -> Named:
        """The modules, optimizers and tensors that the function holds, by name."""
        return named_by(self.function)

    def _newest(self) -> Any:
        """The plan of the latest call."""
        return self._asked((), {}).plan

    # -- which plan ------------------------------------------------------------------------------------------

    def _asked(self, args: tuple, kwargs: dict[str, Any], measured: bool = False) -> Asked:
        """The plan that a question with these arguments is about; ``measured`` needs arguments that live."""
        if not any(self.plans.values()):
            if self._recorder.eagerly.reasons:
                told = "; ".join(self._recorder.eagerly.reasons.values())
                raise RuntimeError(
                    f"calls of '{self.name}' run eagerly, since they cannot be recorded: {told}"
                )
            raise RuntimeError(f"'{self.name}' has not been compiled yet: call it once")
        if args or kwargs or self.last_call is None:
            args, kwargs = self._positional(args, kwargs)
            leaves, structure = flatten((args, kwargs))
            leaves = lend_all(leaves, self.name)
            found = choose(self.plans.get(structure, []), leaves)
            if found is None:
                raise RuntimeError(self._no_recording(leaves, structure))
            return self._asked_about(found[0], leaves, structure, found[1])
        last = self.last_call
        known = last.leaves()
        if known is None and measured:
            raise RuntimeError(f"the arguments of the latest call of '{self.name}' are gone: pass some")
        if known is None:
            return self._asked_about(last.plan, None, last.structure, True)
        fitting = choose([last.plan, *self.plans.get(last.structure, [])], known)
        plan, fits = fitting or (last.plan, True)  # an argument was changed in place, as by ``resize_``
        return self._asked_about(plan, known, last.structure, fits)

    def _asked_about(self, plan: Any, leaves: list[Any] | None, structure: Any, fits: bool) -> Asked:
        kept = sum(map(len, self.plans.values()))
        which = f"plan {plan.number}{f' ({kept} are kept)' if kept > 1 else ''}: {in_short(plan.facts)}"
        if leaves is None:
            facts = with_state_now(plan.facts, self.function)
        elif not fits:
            facts = facts_of(self.function, leaves, structure, op_module.CONTEXT.get())
        if leaves is None or not fits:
            changes = changes_of(plan, facts)
            if changes:
                which += f"\nrecorded in another state: {in_words(changes)}"
        return Asked(plan, leaves, structure, fits, which)

    def _no_recording(self, leaves: list[Any], structure: Any) -> str:
        facts = facts_of(self.function, leaves, structure, op_module.CONTEXT.get())
        plans = self.plans.get(structure) or [plan for some in self.plans.values() for plan in some]
        nearest = min((changes_of(plan, facts) for plan in plans), key=len)
        told = f" ({in_words(nearest)})" if nearest else ""
        return f"'{self.name}' has no recording for these arguments{told}: call it with them once"

    def _headed(self, asked: Asked, text: str) -> str:
        """``text`` under a comment that says which plan it is of, where that is in doubt."""
        if sum(map(len, self.plans.values())) == 1 and "\n" not in asked.which:
            return text
        return "".join(f"# {line}\n" for line in asked.which.splitlines()) + text

    def _positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        raise NotImplementedError

    def _difference(self, plan: Any, leaves: Any, structure: Any) -> str:
        raise NotImplementedError
