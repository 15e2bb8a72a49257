"""What kind of thing a value is to somebody who watches a recording, and whose code a frame runs."""

from __future__ import annotations

import ctypes
import enum
import functools
import gc
import importlib.util
import inspect
import os
import sys
import sysconfig
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from jtorch.compile.observe.guards import PLAIN
from jtorch.compile.observe.scalar import StandIn
from jtorch.core.dim import Dim, DimFloat
from jtorch.core.generator import Generator
from jtorch.eager.selection import Selection
from jtorch.eager.tensor import Tensor


class Kind(enum.Enum):
    """PLAIN has no parts that change; VALUE is a number, a text or a member of an enum, of a user's class, so
    that attributes may hang on it; TENSOR and MODULE announce changes themselves; TUPLE can't change, but
    what it holds may; OURS is of a class of jtorch's, OBJECT of a user's, FOREIGN of anybody else's."""

    PLAIN = enum.auto()
    VALUE = enum.auto()
    TENSOR = enum.auto()
    MODULE = enum.auto()
    NAMESPACE = enum.auto()
    TYPE = enum.auto()
    FUNCTION = enum.auto()
    CONTAINER = enum.auto()
    TUPLE = enum.auto()
    ARRAY = enum.auto()
    ITERATOR = enum.auto()
    OURS = enum.auto()
    OBJECT = enum.auto()
    FOREIGN = enum.auto()


WITH_A_CLASS = (Kind.OBJECT, Kind.VALUE, Kind.CONTAINER, Kind.TUPLE)  # whose class counts, if it is a user's
IGNORED = (Kind.PLAIN, Kind.TENSOR, Kind.NAMESPACE, Kind.TYPE)  # which hold nothing to look at

FUNCTIONS = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, functools.partial,
)  # fmt: skip
_BY_CLASS: tuple[tuple[Any, Kind], ...] = (
    (np.void, Kind.FOREIGN),  # a record, which can be written into
    ((*PLAIN, np.generic, np.dtype, enum.Enum, StandIn, Generator, range, slice, super), Kind.PLAIN),
    ((Dim, DimFloat), Kind.PLAIN),
    (Selection, Kind.OURS),
    (Tensor, Kind.TENSOR),
    (types.ModuleType, Kind.NAMESPACE),
    (type, Kind.TYPE),
    (FUNCTIONS, Kind.FUNCTION),
    ((dict, list, set, deque, bytearray), Kind.CONTAINER),
    ((tuple, frozenset), Kind.TUPLE),
    (np.ndarray, Kind.ARRAY),
)


_BESIDE = frozenset({"jtorch", "numpy", "scipy"})
_LIBRARIES = sys.stdlib_module_names | _BESIDE


_FORMS: tuple[Any, ...] = (types.GenericAlias, types.UnionType)
_OF_FORMS = frozenset({"typing", "typing_extensions", "annotationlib"})


def _is_form(cls: type) -> bool:
    """Whether its instances are what annotations are made of (``Union``, ``list[int]``, a ``TypeVar``), which
    do not change."""
    if issubclass(cls, type):
        return False
    return issubclass(cls, _FORMS) or (str(cls.__module__) in _OF_FORMS and not is_users(cls))


def origin_of(value: Any, name: str = "") -> Any:
    """The class that ``value`` stands for, of which it asks ``name``, where it is ``list[int]`` or the like;
    ``value`` itself where it is not."""
    if isinstance(value, (types.GenericAlias, _ALIAS)) and not name.startswith("__"):
        return value.__origin__
    return value


_LIST: Any = typing.List  # noqa: UP006
_ALIAS: Any = type(_LIST[int]).__mro__[1]  # the base of all of typing's


def _kind_of(cls: type) -> Kind:
    if _is_form(cls):
        return Kind.PLAIN
    for classes, kind in _BY_CLASS:
        if issubclass(cls, classes):
            return Kind.VALUE if kind is Kind.PLAIN and is_users(cls) else kind
    if hasattr(cls, "forward") and hasattr(cls, "named_modules"):
        return Kind.MODULE
    if issubclass(cls, Iterator) and not is_users(cls):  # a user's is watched
        return Kind.ITERATOR
    if is_users(cls):
        return Kind.OBJECT
    return Kind.OURS if str(cls.__module__).partition(".")[0] == "jtorch" else Kind.FOREIGN


kind_of: Callable[[type], Kind] = functools.lru_cache(4096)(_kind_of)  # the kind of the instances of a class


def _is_users(cls: type) -> bool:
    """Whether a class was written by a user: its methods may be replaced between calls. What ``exec``,
    ``types.new_class`` or ``make_dataclass`` made says that it is of "builtins" or "types", and a file that
    was loaded by its path may be called as a module of Python's is: so such a class must be found there, or
    have a method from there, as those do that functions make."""
    name = str(cls.__module__)
    if not is_library(name):
        return True
    if name.partition(".")[0] in _BESIDE or cls.__flags__ & IMMUTABLE:
        return False
    return not (_is_found_in(cls, name) or _is_written_in(cls, name))


def _is_found_in(cls: type, name: str) -> bool:
    found: Any = sys.modules.get(name)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


