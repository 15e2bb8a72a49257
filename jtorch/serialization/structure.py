"""Nested containers as JSON, with tensors by name; and back.

None, bools and strings stand for themselves, everything else is ``{kind: content}``: numbers as text, since
JSON's would lose large ints, infinities and -0.0; dicts as lists of pairs, since their keys may be no
strings. A tensor is named by what holds its elements; where that holds more, or in another order, its window
is told beside: ``{"tensor": "a", "view": [offset, shape, strides, dtype]}``.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jtorch.core import dtypes as dt
from jtorch.core.devices import device
from jtorch.core.errors import DataError
from jtorch.eager.public import Size, Tensor
from jtorch.nn.parameter import Parameter
from jtorch.serialization.memory import (
    Memories,
    NotPlainError,
    Window,
    checked_key,
    class_of,
    path_text,
    refusal,
    state_of,
    strided,
)
from jtorch.serialization.placing import Places
from jtorch.serialization.unpickle import Keys, told

VERSION = 2  # of a structure with windows; one without is written as 1, which was before it
RESERVED = "__metadata__"  # the one name that safetensors gives no tensor
_DEEPEST = 100  # nesting; a state dict has about five levels
_LONGEST_INT = 14_000  # bits; Python reads no longer numbers from text unless it is told to
_MOST_UNFOLDED = 384 << 20  # bytes that JSON may become in memory, whatever the size of its file
# At most, measured: a dict and its share of the object made of it, a list, an item, one end of a string.
_UNFOLDS = {b"{": 300, b"[": 160, b",": 48, b'"': 25}
_SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple", Size: "size"}
_MAPPINGS: dict[type, str] = {dict: "dict", OrderedDict: "ordered", Counter: "counter"}
_SEQUENCE_TYPES: dict[str, Callable] = {kind: made for made, kind in _SEQUENCES.items()}
_MAPPING_TYPES: dict[str, Callable] = {kind: made for made, kind in _MAPPINGS.items()}


def check_unfolding(text: bytes) -> None:
    """Raise ValueError for JSON that would fill the memory: three bytes of it can be a list of 72."""
    size = 6 * len(text) + sum(cost * text.count(mark) for mark, cost in _UNFOLDS.items())
    if size > _MOST_UNFOLDED:
        raise ValueError(f"{len(text)} bytes of JSON, which may unfold to {size} in memory")


class _Member(NamedTuple):
    """A tensor in its region, what the structure says of it, and where it was met."""

    window: Window
    node: dict[str, Any]
    place: tuple[Any, ...]


class Writer:
    """Describes an object as JSON and collects its tensors.

    Only their elements are kept: what hangs on a tensor is left out or, where ``whole``, refused.
    """

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.tensors: dict[str, np.ndarray] = {}
        self._memories = Memories(storages=whole)
        self._met: list[tuple[dict[str, Any], Tensor, tuple[Any, ...]]] = []
        self._numbers: dict[int, int] = {}  # id of a tensor -> number of that object
        self._keys = Keys()

    def write(self, obj: Any) -> str:
        described = self._describe(obj, ())
        has_views = self._place_all()
        structure = {"version": VERSION if has_views else 1, "object": described}
        text = json.dumps(structure, separators=(",", ":"))
        check_unfolding(text.encode())
        return text

    def _describe(self, value: Any, place: tuple[Any, ...]) -> Any:
        if len(place) > _DEEPEST:
            raise TypeError(f"jtorch.save: nested deeper than {_DEEPEST} levels; does it contain itself?")
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, Tensor):
            return self._tensor(value, place)
        if isinstance(value, int) and value.bit_length() > _LONGEST_INT:
            raise NotPlainError(f"jtorch.save: {path_text(place)}: an int of {value.bit_length()} bits")
        number = _describe_number(value)
        if number is not None:
            return number
        if isinstance(value, dt.dtype):
            return {"dtype": value.name}
        if isinstance(value, device):
            return {"device": str(value)}
        if type(value) in _SEQUENCES:
            items = [self._describe(v, (*place, k)) for k, v in enumerate(value)]
            return {_SEQUENCES[type(value)]: items}
        if type(value) in _MAPPINGS:
            return {_MAPPINGS[type(value)]: [self._item(k, v, place) for k, v in value.items()]}
        raise refusal(value, place)

    def _item(self, key: Any, value: Any, place: tuple[Any, ...]) -> list[Any]:
        checked_key(self._keys, key, place)
        return [self._describe(key, place), self._describe(value, (*place, key))]

    def _tensor(self, tensor: Tensor, place: tuple[Any, ...]) -> dict[str, Any]:
        if class_of(tensor) is None:
            raise refusal(tensor, place)
        if self.whole and state_of(tensor) is not None:
            raise NotPlainError(f"jtorch.save: {path_text(place)}: a tensor with attributes")
        if self.whole and tensor.device.type != "cpu":  # the format has no word for where tensors lie
            raise NotPlainError(f"jtorch.save: {path_text(place)}: a tensor on {tensor.device}")
        self._memories.of(tensor)
        kind = "parameter" if isinstance(tensor, Parameter) else "tensor"
        number = self._numbers.setdefault(id(tensor), len(self._numbers))
        node = {kind: "", "requires_grad": tensor.requires_grad, "object": number}
        self._met.append((node, tensor, place))
        return node

    def _place_all(self) -> bool:
        """Name what holds the elements of each tensor, when all are known; whether some are windows of it."""
        self._memories.settled()  # or it is from here on
        by_region: dict[int, list[_Member]] = {}
        for node, tensor, place in self._met:
            window = self._memories.of(tensor)
            by_region.setdefault(window.region.number, []).append(_Member(window, node, place))
        for members in by_region.values():
            self._place(members)
        return any("view" in node for node, _, _ in self._met)

    def _place(self, members: list[_Member]) -> None:
        """The tensors of one region: named by one that holds all others, or else a row of elements."""
        first, region = members[0], members[0].window.region
        whole = next((m for m in members if m.window.is_all), None)
        if whole is not None:
            held: Window | None = whole.window
            array = region.content().view(whole.window.dtype).reshape(whole.window.shape)
        elif not self.whole and all(m.window == first.window for m in members):
            whole, held = first, first.window  # for others to read: its elements, row by row
            array = np.ascontiguousarray(strided("", region.content(), *held[1:])).reshape(held.shape)
        else:
            held = None
            array = region.content() if region.dtype is None else region.content().view(region.dtype)
        name = self._new_name(whole.place if whole else first.place, "" if whole else ".storage")
        self.tensors[name] = array
        for window, node, _ in members:
            node[next(iter(node))] = name
            if window != held:
                node["view"] = [window.offset, window.shape, window.strides, dt.OF_NUMPY[window.dtype].name]

    def _new_name(self, place: tuple[Any, ...], suffix: str) -> str:
        name = (".".join(str(step) for step in place) or "tensor") + suffix
        if name == RESERVED or not _is_unicode(name):
            reason = "safetensors keeps for itself" if name == RESERVED else "is no Unicode text"
            raise NotPlainError(
                f"jtorch.save: {path_text(place)}: a tensor of the name {name!r}, which {reason}. Rename it, "
                "or save with format='torch'"
            )
        while name in self.tensors:
            name += "_"
        return name


def _is_unicode(text: str) -> bool:
    """Not so for half a surrogate pair, as in names of files that could not be decoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _describe_number(value: Any) -> dict[str, Any] | None:
    """NumPy's numbers become Python's, of the same value."""
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        value = value.item()
    if isinstance(value, bool):
        return {"bool": str(value)}
    if isinstance(value, int):
        return {"int": str(int(value))}
    if isinstance(value, float):
        return {"float": float(value).hex()}
    if isinstance(value, complex):
        return {"complex": f"{value.real.hex()} {value.imag.hex()}"}
    return None


