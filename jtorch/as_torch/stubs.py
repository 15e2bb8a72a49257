"""Stand-ins for packages that scripts import at the top and use only on some machines.

``from torch.distributed.fsdp import FullyShardedDataParallel`` passes; making one is the error.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from jtorch.as_torch.missing import NOT_PLANNED, PLANNED, place_of, sentence

_NO_STUBS = (  # there, or nothing without it
    "torch.jit", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.hub", "torch.masked",
)  # fmt: skip
PACKAGES = tuple(n for n in (*PLANNED, *NOT_PLANNED) if n not in _NO_STUBS)


# Names of packages that are there, which scripts import and may not use either
ABSENT = {
    "torch.distributed.fsdp": (
        "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
        "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision", "ShardedOptimStateDictConfig",
        "ShardedStateDictConfig", "ShardingStrategy", "StateDictType",
    ),
    "torch.masked": ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"),
}  # fmt: skip


class _Absent(type):
    """The class of names that are not there: using one raises, asking whether a thing is one says no."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(sentence(cls.torch_name, place_of(sys._getframe(1))))  # type: ignore[attr-defined]

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.torch_name}.{name}")  # type: ignore[attr-defined]

    def __repr__(cls) -> str:
        return f"<{cls.torch_name}: not in jtorch>"  # type: ignore[attr-defined]


def absent(name: str) -> Any:
    """A stand-in for the function, class or constant ``name``."""
    return _Absent(name.rpartition(".")[2], (), {"torch_name": name, "__doc__": "Not in jtorch."})


def no() -> bool:
    """What a package that is not there says to ``is_available()`` and ``is_initialized()``."""
    return False


def is_absent(value: Any) -> bool:
    """Whether ``value`` is such a stand-in."""
    return isinstance(value, _Absent)


def _itself(fn_or_name: Any) -> Any:
    """What ``torch.fx.wrap`` does where nothing traces symbolically: a mark that libraries set at import."""
    return fn_or_name


_ANSWERS: dict[str, dict[str, Any]] = {
    "torch.fx": {"wrap": _itself},
    "torch.onnx": {"is_in_onnx_export": no},
}


def is_stub(name: str) -> bool:
    """Whether ``name`` is a package of the tables, or inside one."""
    return any(name == p or name.startswith(p + ".") for p in PACKAGES)


def stub(name: str) -> types.ModuleType:
    """The module that stands for the package ``name``."""
    module = types.ModuleType(name, f"{name}: not in jtorch.")
    module.__path__ = []  # so that its submodules can be imported, as stubs
    module.__dict__.update(_ANSWERS.get(name, {}))

    def missing(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return absent(f"{name}.{attribute}")

    module.__dict__["__getattr__"] = missing
    return module
