"""What reading an attribute reads: found without running any code of the user's, which is watched itself."""

from __future__ import annotations

import threading
import types
from typing import Any

from jtorch.compile import hung
from jtorch.compile.effects import Place, Slot
from jtorch.compile.guards import MISSING, PLAIN, AttributeRead, ItemRead
from jtorch.compile.kinds import Kind, is_users, kind_of
from jtorch.compile.library import read_method, see_objects
from jtorch.compile.observe import Observer
from jtorch.compile.questions import see_tensor

# what a module tells of by itself
_MODULE_FACTS = frozenset({"training", "_parameters", "_buffers", "_modules"})
_WITH_FACTS = (Kind.OBJECT, Kind.OURS, Kind.FOREIGN, Kind.FUNCTION, Kind.CONTAINER, Kind.TUPLE)
_STABLE = (types.FunctionType, types.BuiltinFunctionType, property, type)


def read_attribute(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """``owner.name`` is about to be read."""
    kind = kind_of(type(owner))
    if isinstance(owner, types.MethodType) and name not in ("__self__", "__func__"):
        owner = owner.__func__
    if name == "__dict__" and kind is Kind.TENSOR:
        hung.see_all(observer, frame, owner)
    elif name == "__dict__" and observer.is_outside(owner):
        facts = vars(owner) if kind is Kind.TYPE else instance_facts(owner)
        observer.meet(facts)
        if kind is Kind.TYPE:  # of a dict it is seen what is done with it
            observer.contents(frame, facts)
    elif isinstance(owner, super):
        read_base(observer, frame, owner, name)
    elif kind is Kind.NAMESPACE:
        if name in owner.__dict__:
            observer.read(ItemRead, frame, owner.__dict__, name, owner.__dict__[name])
    elif kind is Kind.TENSOR and hung.is_hung(owner, name):
        hung.see(observer, frame, owner, name)
    elif kind is Kind.TENSOR:
        see_tensor(observer, frame, owner, name)
        read_method(observer, frame, type(owner), name)
    elif kind is Kind.TYPE:
        _read_class(observer, frame, owner, name)
    elif kind is Kind.ARRAY and name in ("shape", "dtype", "ndim", "size", "nbytes"):
        if id(owner) in observer.outside:
            observer.read(AttributeRead, frame, owner, name, getattr(owner, name))
    elif kind is Kind.ARRAY:
        observer.array(frame, owner)
    elif kind is Kind.MODULE:
        _read_module(observer, frame, owner, name)
    elif kind in _WITH_FACTS and observer.is_outside(owner):
        _read_instance(observer, frame, owner, name)
    elif kind is Kind.OBJECT and name not in (instance_facts(owner) or ()):
        _read_class(observer, frame, type(owner), name)


def _read_instance(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    cls = type(owner)
    if isinstance(owner, threading.local):  # has a dict for each thread
        observer.read(AttributeRead, frame, owner, name, getattr(owner, name, MISSING))
        return
    on_class = find(cls, name)
    if isinstance(on_class, types.MemberDescriptorType):  # a slot
        observer.read(AttributeRead, frame, owner, name, getattr(owner, name, MISSING))
        return
    if isinstance(on_class, types.GetSetDescriptorType) and kind_of(cls) is Kind.FUNCTION:  # __name__
        if (value := getattr(owner, name, MISSING)) is not MISSING:
            observer.read(AttributeRead, frame, owner, name, value)
        return
    if hasattr(type(on_class), "__set__"):  # a property comes before what the instance has
        see_objects(observer, frame, [owner])
        _read_class(observer, frame, cls, name)
        return
    facts = instance_facts(owner)
    if facts is not None:
        value = facts.get(name, MISSING)
        if value is not MISSING or on_class is MISSING or is_users(cls) or kind_of(cls) is Kind.OURS:
            observer.read(ItemRead, frame, facts, name, value)
        if "last_epoch" in facts and "optimizer" in facts and kind_of(cls) is Kind.OURS:
            observer.deep(frame, owner)  # a scheduler's methods compute from what it holds
        if value is not MISSING:
            return
    if on_class is MISSING and not isinstance(find(cls, "__getattr__"), (types.FunctionType, type(MISSING))):
        observer.contents(frame, owner)  # __getattr__ = dict.get
    _read_class(observer, frame, cls, name)


def _read_module(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """Of a module's own state only changes during the recording matter: it tells of others."""
    facts = owner.__dict__
    if name in _MODULE_FACTS:
        return
    for place in (facts, facts.get("_parameters", {}), facts.get("_buffers", {})):
        if name in place:
            if observer.is_outside(owner):
                observer.read(ItemRead, frame, place, name, place[name], guarded=False)
            return
    if name not in facts.get("_modules", {}):
        if observer.is_outside(owner):
            observer.read(ItemRead, frame, facts, name, MISSING, guarded=False)
        _read_class(observer, frame, type(owner), name)


def _read_class(observer: Observer, frame: types.FrameType, cls: type, name: str) -> None:
    """A value or a function of a class: may be replaced between calls where the class is a user's."""
    if not is_users(cls) or kind_of(cls) is Kind.PLAIN:
        read_method(observer, frame, cls, name)
        return
    found = find(cls, name)
    if found is MISSING and kind_of(cls) is not Kind.TYPE:
        _read_class(observer, frame, type(cls), name)
    if found is MISSING or id(cls) in observer.inside:
        return
    bound = isinstance(found, (classmethod, staticmethod))
    if not bound and (isinstance(found, _STABLE) or not hasattr(type(found), "__get__")):
        observer.read(AttributeRead, frame, cls, name, found)
    else:  # what reading it through the class gives is made anew each time
        base = next(c for c in cls.__mro__ if name in vars(c))
        observer.read(ItemRead, frame, vars(base), name, found)


def read_base(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """``super().name``"""
    order = owner.__self_class__.__mro__
    for base in order[order.index(owner.__thisclass__) + 1 :]:
        if name in vars(base):
            if is_users(base):
                observer.read(ItemRead, frame, vars(base), name, vars(base)[name])
            return


def compares_in_c(cls: type) -> bool:
    """Whether ``==`` of its instances compares what they hold, and nobody sees it do so."""
    if kind_of(cls) not in (Kind.OBJECT, Kind.FOREIGN):
        return False
    method = find(cls, "__eq__")
    return method is not object.__eq__ and not isinstance(method, types.FunctionType)


def find(cls: type, name: str) -> Any:
    """What the class has under a name, without asking its descriptors."""
    for base in cls.__mro__:
        facts = vars(base)
        if name in facts:
            return facts[name]
    return MISSING


def instance_facts(owner: Any) -> dict[str, Any] | None:
    """The instance's own dict."""
    try:
        facts = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    return facts if isinstance(facts, dict) else None


def write_attribute(observer: Observer, frame: types.FrameType, owner: Any, name: str, value: Any) -> None:
    """``owner.name = value`` is about to happen; MISSING deletes it."""
    kind = kind_of(type(owner))
    if kind is Kind.TENSOR and hung.is_hung(owner, name):
        hung.write(observer, frame, owner, name, value)
    if kind in (Kind.TENSOR, Kind.PLAIN) or not observer.is_outside(owner):
        return
    facts = instance_facts(owner) or {}
    before = facts.get(name, MISSING)
    for place in ("_parameters", "_buffers", "_modules") if kind is Kind.MODULE else ():
        before = facts.get(place, {}).get(name, before)
    if before is MISSING and isinstance(value, PLAIN):
        before = find(owner if kind is Kind.TYPE else type(owner), name)
        if isinstance(before, types.MemberDescriptorType):
            before = getattr(owner, name, MISSING)
        elif isinstance(before, property):
            return  # its setter is watched
        elif kind is not Kind.TYPE:
            before = MISSING
    observer.write(frame, owner, name, before, value, _place(owner, name, value))


def _place(owner: Any, name: str, value: Any) -> Place | None:
    """An attribute that a replay can write: the object's own, set in the usual way."""
    cls, kind = type(owner), kind_of(type(owner))
    if value is MISSING or not (kind in (Kind.OBJECT, Kind.MODULE) or cls is types.SimpleNamespace):
        return None
    facts = instance_facts(owner)
    if kind is Kind.MODULE and facts is not None:
        registered = any(name in facts.get(place, ()) for place in ("_parameters", "_buffers", "_modules"))
        if registered or name == "training" or type(value).__name__ in ("Parameter", "Buffer"):
            return None
        return Place(facts, name, of_module=True)
    usual = cls.__setattr__ is object.__setattr__ or cls is types.SimpleNamespace
    if not usual:  # which is watched, or sets who knows what
        return None
    on_class = find(cls, name)
    if isinstance(on_class, types.MemberDescriptorType):
        return Slot(owner, name)
    return None if facts is None or hasattr(type(on_class), "__set__") else Place(facts, name)
