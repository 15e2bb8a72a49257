"""What jtorch's own code, which is not watched, goes by: its classes, and what its objects hold.

Modules tell of attributes that are set, but not of lists that change in place (``conv.stride[0] = 2``), and
of classes only ``Tensor`` and ``Function`` tell that a method of them was replaced. So lists and ``forward``
are read where a module is called. Objects other than modules, such as distributions, count as read when they
are asked something.
"""

from __future__ import annotations

import types
from typing import Any

from jtorch.compile.observe.changes import is_changing
from jtorch.compile.observe.guards import AttributeRead
from jtorch.compile.observe.kinds import Kind, is_users, kind_of
from jtorch.core import watch
from jtorch.nn.module import Module
from jtorch.optim.optimizer import Optimizer

_LISTS = (list, dict, set)
_APART = "jtorch.compile."  # compiled functions are recorded inline
_THROUGH_EVALUATOR = ("jtorch.optim.", "jtorch.amp.grad_scaler")  # in the methods that say so, for numbers


def see_module(observer: Any, frame: types.FrameType | None, module: Any) -> None:
    """``module`` is called: the classes of it and of what it may call in turn, and their lists."""
    stack = [module]
    observer.relied.meet(module)
    while stack:
        module = stack.pop()
        if id(module) in observer.modules:
            continue
        observer.modules[id(module)] = module
        cls = type(module)
        if cls not in observer.classes:
            observer.classes[cls] = _runs_library_code(cls)
            own = is_users(cls) or "__call__" in vars(cls)
            for owner, name in ((cls, "forward"), (cls if own else Module, "__call__")):
                if hasattr(owner, name):
                    observer.read(AttributeRead, frame, owner, name, getattr(owner, name))
        facts = module.__dict__
        if observer.classes[cls]:
            for name, value in facts.items():
                if type(value) in _LISTS and not name.startswith("_"):
                    observer.meet(value)
                    observer.deep(frame, value)
        stack += [child for child in facts.get("_modules", {}).values() if child is not None]


def _runs_library_code(cls: type) -> bool:
    bases = (base for base in cls.__mro__ if not is_users(base) and base is not Module)
    return any("forward" in vars(base) for base in bases)


def see_objects(
    observer: Any, frame: types.FrameType | None, values: list[Any], method: str = ""
) -> None:  # fmt: skip
    """Code of jtorch's gets ``values``, maybe ``method`` of the first of them: what objects of its classes
    among them hold counts as read, where the recording does not follow that by itself."""
    for k, value in enumerate(values):
        if isinstance(value, Optimizer) and not _clears_alone(value, "" if k else method):
            observer.relied.use(value)
        if kind_of(type(value)) in (Kind.OURS, Kind.OBJECT) and observer.is_outside(value):
            base = next((c for c in type(value).__mro__ if str(c.__module__).startswith("jtorch.")), None)
            if base is not None and not _guards_itself(base, "" if k else method):
                observer.deep(frame, value)


def _clears_alone(optimizer: Optimizer, method: str) -> bool:
    """Whether ``method`` reads nothing of the optimizer's state."""
    return method == "zero_grad" and type(optimizer).zero_grad is Optimizer.zero_grad


def _guards_itself(base: type, method: str) -> bool:
    """Whether no guard is needed for what ``method`` of the class ``base`` of jtorch's reads; "" stands for
    whatever gets an object as a later argument, and for attributes."""
    if base.__module__.startswith(_THROUGH_EVALUATOR):
        asked = method in getattr(base, "_reads_through_evaluator", ())
        return not method or asked or is_changing(method)
    return base.__module__.startswith(_APART)


def read_method(observer: Any, frame: types.FrameType, cls: type, name: str) -> None:
    """The attribute ``name`` of a class of jtorch's, or of one that tells when somebody replaces it: what
    somebody put there is from outside then, and bases of a user's count as read, for they tell nothing."""
    base = next((base for base in cls.__mro__ if name in vars(base)), None)
    if base is None:
        return
    found, ours = vars(base)[name], str(base.__module__).startswith("jtorch")
    if isinstance(cls, watch.TellingClass):
        if is_users(base) and not isinstance(base, watch.TellingClass):
            observer.read(AttributeRead, frame, cls, name, getattr(cls, name))
        elif not (ours and str(getattr(found, "__module__", None)).startswith("jtorch")):
            observer.meet(found)
    elif isinstance(found, (types.FunctionType, property)) and str(cls.__module__).startswith("jtorch"):
        observer.read(AttributeRead, frame, cls, name, getattr(cls, name))