def _complex(text: str) -> complex:
    real, imaginary = text.split(" ")
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _dtype(text: str) -> dt.dtype:
    return next(d for d in dt.ALL if d.name == text)


_DTYPE_NAMES = [d.name for d in dt.ALL]
_PLAIN: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float.fromhex, "complex": _complex,
    "bool": {"True": True, "False": False}.__getitem__, "dtype": _dtype, "device": device,
}  # fmt: skip


class Reader:
    """Builds an object from its description; whatever is not as ``Writer`` writes it is a DataError."""

    def __init__(self, where: str, arrays: dict[str, np.ndarray], places: Places) -> None:
        self.where = where
        self.arrays = arrays
        self.places = places
        self.made: dict[tuple[str, Any], Tensor] = {}
        self._keys = Keys()

    def read(self, text: str) -> Any:
        try:
            check_unfolding(text.encode("utf-8", "surrogatepass"))
            structure = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._bad(f"its structure is not JSON that can be read: {error}") from None
        if not isinstance(structure, dict) or "object" not in structure:
            raise self._bad("its structure has no object")
        if structure.get("version") not in (1, VERSION):
            raise self._bad(f"it has format version {told(structure.get('version'))}, expected {VERSION}")
        return self._build(structure["object"], 0)

    def _bad(self, reason: str) -> DataError:
        return DataError(f"{self.where}: not a file of jtorch.save: {reason}")

    def _build(self, node: Any, depth: int) -> Any:
        if depth > _DEEPEST + 1:
            raise self._bad(f"nested deeper than {_DEEPEST} levels")
        if node is None or isinstance(node, (bool, str)):
            return node
        if not isinstance(node, dict) or not node:
            raise self._bad(f"a {type(node).__name__} in the structure where a value was expected")
        kind = next(iter(node))
        content = node[kind]
        if kind in ("tensor", "parameter"):
            return self._tensor(kind, content, node)
        if kind in _SEQUENCE_TYPES and isinstance(content, list):
            return self._sequence(kind, [self._build(v, depth + 1) for v in content])
        if kind in _MAPPING_TYPES and isinstance(content, list):
            pairs = [self._pair(item, depth + 1) for item in content]
            return _MAPPING_TYPES[kind](self._filled(pairs))
        if isinstance(content, str):
            return self._plain(kind, content)
        raise self._bad(f"unknown kind of value {told(kind)}")

    def _filled(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        try:
            return {self._keys.checked(key): value for key, value in pairs}
        except ValueError as error:
            raise self._bad(str(error)) from None

    def _sequence(self, kind: str, values: list[Any]) -> Any:
        if kind == "size" and not all(type(n) is int for n in values):
            raise self._bad("a size of other things than ints")
        return _SEQUENCE_TYPES[kind](values)

    def _plain(self, kind: str, text: str) -> Any:
        if kind not in _PLAIN:
            raise self._bad(f"unknown value {text[:40]!r} of kind {told(kind)}")
        try:
            return _PLAIN[kind](text)
        except (ValueError, OverflowError, KeyError, StopIteration, RuntimeError):
            raise self._bad(f"{text[:40]!r} is no {kind}") from None

    def _pair(self, item: Any, depth: int) -> tuple[Any, Any]:
        if not isinstance(item, list) or len(item) != 2:
            raise self._bad("a dict's item that is no pair")
        key = self._build(item[0], depth)
        if key is not None and not isinstance(key, (str, int, float)):
            raise self._bad(f"a dict's key of type {type(key).__name__}")
        return key, self._build(item[1], depth)

    def _tensor(self, kind: str, name: Any, node: dict[str, Any]) -> Tensor:
        if not isinstance(name, str) or name not in self.arrays:
            raise self._bad(f"the structure names the tensor {told(name)}, which is not in the file")
        requires_grad, number = node.get("requires_grad"), node.get("object")
        array = self._window(name, node.get("view"))
        if not isinstance(requires_grad, bool) or (requires_grad and not _differentiable(array)):
            raise self._bad(f"requires_grad of tensor {told(name)} is {told(requires_grad)}")
        if number is not None and (type(number) is not int or not 0 <= number < 1 << 48):
            raise self._bad(f"the number of tensor {told(name)} is {told(number)}")
        if (name, number) not in self.made:
            tensor = self.places.loaded(array, self.arrays[name])
            if kind == "parameter":
                tensor = Parameter(tensor, requires_grad=requires_grad)
            self.made[name, number] = tensor.requires_grad_(requires_grad)
        return self.made[name, number]

    def _window(self, name: str, view: Any) -> np.ndarray:
        """A part of what is stored as ``name``; all tensors of that share its memory."""
        array = self.arrays[name]
        if view is None:
            return array
        if not isinstance(view, list) or len(view) != 4 or view[3] not in _DTYPE_NAMES:
            raise self._bad(f"the view of tensor {told(name)} is {told(view)}")
        offset, size, stride, dtype = view
        content = array.reshape(-1).view(np.uint8)
        try:
            return strided(name, content, offset, size, stride, _dtype(dtype).numpy)
        except ValueError as error:
            raise self._bad(str(error)) from None


def _differentiable(array: np.ndarray) -> bool:
    found = dt.of(array.dtype)
    return found.is_floating_point or array.dtype.kind == "c"
