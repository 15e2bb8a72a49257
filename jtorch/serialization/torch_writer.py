"""PyTorch's .pt format, written without PyTorch: ``torch.load(path, weights_only=True)`` reads it.

Source: https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.devices import device
from jtorch.core.errors import DataError
from jtorch.eager.public import Size, Tensor
from jtorch.nn.parameter import Buffer, Parameter
from jtorch.serialization.memory import (
    Memories,
    Region,
    Window,
    checked_key,
    class_of,
    refusal,
    state_of,
)
from jtorch.serialization.torch_names import STORAGE_OF
from jtorch.serialization.unpickle import Budget, Constructor, Keys, loads
from jtorch.serialization.zipped import MOST_RECORDS

_ALIGNED = 64  # bytes; so that torch.load(mmap=True) can use a record where it lies
_LOCAL_HEADER = 30
_DEEPEST = 100
_SCALARS = (str, int, float, bool)


def to_bytes(obj: Any) -> bytes:
    """The file that holds ``obj``.

    Raises TypeError, naming the place, for what it can't hold, ValueError for more than reading takes.
    """
    memories = Memories()
    while True:
        pickler = PlainPickler(memories)
        pickle = pickler.write(obj)
        if memories.settled():
            break
    content = zipped(pickle, memories)
    _check_readable(pickle, pickler.unfolds, len(content), len(memories.met))
    return content


def _check_readable(pickle: bytes, unfolds: int, file_size: int, records: int) -> None:
    """Raise for a file that reading would refuse for its size in memory: it must not replace a good one.

    Only where it may be so is the pickle read: a byte of it makes 16 in memory at most, but for containers
    and tensors, of which ``unfolds`` is told.
    """
    if records > MOST_RECORDS - 3:
        raise ValueError(f"jtorch.save: {records} memories of tensors; a file holds {MOST_RECORDS - 3}")
    budget = Budget(file_size)
    if 16 * len(pickle) + unfolds <= budget.limit:
        return

    def find(module: str, name: str) -> Constructor:
        make = {"OrderedDict": OrderedDict, "Counter": Counter}.get(name, lambda *_: budget.spend(1500))
        return Constructor(name, make)

    try:
        loads(pickle, "jtorch.save", find, lambda _: None, lambda *_: None, budget)
    except DataError as error:
        raise ValueError(
            f"{error}, which jtorch.load refuses. Make tensors of long lists of numbers, or write two files"
        ) from None


def zipped(pickle: bytes, memories: Memories) -> bytes:
    """The archive of a pickle and the memories it names."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, out, "data.pkl", pickle)
        _add(archive, out, "byteorder", b"little")
        for region in memories.met:
            _add(archive, out, f"data/{region.number}", region.content().data)
        _add(archive, out, "version", b"3\n")
    return out.getvalue()


def _add(archive: zipfile.ZipFile, out: io.BytesIO, name: str, content: Any) -> None:
    entry = zipfile.ZipInfo("archive/" + name)  # of 1980: equal objects make equal files
    begin = out.tell() + _LOCAL_HEADER + len(entry.filename) + 4
    padding = -begin % _ALIGNED
    entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    archive.writestr(entry, content)


