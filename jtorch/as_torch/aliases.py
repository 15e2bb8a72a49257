"""The import hook: ``torch`` and what is below it are jtorch's own modules, the very same objects."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import jtorch
from jtorch.as_torch import children
from jtorch.as_torch.missing import is_import, place_of, reason, sentence, whole_name
from jtorch.as_torch.stubs import ABSENT, absent, is_stub, stub
from jtorch.core import dtypes

# the longest prefix decides; PyTorch keeps its layers one package deeper
_NAMES = {
    "torch": "jtorch",
    "torch.nn.modules": "jtorch.nn",
    "torch.nn.modules.module": "jtorch.nn.modules.module",
    "torch.nn.modules.utils": "jtorch.as_torch.tuples",
    "torch.serialization": "jtorch.serialization",
    "torch.random": "jtorch.random",
    "torch.distributed._composable.fsdp": "jtorch.distributed.fsdp",  # where it was first
    "torch.optim._functional": "",
    "torchvision": "jtorch.vision",
}


# PyTorch's files of layers: all their layers are in jtorch.nn
_LAYERS = frozenset((
    "activation", "adaptive", "batchnorm", "container", "conv", "distance", "dropout", "flatten", "fold",
    "instancenorm", "lazy", "linear", "loss", "normalization", "padding", "pixelshuffle", "pooling", "rnn",
    "sparse", "transformer", "upsampling",
))  # fmt: skip


def target(name: str) -> str | None:
    """The module that ``name`` stands for: "jtorch.nn" for "torch.nn"; None where there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        ours = _NAMES.get(".".join(parts[:end]))
        if ours is None:
            continue
        found = ".".join([ours, *parts[end:]]) if ours else ""
        if found and _exists(found):
            return found
        return "jtorch.nn" if ".".join(parts[:-1]) == "torch.nn.modules" and parts[-1] in _LAYERS else None
    return None


def _exists(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False


class _Loader(importlib.abc.Loader):
    """Hands out a module that exists, as it is."""

    def __init__(self, make: Callable[[], types.ModuleType]) -> None:
        self.make = make

    def create_module(self, spec: Any) -> types.ModuleType:
        module = self.make()
        self.spec = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.spec  # the machinery has put the alias there


class Finder(importlib.abc.MetaPathFinder):
    """Finds ``torch``, ``torchvision`` and all below them, before any other finder is asked."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target_module: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in ("torch", "torchvision"):
            return None
        found = target(fullname)
        if found is not None:
            return _spec(fullname, lambda: _told(importlib.import_module(found), fullname))
        if is_stub(fullname):
            return _spec(fullname, lambda: stub(fullname))
        raise ModuleNotFoundError(
            f"No module named {fullname!r}: jtorch has none of that name ({_importer()}): {reason(fullname)}",
            name=fullname,
        )


def _spec(name: str, make: Callable[[], types.ModuleType]) -> importlib.machinery.ModuleSpec:
    return importlib.machinery.ModuleSpec(name, _Loader(make), is_package=True)


def _importer() -> str:
    """The place in the script that an import was started from."""
    frame: Any = sys._getframe(1)
    while frame and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return place_of(frame) if frame else "?"


def _told(module: types.ModuleType, name: str) -> types.ModuleType:
    """``module``, whose missing names are told as those of ``name``."""
    if module.__name__.partition(".")[0] == "jtorch" and "__torch_name__" not in module.__dict__:
        module.__dict__["__torch_name__"] = name
        module.__dict__["__getattr__"] = _missing_from(module, name)
    return module


def _missing_from(module: types.ModuleType, name: str) -> Callable[[str], Any]:
    own = module.__dict__.get("__getattr__")  # of a module that imports some of its names late

    def missing(attribute: str) -> Any:
        if own is not None:
            with contextlib.suppress(AttributeError):
                return own(attribute)
        frame = sys._getframe(1)
        full = f"{name}.{attribute}"
        if attribute in ABSENT.get(name, ()):
            return absent(full)
        if attribute.startswith("__") or "importlib" in frame.f_code.co_filename:
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if target(full) is not None or is_stub(full):  # a module nobody has imported yet, as torch.nn is
            return importlib.import_module(full)
        if is_import(frame):
            raise ImportError(sentence(full, place_of(frame)), name=name)
        raise AttributeError(sentence(whole_name(frame, full), place_of(frame)), name=attribute, obj=module)

    return missing


def install() -> None:
    """Make ``torch`` mean jtorch in this process and those it starts. RuntimeError where it is late."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    present = sys.modules.get("torch")
    if present is not None and present is not jtorch:
        raise RuntimeError("PyTorch is already imported: jtorch.as_torch.install() must come before it")
    sys.meta_path.insert(0, Finder())
    dtypes.NAMESPACE = "torch"  # float64 prints as torch.float64
    jtorch.Tensor.__module__ = "torch"
    children.inherit()
    importlib.import_module("torch")
