"""What reading an attribute reads: found without running any code of the user's, which is watched itself."""

from __future__ import annotations

import enum
import functools
import threading
import types
from collections.abc import Iterable
from typing import Any

from jtorch.compile.observe import user_attributes
from jtorch.compile.observe.cached import see_handed
from jtorch.compile.observe.effects import Kept, Place, Slot
from jtorch.compile.observe.fact_guards import FlagsRead
from jtorch.compile.observe.guards import (
    MISSING,
    PLAIN,
    AttributeRead,
    CellRead,
    ContentsRead,
    ItemRead,
    LocalRead,
    OwnDictRead,
    OwnRead,
    content_of,
    contents,
    instance_facts,
    local_facts,
    slot_of,
)  # fmt: skip
from jtorch.compile.observe.kinds import (
    IMMUTABLE,
    POINTER,
    Kind,
    is_observed,
    is_set_by_users,
    is_users,
    kind_of,
    lends_memory,
    origin_of,
)
from jtorch.compile.observe.library import read_method, see_objects
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.questions import is_brought, see_tensor
from jtorch.compile.observe.reading import source_of
from jtorch.compile.observe.stand_ins import check_attribute, is_stand_in
from jtorch.eager.tensor import Tensor
from jtorch.nn.global_hooks import REGISTRATION
from jtorch.nn.module import Module

# what a module tells of by itself
_MODULE_FACTS = frozenset({"training", "_parameters", "_buffers", "_modules"})
_OF_MEMORY = frozenset({"base", "ctypes", "data", "__array_interface__"})
_WITH_FACTS = (Kind.OBJECT, Kind.VALUE, Kind.OURS, Kind.FOREIGN, Kind.FUNCTION, Kind.CONTAINER, Kind.TUPLE)
_WITH_SPECIAL = (Kind.OBJECT, Kind.MODULE, Kind.VALUE, Kind.CONTAINER, Kind.TUPLE)
CALLABLES: set[type] = set()  # classes of the library's whose instances are functions to the user
_STABLE = (types.FunctionType, types.BuiltinFunctionType, property, type)


# What tensors of the first step of a loop may answer otherwise than those of later ones.
_OF_A_STEP = frozenset({
    "requires_grad", "is_leaf", "grad_fn", "grad", "_version", "stride", "data_ptr", "is_contiguous",
    "storage_offset", "untyped_storage", "output_nr", "_base", "retains_grad", "_is_view",
})  # fmt: skip


