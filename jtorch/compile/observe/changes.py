"""Modules, optimizers and hooks that library code changes inside a function: what a recording would do once.

``register_forward_hook``, ``append``, ``add_param_group`` and their like run in code of jtorch's, which is
not watched. So who is about to be changed by them is looked at before the call, and again when the function
has returned: what is as it was (a hook that was removed again) is no change.
"""

from __future__ import annotations

from typing import Any

from jtorch.core.errors import CompileError, Source
from jtorch.eager.hooks import RemovableHandle
from jtorch.eager.tensor import Tensor

# methods of modules, their containers, optimizers and tensors that leave something else behind
CHANGING = frozenset({
    "append", "extend", "insert", "pop", "clear", "update", "popitem", "setdefault", "add_module",
    "__setitem__", "__delitem__", "__iadd__", "add_param_group", "load_state_dict", "_apply", "apply", "to",
    "float", "double", "half", "bfloat16", "type", "set_extra_state", "share_memory", "lazy_load_hook",
    "remove",
})  # fmt: skip


OWN = ("state", "_hooked")  # what steps and calls change by themselves


def is_changing(name: str) -> bool:
    return name in CHANGING or name.startswith("register_")


class Noted:
    """What objects of the library were before something was called that may change them."""

    def __init__(self) -> None:
        self._first_made = RemovableHandle({}).id  # handles of hooks have numbers in their order
        self._before: dict[int, tuple[Any, dict[str, Any], Source | None, str]] = {}

    def note(self, owner: Any, source: Source | None, name: str) -> None:
        """``owner.name(...)`` is about to be called."""
        if isinstance(owner, RemovableHandle) and owner.id > self._first_made:
            return  # the function's own: whose hook it is was noted when that was registered
        for part in owner.modules() if hasattr(owner, "modules") else (owner,):
            self._before.setdefault(id(part), (part, facts_of(part), source, name))

    def undo(self) -> list[tuple[Any, Source | None, str]]:
        """Make everything as it was: who had been changed, where, and by which method."""
        changed = []
        for owner, before, source, name in self._before.values():
            if facts_of(owner) != before:
                _restore(owner, before)
                changed.append((owner, source, name))
        self._before.clear()
        return changed

    def check(self, function: str) -> None:
        """Put back what changed. Raises CompileError if anything did."""
        for owner, source, name in self.undo():
            raise CompileError(
                f"{source}: '{function}' calls {name}() of a {type(owner).__name__} from outside, which "
                "changes it at each call and a recording would do once. Do that outside."
            )


class _Same:
    """A value that is equal to itself alone: tensors have no truth value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def facts_of(owner: Any) -> dict[str, Any]:
    """What ``owner`` holds, in a form that compares: what lies in it counts by its identity."""
    if isinstance(owner, Tensor):
        return {"_hooks": {k: _Same(v) for k, v in (owner._hooks or {}).items()}}
    if isinstance(owner, RemovableHandle):
        return {"_hooks": _content(owner._hooks)}
    return {name: _content(value) for name, value in vars(owner).items() if name not in OWN}


def _content(value: Any) -> Any:
    if isinstance(value, dict):
        return _Same(value), {k: _Same(v) for k, v in value.items()}
    if isinstance(value, (list, set)):
        return _Same(value), [_Same(v) for v in value]
    return _Same(value), None


def _restore(owner: Any, before: dict[str, Any]) -> None:
    if isinstance(owner, Tensor):
        owner._hooks = {k: held.value for k, held in before["_hooks"].items()} or None
        return
    facts = {} if isinstance(owner, RemovableHandle) else vars(owner)
    for name in [name for name in facts if name not in before and name not in OWN]:
        del facts[name]
    for name, (held, parts) in before.items():
        facts[name] = held.value
        if isinstance(parts, dict):
            held.value.clear()
            held.value.update({k: part.value for k, part in parts.items()})
        elif parts is not None:
            _refill(held.value, [part.value for part in parts])


def _refill(container: Any, parts: list[Any]) -> None:
    container.clear()
    container.extend(parts) if isinstance(container, list) else container.update(parts)