def _is_written_in(cls: type, name: str) -> bool:
    """Whether a method of the class is code of this module's, or of C."""
    files = (getattr(sys.modules.get(name), "__file__", None), f"<frozen {name}>")
    return any(
        (isinstance(fact, types.FunctionType) and fact.__code__.co_filename in files)
        or (isinstance(fact, _OF_C) and fact.__objclass__ is cls)
        for fact in vars(cls).values()
    )


IMMUTABLE = 1 << 8  # of a class's flags: written in C, and gets no attributes
_OF_C = (types.MethodDescriptorType, types.WrapperDescriptorType)

is_users: Callable[[type], bool] = functools.lru_cache(4096)(_is_users)


def is_library(name: str, module: types.ModuleType | None = None) -> bool:
    """Whether a module is jtorch's, NumPy's, SciPy's or the standard library's: by its file where it has one,
    since a user's own ``profile.py`` is not."""
    if name.partition(".")[0] not in _LIBRARIES:
        return False
    file = getattr(module or sys.modules.get(name), "__file__", None)
    return not isinstance(file, str) or file.startswith(_LIBRARY_FOLDERS) or _is_standard(file)


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "site-packages" not in file and "dist-packages" not in file


def is_set_by_users(fact: Any) -> bool:
    """Whether what a library's class has was put there by a user: a function of theirs, or a constant, which
    libraries' classes have few of."""
    fact = getattr(fact, "fget", None) or getattr(fact, "__func__", fact)
    if isinstance(fact, types.FunctionType):
        return is_observed(fact.__code__, fact.__globals__)
    return not callable(fact) and not hasattr(type(fact), "__get__")


_HEAP_TYPE = 1 << 9  # of a class's flags: Python made it, where classes of C's own have a fixed layout


def _keeps_attributes(cls: type) -> bool:
    """Whether methods that are not watched may give its instances attributes, to keep what they computed:
    those of a class in Python of a library's, as an optimizer's ``step``."""
    libraries = (base for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE and not is_users(base))
    return any(
        isinstance(fact, types.FunctionType) and not name.startswith("_")
        for base in libraries
        for name, fact in vars(base).items()
    )


keeps_attributes: Callable[[type], bool] = functools.lru_cache(4096)(_keeps_attributes)


POINTER: Any = ctypes.POINTER(ctypes.c_int).__base__  # of all classes of pointers


def lends_memory(value: Any) -> bool:
    """Whether an object other than of NumPy lends its memory, without running code of the user's."""
    if any(isinstance(vars(base).get("__buffer__"), types.FunctionType) for base in type(value).__mro__):
        return False
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


Held = tuple[tuple[str, type | None], ...]


OF_SIGNATURES = (
    inspect.Signature,
    inspect.Parameter,
)  # whose slots lead to defaults, which users may change


def _held_by_class(cls: type) -> Held:
    """What an instance has by its class, if that is a user's: (slot, None), and (constant, base)."""
    if cls in OF_SIGNATURES:
        return tuple((name, None) for name in cls.__slots__)
    found: dict[str, type | None] = {}
    for base in cls.__mro__:
        for name, fact in vars(base).items() if is_users(base) else ():
            if isinstance(fact, types.MemberDescriptorType):
                found.setdefault(name, None)
            elif not name.startswith("__") and not callable(fact) and not hasattr(type(fact), "__get__"):
                found.setdefault(name, base)
    return tuple(found.items())


held_by_class: Callable[[type], Held] = functools.lru_cache(4096)(_held_by_class)


def _spelt(folders: Iterable[str]) -> tuple[str, ...]:
    """As modules found there say it, and with links followed: environments link lib64 to lib."""
    return tuple({each + os.sep for folder in folders for each in (folder, os.path.realpath(folder))})


_STANDARD = _spelt(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib"))
_PACKAGE = Path(__file__).parents[2]
_COMPILERS = (importlib.util.find_spec(name) for name in ("numba", "llvmlite"))  # not imported for that
_LIBRARY_FILES = (
    *(m.__file__ for m in (np, scipy)),
    *(spec.origin for spec in _COMPILERS if spec is not None),
)
_LIBRARY_FOLDERS = _spelt(map(str, (_PACKAGE, *(Path(file or "").parent for file in _LIBRARY_FILES))))
_HOOKS = tuple(  # which set attributes of modules at each call, and are looked at like the user's own code
    str(_PACKAGE / "nn" / "utils" / name) for name in ("weight_norm.py", "spectral_norm.py", "pruning.py")
)
_OPAQUE = ("<frozen ", "<jtorch ", "<__array_function__", *_LIBRARY_FOLDERS)


def is_observed(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether a frame of ``code`` with these globals is looked into: not in jtorch, the standard library,
    NumPy, SciPy or Numba, whose callbacks come when garbage is collected, nor where the interpreter calls by
    itself for that."""
    file = code.co_filename
    if file in _HOOKS and code.co_name == "__call__":
        return True
    if file.startswith(_OPAQUE) or code.co_name == "__del__":
        return False
    if any(getattr(callback, "__code__", None) is code for callback in gc.callbacks):
        return False
    if file.startswith("<"):  # made from text, as a dataclass's methods are
        name = str(namespace.get("__name__"))  # of a user's class, too, one of the standard library's
        return not name.startswith("namedtuple_") and name.partition(".")[0] not in _BESIDE
    return not _is_standard(file)