def read_attribute(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """``owner.name`` is about to be read."""
    owner = origin_of(owner, name)
    kind = kind_of(type(owner))
    if kind is Kind.TENSOR and name in _OF_A_STEP:
        observer.effects.leave_turn(f"asks a tensor for its {name}")
    if kind is Kind.PLAIN and is_stand_in(owner):
        check_attribute(owner, name)
    if kind in (Kind.OBJECT, Kind.VALUE, Kind.MODULE, Kind.OURS, Kind.FOREIGN):
        _note_kept(observer, frame, owner, name)
    if isinstance(owner, types.MethodType) and name not in ("__self__", "__func__"):
        owner = owner.__func__
    observer.see_class(frame, owner)
    if name == "contents" and isinstance(owner, POINTER) and observer.is_outside(owner):
        raise observer.through_pointer(frame)
    if name == "__dict__" and isinstance(owner, threading.local):
        raise observer.error(
            frame, "asks for all attributes of a threading.local, which has others in each thread",
            "Ask for them by name: hasattr(it, name), getattr(it, name, None).",
        )  # fmt: skip
    if name == "__dict__" and kind is Kind.TENSOR:
        user_attributes.see_all(observer, frame, owner)
    elif name == "__dict__" and observer.is_outside(owner):
        facts = vars(owner) if kind is Kind.TYPE else instance_facts(owner)
        observer.meet(facts)
        if kind is Kind.TYPE:  # of a dict it is seen what is done with it
            observer.contents(frame, facts)
    elif name == "__metadata__":  # of typing.Annotated
        observer.meet(getattr(owner, name, ()))
    elif isinstance(owner, super):
        read_base(observer, frame, owner, name)
    elif kind is Kind.NAMESPACE:
        facts = owner.__dict__
        if name in facts or not ("__getattr__" in facts or hasattr(type(owner), "__getattr__")):
            observer.read(ItemRead, frame, facts, name, facts.get(name, MISSING))
        if is_users(type(owner)):
            _read_class(observer, frame, type(owner), name)
    elif kind in (Kind.TENSOR, Kind.ARRAY) and _is_of_users_class(type(owner), name):
        if kind is Kind.ARRAY:
            _read_instance(observer, frame, owner, name)
            return
        if not hasattr(type(find(type(owner), name)), "__set__"):
            user_attributes.see(observer, frame, owner, name)
        _read_class(observer, frame, type(owner), name)
    elif kind is Kind.TENSOR and user_attributes.is_hung(owner, name):
        user_attributes.see(observer, frame, owner, name)
    elif kind is Kind.TENSOR:
        see_tensor(observer, frame, owner, name)
        read_method(observer, frame, type(owner), name)
    elif kind is Kind.TYPE:
        _read_class(observer, frame, owner, name)
    elif kind is Kind.ARRAY and name in ("shape", "dtype", "ndim", "size", "nbytes", "strides"):
        if id(owner) in observer.outside:
            observer.read(AttributeRead, frame, owner, name, getattr(owner, name))
    elif kind is Kind.ARRAY and name == "flags":
        if id(owner) in observer.outside:
            observer.facts(FlagsRead, frame, owner)
    elif kind is Kind.ARRAY and name in _OF_MEMORY and is_brought(observer, owner):
        raise observer.error(
            frame,
            f"asks {name} of a NumPy array that each call brings, and it may be of other memory then",
            "Ask it outside, and pass the answer in.",
        )
    elif kind is Kind.ARRAY:
        observer.array(frame, owner)
    elif kind is Kind.MODULE:
        _read_module(observer, frame, owner, name)
    elif isinstance(owner, enum.Enum) and find(type(owner), name) is find(enum.Enum, name) is not MISSING:
        observer.meet(owner._value_)
    elif kind in _WITH_FACTS and observer.is_outside(owner):
        _read_instance(observer, frame, owner, name)
    elif kind in (Kind.OBJECT, Kind.VALUE) and name not in (instance_facts(owner) or ()):
        _read_class(observer, frame, type(owner), name)


def _is_of_users_class(cls: type, name: str) -> bool:
    """Whether an instance's ``name`` is a matter of a user's class: found there before any of a library's, or
    nowhere."""
    if not is_users(cls) or name.startswith("__"):
        return False
    base = next((base for base in cls.__mro__ if name in vars(base)), cls)
    return is_users(base)


def _note_kept(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """Where ``owner.name`` runs a method whose result the object keeps: eager mode does so once."""
    facts = instance_facts(owner)
    if facts is None or name in facts or not observer.is_outside(owner):
        return
    kept = find(type(owner), name)
    if not isinstance(kept, functools.cached_property):
        return
    source = source_of(frame)
    observer.as_met.keep(facts, name)
    if not observer.once(source, name, kept.func, [owner], lambda: getattr(owner, name)):
        observer.caches.setdefault((id(facts), name), (Kept(facts, name, kept.func), source))


def _read_instance(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    cls = type(owner)
    if isinstance(owner, threading.local):  # has a dict for each thread
        value = local_facts(owner).get(name, MISSING)
        observer.read(LocalRead, frame, owner, name, value)
        if value is MISSING or hasattr(type(find(cls, name)), "__set__"):
            _read_class(observer, frame, cls, name)
        return
    on_class = find(cls, name)
    if isinstance(on_class, types.MemberDescriptorType):
        observer.read(AttributeRead, frame, owner, name, slot_of(owner, name))
        return
    if isinstance(on_class, types.GetSetDescriptorType) and kind_of(cls) is Kind.FUNCTION:  # __name__
        if (value := getattr(owner, name, MISSING)) is not MISSING:
            observer.read(AttributeRead, frame, owner, name, value)
        return
    if hasattr(type(on_class), "__set__"):  # a property comes before what the instance has
        see_objects(observer, frame, [owner])
        _read_class(observer, frame, cls, name)
        _read_property(observer, frame, owner, name, on_class)
        return
    facts = instance_facts(owner)
    if facts is not None:
        value = facts.get(name, MISSING)
        observer.read(ItemRead, frame, facts, name, value)
        if is_users(cls) or kind_of(cls) is Kind.FUNCTION:
            observer.facts(OwnDictRead, frame, owner)
        followed = name in getattr(cls, "_reads_through_evaluator", ())
        if "last_epoch" in facts and "optimizer" in facts and kind_of(cls) is Kind.OURS and not followed:
            observer.deep(frame, owner)  # a scheduler's methods compute from what it holds
        if value is not MISSING:
            if on_class is not MISSING and is_users(type(on_class)):  # with this it would come first
                _read_class(observer, frame, type(on_class), "__set__")
            return
    if on_class is MISSING and not isinstance(find(cls, "__getattr__"), (types.FunctionType, type(MISSING))):
        observer.contents(frame, owner)  # __getattr__ = dict.get
    _read_class(observer, frame, cls, name)
    if on_class is MISSING:
        _read_class(observer, frame, cls, "__getattr__")


def _read_property(
    observer: Observer, frame: types.FrameType, owner: Any, name: str, descriptor: Any
) -> None:  # fmt: skip
    """A property of a library's class: in Python it reads what the object holds, in C a number there."""
    kind, getter = kind_of(type(owner)), getattr(descriptor, "fget", None)
    if isinstance(owner, types.CellType):
        observer.read(CellRead, frame, owner, name, content_of(owner))
    elif kind in (Kind.OBJECT, Kind.FOREIGN) and isinstance(getter, types.FunctionType):
        if not is_observed(getter.__code__, getter.__globals__):
            observer.deep(frame, owner)
    elif kind is Kind.FOREIGN or type(descriptor).__module__ in ("_ctypes", "ctypes"):
        value = getattr(owner, name, MISSING)
        if isinstance(value, PLAIN) or (type(value) is tuple and all(isinstance(v, PLAIN) for v in value)):
            observer.read(AttributeRead, frame, owner, name, value)


def _read_module(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """Of a module's own state only changes during the recording matter: it tells of others, unless its class
    sets attributes in a way of its own."""
    facts = owner.__dict__
    observer.relied.meet(owner)
    if name in _MODULE_FACTS:
        if name != "training":
            observer.relied.open(owner)
        if observer.on_the_way_back and name == "training":
            observer.read(ItemRead, frame, facts, name, facts[name], guarded=False)
        return
    places = [facts, *(facts.get(place, {}) for place in ("_parameters", "_buffers", "_modules"))]
    for place in places:
        if name in place:
            if observer.is_outside(owner):
                silent = isinstance(place[name], PLAIN) and not _is_usual(type(owner).__setattr__)
                observer.read(ItemRead, frame, place, name, place[name], guarded=silent)
            return
    if observer.is_outside(owner):
        for place in places:
            observer.read(ItemRead, frame, place, name, MISSING, guarded=False)
    _read_class(observer, frame, type(owner), name)


def _read_class(observer: Observer, frame: types.FrameType, cls: type, name: str) -> None:
    """A value or a function of a class: may be replaced between calls where the class is a user's, and set
    where it is not there at all."""
    found = find(cls, name)
    if issubclass(cls, enum.Enum) and name in cls._member_map_:
        return
    if kind_of(cls) is Kind.PLAIN:
        return
    if not (found is MISSING or is_users(cls) or is_set_by_users(found)):
        read_method(observer, frame, cls, name)
        return
    if found is MISSING and kind_of(cls) is not Kind.TYPE and is_users(type(cls)):
        _read_class(observer, frame, type(cls), name)
    if isinstance(found, property) and id(cls) not in observer.inside:
        see_handed(observer, frame, observer.met(found.fget))
    if isinstance(found, functools.singledispatchmethod):
        observer.contents(frame, observer.met(found.dispatcher.registry))
    bound = isinstance(found, (classmethod, staticmethod)) or not is_users(cls) or id(cls) in observer.inside
    stable = isinstance(found, _STABLE) or not hasattr(type(found), "__get__")
    if found is not MISSING and stable and not bound:
        observer.read(AttributeRead, frame, cls, name, found)
    else:  # what reading it through the class gives is made anew each time
        _read_bases(observer, frame, cls.__mro__, name)


def _read_bases(observer: Observer, frame: types.FrameType, order: Iterable[type], name: str) -> None:
    """The first of these classes that has ``name``, and that those before it have not."""
    passed = []
    for base in order:
        if name in vars(base):
            if is_users(base) or is_set_by_users(vars(base)[name]):
                passed.append(base)
            break
        passed.append(base)
    if name in vars(base) or name.startswith("__"):  # what libraries' classes lack they hardly get
        passed = [each for each in passed if is_users(each) or name in vars(each)]
    for base in passed:
        if id(base) not in observer.inside and not base.__flags__ & IMMUTABLE:
            observer.read(OwnRead, frame, base, name, vars(base).get(name, MISSING))


def read_base(observer: Observer, frame: types.FrameType, owner: Any, name: str) -> None:
    """``super().name``"""
    order = owner.__self_class__.__mro__
    _read_bases(observer, frame, order[order.index(owner.__thisclass__) + 1 :], name)


_OF_ITEMS = frozenset({"__getitem__", "__iter__", "__contains__", "__len__"})
TRUTH = ("__bool__", "__len__")


def read_special(observer: Observer, frame: types.FrameType, owner: Any, *names: str) -> None:
    """The interpreter is about to call these methods of ``owner``, those there are. Where a user's class has
    one from a library's, or all is jtorch's, code that is not watched reads what the object holds."""
    cls, kind = type(owner), kind_of(type(owner))
    if kind is Kind.OURS:
        see_objects(observer, frame, [owner])
    if kind not in _WITH_SPECIAL or not is_users(cls):
        return
    observer.see_class(frame, owner)
    for name in names:
        _read_class(observer, frame, cls, name)
        method = find(cls, name)
        if kind is not Kind.OBJECT or not observer.is_outside(owner):
            continue
        if isinstance(method, types.FunctionType):
            if not is_observed(method.__code__, method.__globals__):
                observer.deep(frame, owner)
        elif method is not MISSING and name in _OF_ITEMS and not is_in_python(cls, "__iter__"):
            if isinstance(owner, POINTER):
                raise observer.through_pointer(frame)
            if lends_memory(owner):
                observer.memory(frame, owner)
            else:
                observer.read(ContentsRead, frame, owner, None, contents(owner))


def is_in_python(cls: type, name: str) -> bool:
    """Whether a method was written by a user, so that to call it once more is to run the program once more;
    those that dataclasses write do nothing else."""
    code = getattr(find(cls, name), "__code__", None)
    return code is not None and not code.co_filename.startswith("<")


def hashes_in_python(key: Any) -> bool:
    """Whether looking for ``key`` in a dict or set runs code of a user's."""
    if type(key) is tuple:
        return any(map(hashes_in_python, key))
    return kind_of(type(key)) in (Kind.OBJECT, Kind.VALUE) and is_in_python(type(key), "__hash__")


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


def write_attribute(
    observer: Observer, frame: types.FrameType, owner: Any, name: str, value: Any, base: bool = False
) -> None:
    """``owner.name = value`` is about to happen; MISSING deletes it. ``base``: in the usual way, whatever
    ``__setattr__`` the class has."""
    owner = origin_of(owner, name)
    kind = kind_of(type(owner))
    observer.change_given(frame, owner)
    if kind is Kind.PLAIN and is_stand_in(owner):
        raise owner.refuse("setting an attribute")
    if kind is Kind.TENSOR and user_attributes.is_hung(owner, name):
        user_attributes.write(observer, frame, owner, name, value)
    if kind in (Kind.TENSOR, Kind.PLAIN) or not observer.is_outside(owner):
        return
    if _sets_by_itself(type(owner), name, value is MISSING, base):
        return
    facts = instance_facts(owner) or {}
    if name in facts.get("_buffers", ()) and kind is Kind.MODULE and not _is_for_buffer(value):
        return  # its __setattr__ raises
    before = facts.get(name, MISSING)
    for place in ("_parameters", "_buffers", "_modules") if kind is Kind.MODULE else ():
        before = facts.get(place, {}).get(name, before)
    if before is MISSING and isinstance(value, (*PLAIN, Tensor)):
        on_class = find(owner if kind is Kind.TYPE else type(owner), name)
        if isinstance(on_class, types.MemberDescriptorType):
            before = getattr(owner, name, MISSING)
        elif kind is Kind.TYPE and isinstance(value, PLAIN):
            before = on_class
    observer.write(frame, owner, name, before, value, _place(owner, name, value, base))


def _sets_by_itself(cls: type, name: str, deletes: bool, base: bool) -> bool:
    """Whether code of the user's decides what becomes of an attribute that is set: it is watched."""
    if not base and is_watched(find(cls, "__delattr__" if deletes else "__setattr__")):
        return True
    on_class = find(cls, name)
    if isinstance(on_class, property):
        return is_watched(on_class.fdel if deletes else on_class.fset)
    return is_watched(find(type(on_class), "__delete__" if deletes else "__set__"))


def changes_unseen(observer: Observer, frame: types.FrameType, owner: Any, key: Any, method: str) -> None:
    """``owner`` is about to be changed by a method of its class: by one that is watched, or else an error."""
    found = find(type(owner), method)
    if found is not MISSING and not is_watched(found) and observer.is_outside(owner):
        observer.write(frame, owner, key, MISSING, owner)


def is_watched(function: Any) -> bool:
    """Whether a function, found in a class, is the user's own."""
    return isinstance(function, types.FunctionType) and is_observed(function.__code__, function.__globals__)


def _place(owner: Any, name: str, value: Any, base: bool) -> Place | None:
    """An attribute that a replay can write: the object's own, set in the usual way."""
    cls, kind = type(owner), kind_of(type(owner))
    plain = cls is types.SimpleNamespace or isinstance(owner, types.FunctionType) or cls in CALLABLES
    if value is MISSING or not (kind in (Kind.OBJECT, Kind.VALUE, Kind.MODULE) or plain):
        return None
    if not base and not plain and not _is_usual(cls.__setattr__):  # which sets who knows what
        return None
    facts, on_class = instance_facts(owner), find(cls, name)
    if isinstance(on_class, types.MemberDescriptorType):
        return Slot(owner, name)
    if facts is None or hasattr(type(on_class), "__set__"):
        return None
    if kind is not Kind.MODULE:
        return Place(facts, name)
    registered = any(name in facts.get(place, ()) for place in ("_parameters", "_modules"))
    if registered or name == "training" or type(value).__name__ in ("Parameter", "Buffer"):
        return None
    buffers = facts.get("_buffers", {})
    if name in buffers and REGISTRATION["buffer"]:  # hooks see what is set, and may exchange it
        return None
    return Place(buffers if name in buffers else facts, name, of_module=True)


def _is_for_buffer(value: Any) -> bool:
    """Whether a module takes ``value`` for a registered buffer, or forgets that one for it."""
    return value is MISSING or value is None or isinstance(value, (Tensor, Module))


def _is_usual(method: Any) -> bool:
    """Whether a ``__setattr__`` puts values into the object, or its dict, as they are: ``Module``'s does."""
    if method is object.__setattr__ or method is types.SimpleNamespace.__setattr__:
        return True
    return bool(getattr(method, "__module__", None) == "jtorch.nn.module")
