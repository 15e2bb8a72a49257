"""The latest call of a compiled function, kept without keeping its tensors alive."""

from __future__ import annotations

import weakref
from typing import Any

from jtorch.compile.inspect.ledger import failing_guard
from jtorch.eager.tensor import Tensor


class LastCall:
    """A call's plan and the structure and leaves of its arguments."""

    def __init__(self, plan: Any, leaves: list[Any], structure: Any) -> None:
        self.plan = plan
        self.structure = structure
        self._leaves = [weakref.ref(a) if isinstance(a, Tensor) else a for a in leaves]

    def leaves(self, name: str) -> list[Any]:
        """The arguments. Raises RuntimeError where one is no more."""
        found = [a() if isinstance(a, weakref.ref) else a for a in self._leaves]
        if any(a is None and isinstance(r, weakref.ref) for a, r in zip(found, self._leaves, strict=True)):
            raise RuntimeError(f"the arguments of the latest call of '{name}' are gone: pass some")
        return found

    @staticmethod
    def plan_for(plans: list[Any], leaves: list[Any], name: str) -> Any:
        """The plan among ``plans`` that takes a call with ``leaves``."""
        for plan in plans:
            if failing_guard(plan, leaves) is None:
                return plan
        raise RuntimeError(f"'{name}' has no recording for these arguments: call it with them once")
