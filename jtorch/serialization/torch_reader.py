"""PyTorch's .pt files, read without PyTorch: a zip archive of one pickle and one record for each storage.

Source: https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, watch
from jtorch.core.devices import CPU, device
from jtorch.core.errors import DataError
from jtorch.eager.public import Size, Tensor
from jtorch.nn.parameter import Buffer, Parameter
from jtorch.serialization import whole_reader
from jtorch.serialization.allowed import listed
from jtorch.serialization.memory import strided
from jtorch.serialization.placing import Places, Storage
from jtorch.serialization.torch_names import DTYPES, STORAGES, dtype_named
from jtorch.serialization.unpickle import (
    Budget,
    Constructor,
    Keys,
    UnsafeGlobalError,
    dict_size,
    loads,
    set_size,
    told,
)
from jtorch.serialization.zipped import Archive


class _StorageType:
    """The class of a storage, as the file names it; ``dtype`` is None for bytes."""

    def __init__(self, dtype: str | None) -> None:
        self.dtype = dtype


class _Storage(Storage):
    """A record: its bytes, the dtype that the file gives it, and where its tensors go."""

    def __init__(self, key: str, content: np.ndarray, dtype: str | None, place: device = CPU) -> None:
        super().__init__(content)
        self.key = key
        self.dtype = dtype
        self.place = place


def read(archive: Archive, map_location: Any, mmap: bool, weights_only: bool = True) -> Any:
    """The object in the file. Raises DataError for damage.

    Where ``weights_only``, globals that are no plain data and not listed as safe are an error; otherwise
    they are imported and called.
    """
    return _Reader(archive, map_location, mmap).read(weights_only)


class _Reader:
    def __init__(self, archive: Archive, map_location: Any, mmap: bool) -> None:
        self.archive = archive
        self.where = archive.where
        self.places = Places(map_location)
        self.mmap = mmap
        self.storages: dict[str, _Storage] = {}
        self.budget = Budget(archive.size)
        self.keys = Keys(self.budget.spend)
        self.changed: dict[tuple[str, np.dtype, str], np.ndarray] = {}
        self.root = ""
        self.safe = listed()
        self.safe_types = tuple(one for one in self.safe.values() if isinstance(one, type))

    def read(self, weights_only: bool) -> Any:
        pickles = [n for n in self.archive.names if n.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise DataError(f"{self.where}: not a file of torch.save: it has {len(pickles)} records data.pkl")
        self.root = pickles[0][: -len("data.pkl")]
        if self.root + "constants.pkl" in self.archive.names:
            raise DataError(
                f"{self.where}: a TorchScript program, which is code. Save the state_dict of the module "
                "instead: "
                "torch.save(model.state_dict(), path)"
            )
        byteorder = self.root + "byteorder"
        if byteorder in self.archive.names and bytes(self.archive.read(byteorder)) != b"little":
            raise NotImplementedError(
                f"{self.where}: its numbers are in another byte order than this machine's"
            )
        packed, unpacked = self.archive.packed_size(pickles[0])
        if unpacked > max(_PICKLE_UNPACKED, _PICKLE_RATIO * packed):
            raise self.archive.bad(f"its pickle unpacks from {packed} bytes to {unpacked}: a bomb?")
        pickle = bytes(self.archive.read(pickles[0]))
        if not weights_only:
            return whole_reader.loads(pickle, self.where, self._find_of_torch, self._persistent)
        return loads(pickle, self.where, self._find, self._persistent, self._build, self.budget)

    # -- globals -----------------------------------------------------------------------------------------

    def _find(self, module: str, name: str) -> Any:
        full = f"{_PYTHON_2.get(module, module)}.{name}"
        if module in ("torch", "torch.storage") and (name in STORAGES or name == "UntypedStorage"):
            return _StorageType(STORAGES.get(name))
        if module == "torch" and name in DTYPES:
            return dtype_named(name, self.where)
        if full == "torch.Tensor":
            return Tensor  # to compare with; only a Constructor can be called
        if full in _PLAIN:
            return Constructor(full, _PLAIN[full])
        make = getattr(self, _METHODS.get(full, ""), None)
        if make is not None:
            return Constructor(full, make, each=0 if full in _PAYING else 64)
        safe = self.safe.get(full)
        if safe is None:
            raise UnsafeGlobalError(_refusal(self.where, full[:200]))
        new = functools.partial(safe.__new__, safe) if isinstance(safe, type) else None
        return Constructor(full, safe, new)

    def _find_of_torch(self, module: str, name: str) -> Any:
        try:
            return self._find(module, name)
        except UnsafeGlobalError:
            raise DataError(
                f"{self.where}: it holds an object of PyTorch's, {module[:200]}.{name[:200]}, which only "
                "PyTorch can make. Save a state_dict() instead of a whole object"
            ) from None

    def _persistent(self, given: Any) -> _Storage:
        if not isinstance(given, tuple) or len(given) != 5 or given[0] != "storage":
            raise ValueError("a persistent id that is no storage")
        _, kind, key, location, numel = given
        if not isinstance(kind, _StorageType) or not isinstance(key, str) or not isinstance(location, str):
            raise ValueError("a storage without type, key and location")
        itemsize = dtype_named(kind.dtype, f"{self.where}: storage {key!r}").itemsize if kind.dtype else 1
        known = self.storages.get(key)
        if known is None:
            record = f"{self.root}data/{key}"
            content = self.archive.map(record) if self.mmap else self.archive.read(record)
            known = self.storages[key] = _Storage(key, content, kind.dtype)
            known.place = self.places.of(known, location)
        if type(numel) is not int or numel * itemsize != known.content.size:
            raise ValueError(f"storage {told(key)} of {told(numel)} elements in {known.content.size} bytes")
        return known if known.dtype == kind.dtype else _Storage(key, known.content, kind.dtype, known.place)

    # -- containers that are called ----------------------------------------------------------------------

    def set_of(self, values: Any = ()) -> set:
        self.budget.spend(set_size(len(_items(values))))
        return set(map(self.keys.checked, values))

    def pairs(self, values: Any = ()) -> OrderedDict:
        made: OrderedDict = OrderedDict()
        self.budget.spend(dict_size(made, len(_items(values))))
        made.update((self.keys.checked(k), v) for k, v in map(_items, values))
        return made

    # -- tensors -----------------------------------------------------------------------------------------

    def tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Tensor:
        """``_rebuild_tensor`` and ``_rebuild_tensor_v2``, whose rest is requires_grad, hooks, metadata."""
        if not isinstance(storage, _Storage) or storage.dtype is None:
            raise ValueError("a tensor without a storage")
        dtype = dtype_named(storage.dtype, f"{self.where}: storage {storage.key!r}")
        facts: tuple[Any, ...] = (*rest, *(False, None, None)[len(rest) :])
        requires_grad, hooks, metadata = facts
        return self._make(storage, offset, size, stride, dtype, requires_grad, hooks, metadata)

    def tensor_v3(
        self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
        metadata: Any = None,
    ) -> Tensor:  # fmt: skip
        if not isinstance(storage, _Storage) or not isinstance(dtype, dt.dtype):
            raise ValueError("a tensor without storage or dtype")
        return self._make(storage, offset, size, stride, dtype, requires_grad, hooks, metadata)

    def _make(
        self, storage: _Storage, offset: Any, size: Any, stride: Any, dtype: dt.dtype, requires_grad: Any,
        hooks: Any, metadata: Any,
    ) -> Tensor:  # fmt: skip
        self.budget.spend(900)
        facts = metadata or {}
        for fact in facts:
            if fact not in ("conj", "neg"):
                raise NotImplementedError(f"{self.where}: tensor metadata {told(fact)}")
        content = self._as_flagged(storage, dtype.numpy, tuple(fact for fact in facts if facts[fact]))
        array = strided(storage.key, content, offset, size, stride, dtype.numpy)
        made = self.places.tensor(array, content, storage.place)
        return self._flagged(made, requires_grad, hooks)

    def _as_flagged(self, storage: _Storage, dtype: np.dtype, facts: tuple[str, ...]) -> np.ndarray:
        """The bytes of a storage, of the conjugate or negative numbers where a tensor is flagged so.

        The storage, not the tensor: of a stride of 0 the tensor may have any number of elements.
        """
        content = storage.content
        for fact in facts:
            known = self.changed.get((storage.key, dtype, fact)) if len(facts) == 1 else None
            if known is None:
                self.budget.spend(content.size)
                numbers = content[: content.size // dtype.itemsize * dtype.itemsize].view(dtype)
                changed = np.conj(numbers) if fact == "conj" else np.negative(numbers)
                known = np.ascontiguousarray(changed).view(np.uint8)
                if len(facts) == 1:
                    self.changed[storage.key, dtype, fact] = known
            content = known
        return content

    def _flagged(self, tensor: Any, requires_grad: Any, hooks: Any) -> Tensor:
        if not isinstance(tensor, Tensor) or type(requires_grad) is not bool:
            raise ValueError("a tensor without requires_grad")
        if hooks:
            raise DataError(f"{self.where}: a tensor with backward hooks, which are code")
        if requires_grad and not (tensor.dtype.is_floating_point or tensor.dtype.numpy.kind == "c"):
            raise ValueError(f"a tensor of {tensor.dtype} that requires grad")
        return tensor.requires_grad_(requires_grad)

    def parameter(self, data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor:
        """``_rebuild_parameter``; with a state: ``_rebuild_parameter_with_state``."""
        self.budget.spend(600)
        self._flagged(data, False, hooks)
        made = self._flagged(Parameter(data, requires_grad=False), requires_grad, hooks)
        return self._hung(made, state)

    def of_type(self, rebuild: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
        """``_rebuild_from_type_v2``: a tensor of a class that is listed, or with attributes."""
        rebuild, kind = (v.make if isinstance(v, Constructor) else v for v in (rebuild, kind))
        if rebuild not in (self.tensor, self.tensor_v3, self.parameter) or not isinstance(arguments, tuple):
            raise ValueError(f"a tensor made by {told(rebuild)}")
        if not isinstance(kind, type) or not issubclass(kind, Tensor):
            raise ValueError(f"a tensor of the class {told(kind)}")
        made = rebuild(*arguments)
        if kind is Tensor and isinstance(state, dict) and state.get("_is_buffer") is True:
            kind, state = Buffer, {"persistent": True} | state
            del state["_is_buffer"]
        if type(made) is not kind:
            made = made.as_subclass(kind)
        if hasattr(kind, "__setstate__"):
            made.__setstate__(state)  # type: ignore[attr-defined]
            return made
        return self._hung(made, state)

    def _hung(self, tensor: Tensor, state: Any) -> Tensor:
        """``tensor`` with attributes, or (attributes, those of slots): never those that make it a tensor."""
        dicts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if not all(isinstance(one, (dict, type(None))) for one in dicts):
            raise ValueError(f"attributes that are {told(state)}")
        for one in dicts:
            self.budget.spend(300 + 64 * len(one) if one else 0)
            for name, value in (one or {}).items():
                if not isinstance(name, str):
                    raise ValueError(f"an attribute named {told(name)}")
                if inspect.isdatadescriptor(inspect.getattr_static(Tensor, name, None)):
                    raise NotImplementedError(
                        f"{self.where}: a tensor with an attribute {told(name)}, which all have of their own"
                    )
                setattr(tensor, name, value)
        return tensor

    def _build(self, target: Any, state: Any) -> None:
        """A state dict carries ``_metadata``, versions of modules; else only what is listed has a state."""
        if type(target) is OrderedDict and isinstance(state, dict) and list(state)[:2] in _STATES:
            target.__dict__.update(state)
            return
        if type(target) not in self.safe_types:
            raise ValueError(f"a state for a {type(target).__name__}")
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            target.__dict__.update(state)


def _refusal(where: str, name: str) -> str:
    return (
        f"{where}: it needs the global {name}, which is no plain data and may run code: Weights only load "
        "failed. Loading it with `weights_only` set to `False` will likely succeed, but it can result in "
        "arbitrary code execution. Do it only if you got the file from a trusted source. Or, for a class or "
        f"function that is safe: `torch.serialization.add_safe_globals([{name}])` or the "
        "`torch.serialization.safe_globals` context manager. Better save a state_dict() than a whole object"
    )


def _items(values: Any) -> Any:
    """``values`` where they are a container: a tensor, too, can be iterated, and need have no end."""
    if not isinstance(values, (list, tuple, dict, set, frozenset)):
        raise ValueError(f"the items of {told(values)}")
    return values


def _size(numbers: Any = ()) -> Size:
    if not all(type(n) is int for n in _items(numbers)):
        raise ValueError("a size of other things than ints")
    return Size(numbers)


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes that are not spelled as latin1")
    return text.encode("latin1")


def _bytearray(content: Any = b"") -> bytearray:
    if not isinstance(content, bytes):  # a number would allocate that many
        raise ValueError("a bytearray of a " + type(content).__name__)
    return bytearray(content)


def _device(kind: Any, index: Any = None) -> device:
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        raise ValueError(f"a device named {told(kind)}, {told(index)}")
    try:
        return device(kind[:80] if index is None else f"{kind[:80]}:{index}")
    except RuntimeError as error:
        raise ValueError(f"a device: {error}") from None


def _counts(values: Any = None) -> Counter:
    if values is not None and not isinstance(values, dict):
        raise ValueError("a Counter of a " + type(values).__name__)
    return Counter(values or {})


def _default_dict(factory: Any = None) -> defaultdict:
    return defaultdict(_factory(factory))


def _watched_default_dict(factory: Any = None) -> defaultdict:
    return watch.DefaultDict(_factory(factory))


def _factory(factory: Any) -> Any:
    known = {"builtins.list": list, "builtins.dict": dict, "builtins.int": int, "builtins.float": float}
    return None if factory is None else known[factory.name]


def _watched_dict() -> dict:
    return watch.Dict()


def _watched_hooks() -> OrderedDict:
    return watch.HookDict()


def _watched_list() -> list:
    return watch.List()


def _complex(real: Any, imaginary: Any = 0.0) -> complex:
    return complex(float(real), float(imaginary))


def _not_called(*arguments: Any) -> Any:
    raise ValueError("a call of a type")


_STATES: tuple[list[str], ...] = ([], ["_metadata"])  # what the state of an OrderedDict may have in it
# A pickle is never compressed by who saves it, but may be by who sends it; an opcode of one byte takes
# a microsecond.
_PICKLE_UNPACKED = 2 << 20
_PICKLE_RATIO = 16
_PYTHON_2 = {"__builtin__": "builtins"}
_PLAIN: dict[str, Any] = {
    "collections.Counter": _counts, "collections.defaultdict": _default_dict, "builtins.complex": _complex,
    "builtins.bytearray": _bytearray, "_codecs.encode": _encode, "torch.Size": _size, "torch.device": _device,
    "builtins.list": _not_called, "builtins.dict": _not_called, "builtins.int": _not_called,
    "builtins.float": _not_called,
}  # fmt: skip
_WATCHED = {
    "Dict": _watched_dict, "HookDict": _watched_hooks, "List": _watched_list,
    "DefaultDict": _watched_default_dict,
}  # fmt: skip
for _home in ("jtorch.core.watch", "jtorch.watch"):  # the second in files of before it moved
    _PLAIN |= {f"{_home}.{name}": made for name, made in _WATCHED.items()}
_PAYING = ("builtins.set", "collections.OrderedDict")  # for what they fill, by themselves
_METHODS = {
    "torch._utils._rebuild_tensor": "tensor", "torch._utils._rebuild_tensor_v2": "tensor",
    "torch._utils._rebuild_tensor_v3": "tensor_v3", "torch._utils._rebuild_parameter": "parameter",
    "torch._utils._rebuild_parameter_with_state": "parameter",
    "collections.OrderedDict": "pairs", "builtins.set": "set_of",
    "torch._tensor._rebuild_from_type_v2": "of_type", "torch._tensor._rebuild_from_type": "of_type",
}  # fmt: skip