class PlainPickler:
    """Writes a pickle of protocol 2, as PyTorch spells its tensors."""

    def __init__(self, memories: Memories) -> None:
        self.out = bytearray(b"\x80\x02")
        self._memories = memories
        self._keys = Keys()
        self.unfolds = 0  # bytes that reading may take for containers and tensors: see ``_check_readable``
        self._known: dict[int, int] = {}  # id of a tensor -> its number in the pickle's memo

    def write(self, obj: Any) -> bytes:
        self._value(obj, ())
        self.out += b"."
        return bytes(self.out)

    def spelled(self, value: Any) -> bytes:
        """The opcodes of one dtype, device or size, for a pickle that keeps its own memo."""
        self._value(value, ())
        return self.taken()

    def taken(self) -> bytes:
        """What was written since it was taken last."""
        opcodes = bytes(self.out)
        self.out.clear()
        return opcodes

    def _value(self, value: Any, place: tuple[Any, ...]) -> None:
        if len(place) > _DEEPEST:
            raise TypeError(f"jtorch.save: nested deeper than {_DEEPEST} levels; does it contain itself?")
        kind = type(value)
        if value is not None and kind not in _SCALARS:
            self.unfolds += 3000 if isinstance(value, Tensor) else 500
        if value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, str):
            self._text(str.__str__(value))  # an enum's own would tell its name
        elif isinstance(value, Tensor):
            self._object(value, place)
        elif isinstance(value, (int, float, complex, np.generic)):
            self._number(value, place)
        elif isinstance(value, dt.dtype):
            self._global("torch", value.name)
        elif isinstance(value, device):
            self._global("torch", "device")
            self._text(str(value))
            self.out += b"\x85R"
        elif kind in (list, tuple, Size):
            self._sequence(value, place)
        elif kind in (dict, OrderedDict, Counter):
            self._mapping(value, place)
        else:
            raise refusal(value, place)

    # -- plain values ------------------------------------------------------------------------------------

    def _global(self, module: str, name: str) -> None:
        self.out += f"c{module}\n{name}\n".encode()

    def _text(self, text: str) -> None:
        encoded = text.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(encoded)) + encoded

    def _number(self, value: Any, place: tuple[Any, ...]) -> None:
        if isinstance(value, np.generic):
            if value.dtype.kind not in "biufc":
                raise refusal(value, place)
            value = value.item()
        if isinstance(value, bool):
            self._value(value, place)
        elif isinstance(value, int):
            self._int(int(value))
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, complex):
            self._global("__builtin__", "complex")
            self.out += b"G" + struct.pack(">d", value.real) + b"G" + struct.pack(">d", value.imag) + b"\x86R"
        else:  # a long double, which has no Python number
            raise refusal(value, place)

    def _int(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
            return
        size = value.bit_length() // 8 + 1
        code = struct.pack("<BB", 0x8A, size) if size < 256 else struct.pack("<Bi", 0x8B, size)
        self.out += code + value.to_bytes(size, "little", signed=True)

    # -- containers --------------------------------------------------------------------------------------

    def _sequence(self, value: Any, place: tuple[Any, ...]) -> None:
        if type(value) is Size:
            self._global("torch", "Size")
        self.out += b"](" if type(value) is list else b"("
        for k, item in enumerate(value):
            self._value(item, (*place, k))
        self.out += b"e" if type(value) is list else b"t\x85R" if type(value) is Size else b"t"

    def _mapping(self, value: Any, place: tuple[Any, ...]) -> None:
        if type(value) is OrderedDict:
            self._global("collections", "OrderedDict")
            self.out += b")R("
        else:
            if type(value) is Counter:
                self._global("collections", "Counter")
            self.out += b"}("
        self.unfolds += 128 * len(value)
        for key, item in value.items():
            self._value(checked_key(self._keys, key, place), place)
            self._value(item, (*place, key))
        self.out += b"u\x85R" if type(value) is Counter else b"u"
        metadata = getattr(value, "_metadata", None)
        if type(value) is OrderedDict and metadata is not None:  # of a state dict: its modules' versions
            self.out += b"}"
            self._text("_metadata")
            self._value(metadata, (*place, "_metadata"))
            self.out += b"sb"

    # -- tensors -----------------------------------------------------------------------------------------

    def _object(self, tensor: Tensor, place: tuple[Any, ...]) -> None:
        """A tensor; where it was met before, that one again."""
        number = self._known.get(id(tensor))
        if number is not None:
            self.out += b"j" + struct.pack("<I", number)
            return
        kind = class_of(tensor)
        if kind is None:
            raise refusal(tensor, place)
        for part in self.parts(tensor, kind):
            self._value(part, (*place, "state"))
        self._known[id(tensor)] = len(self._known)
        self.out += b"r" + struct.pack("<I", self._known[id(tensor)])

    def parts(self, tensor: Tensor, kind: type[Tensor]) -> Iterator[Any]:
        """Write the opcodes of a tensor that comes back as a ``kind``, stopping at each value among them.

        Those are a class that is not PyTorch's, and what hangs on the tensor: the caller writes them.
        """
        state = state_of(tensor)
        plain = kind in (Tensor, Buffer, Parameter)
        as_parameter = issubclass(kind, Parameter)
        if plain and as_parameter:
            self._global("torch._utils", "_rebuild_parameter" + ("_with_state" if state else ""))
            self.out += b"("
            self._parameter_arguments(tensor)
        elif plain and not state:
            self._tensor(tensor, tensor.requires_grad)
            return
        else:
            self._global("torch._tensor", "_rebuild_from_type_v2")
            self.out += b"("
            window = self._memories.of(tensor)
            self._global("torch._utils", "_rebuild_parameter" if as_parameter else _rebuilder(window))
            if plain:
                self._global("torch", "Tensor")
            else:
                yield kind
            self.out += b"("
            if as_parameter:
                self._parameter_arguments(tensor)
            else:
                self._arguments(window, tensor.requires_grad)
            self.out += b"t"
        if state or not plain:
            yield state
        self.out += b"tR"

    def _parameter_arguments(self, tensor: Tensor) -> None:
        self._tensor(tensor, False)
        self.out += b"\x88" if tensor.requires_grad else b"\x89"
        self._no_hooks()

    def _tensor(self, tensor: Tensor, requires_grad: bool) -> None:
        window = self._memories.of(tensor)
        self._global("torch._utils", _rebuilder(window))
        self.out += b"("
        self._arguments(window, requires_grad)
        self.out += b"tR"

    def _arguments(self, window: Window, requires_grad: bool) -> None:
        self._storage(window.region)
        self._value(window.offset, ())
        self._value(window.shape, ())
        self._value(window.strides, ())
        self.out += b"\x88" if requires_grad else b"\x89"
        self._no_hooks()
        if _storage_class(window.region) is None:
            self._global("torch", dt.OF_NUMPY[window.dtype].name)

    def _storage(self, region: Region) -> None:
        typed = _storage_class(region)
        self.out += b"("
        self._text("storage")
        self._global("torch" if typed else "torch.storage", typed or "UntypedStorage")
        self._text(str(region.number))
        self._text(region.location)
        self._int(len(region) // region.dtype.itemsize if typed and region.dtype else len(region))
        self.out += b"tQ"

    def _no_hooks(self) -> None:
        self._global("collections", "OrderedDict")
        self.out += b")R"


def _storage_class(region: Region) -> str | None:
    """PyTorch's younger dtypes have none of their own, nor has memory that is seen as two dtypes."""
    return None if region.dtype is None else STORAGE_OF.get(dt.OF_NUMPY[region.dtype].name)


def _rebuilder(window: Window) -> str:
    return "_rebuild_tensor_v2" if _storage_class(window.region) else "_rebuild_tensor_v3"
