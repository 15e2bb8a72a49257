"""``jtorch.compile``: the decorator, and the function object it gives."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

from jtorch import config
from jtorch import op as op_module
from jtorch.compile import debug
from jtorch.compile.caller import MISS
from jtorch.compile.capture import capture
from jtorch.compile.compiled import CompiledPlan
from jtorch.compile.timings import Timings
from jtorch.compile.tree import flatten
from jtorch.eager.evaluate import EAGER

MAX_PLANS = 64  # per function; the least recently used one goes


class CompiledFunction:
    """A function that is recorded on its first call with arguments of a kind, and replayed after that.

    ``timings`` has the seconds of the latest compilation, ``graph()`` its IR, ``source()`` its kernels.
    """

    def __init__(self, function: Callable) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.plans: dict[Any, list[CompiledPlan]] = {}
        self.timings = Timings()
        self._latest: CompiledPlan | None = None
        self._signature: inspect.Signature | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._latest is not None and not kwargs:
            result = self._latest.call(args)
            if result is not MISS:
                return result
        return self._find(args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "function" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.function, name)

    # -- finding or making a plan --------------------------------------------------------------------------

    def _find(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        context = op_module.CONTEXT.get()
        if context.evaluator is not EAGER or not config.get("COMPILE"):
            return self.function(*args, **kwargs)  # inside another trace it is part of that one
        start = time.perf_counter()
        args, kwargs = self._positional(args, kwargs)
        leaves, structure = flatten((args, kwargs))
        plans = self.plans.setdefault(structure, [])
        for plan in plans:
            result = plan.call(tuple(leaves))
            if result is not MISS:
                self._use(plan, plans, args, leaves)
                return result
        plan = self._record(leaves, structure, plans)
        self._use(plan, plans, args, leaves)
        result = plan.call(tuple(leaves))
        if result is MISS:
            raise AssertionError(f"'{self.name}': a plan just made does not accept its own arguments")
        self.timings.first_call = time.perf_counter() - start
        return result

    def _positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Keyword arguments where their position is known: ``f(x, y=y)`` is the same call as ``f(x, y)``."""
        if not kwargs:
            return args, kwargs
        if self._signature is None:
            self._signature = inspect.signature(self.function)
        bound = self._signature.bind(*args, **kwargs)
        return bound.args, bound.kwargs

    def _record(self, leaves: list[Any], structure: Any, plans: list[CompiledPlan]) -> CompiledPlan:
        timings = Timings()
        context = op_module.CONTEXT.get()
        with timings.measure("trace"):
            made = capture(self.function, leaves, structure, context, self.name)
        for plan in plans:
            if plan.accepts_again(made, leaves, context):
                return plan
        plan = CompiledPlan(made, leaves, context, timings)
        self.timings = timings
        plans.append(plan)
        return plan

    def _use(self, plan: CompiledPlan, plans: list[CompiledPlan], args: tuple, leaves: list[Any]) -> None:
        plans.remove(plan)
        plans.insert(0, plan)
        del plans[MAX_PLANS:]
        flat = len(args) == len(leaves) and all(a is b for a, b in zip(args, leaves, strict=True))
        self._latest = plan if flat else None

    # -- looking inside --------------------------------------------------------------------------------------

    def _newest(self) -> CompiledPlan:
        for plans in self.plans.values():
            for plan in plans:
                if plan.timings is self.timings:
                    return plan
        raise RuntimeError(f"'{self.name}' has not been compiled yet: call it once")

    def recording(self) -> str:
        """The IR as it was recorded, before any pass."""
        return str(self._newest().capture.graph)

    def graph(self) -> str:
        """The optimised IR of the latest compilation."""
        return str(self._newest().program.graph)

    def kernels(self) -> list[Any]:
        """The kernels of the latest compilation, each once, in the order they run."""
        return list(self._newest().replay.kernels.values())

    def source(self) -> str:
        """The source text of those kernels."""
        return debug.kernel_text(self._newest().program.plan)

    def plan(self) -> str:
        """The steps of the latest compilation, with what they read and write, and where."""
        return debug.plan_text(self._newest().program.plan)


def compile(function: Callable | None = None) -> Any:
    """Make a function (or a Module) run as one native call.

    The function is recorded on its first call: every op, backward pass and optimizer step included. Later
    calls with arguments of the same shapes, dtypes and static values replay the recording. Use it as
    ``@jtorch.compile`` or ``f = jtorch.compile(f)``. Raises ``CompileError`` for what cannot be recorded.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
    """
    if function is None:
        return compile
    return CompiledFunction(function)
