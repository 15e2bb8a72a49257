"""What becomes of a write to something outside: an effect of each replay, a fresh beginning, or an error."""

from __future__ import annotations

import types
from typing import Any

from jtorch.compile.observe import frames
from jtorch.compile.observe.effects import (
    Cell,
    Counting,
    Effects,
    End,
    Filling,
    Place,
    Replacing,
    Slot,
    may_be_written,
)  # fmt: skip
from jtorch.compile.observe.guards import (
    MISSING,
    PLAIN,
    AttributeRead,
    CellRead,
    ItemRead,
    LengthRead,
    Read,
    in_words,
    same,
    told,
)  # fmt: skip
from jtorch.compile.observe.kinds import Kind, kind_of
from jtorch.compile.observe.reach import holds_computed
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.observe.stand_ins import is_array_stand_in
from jtorch.core import watch
from jtorch.core.device_array import ARRAYS
from jtorch.core.dim import is_symbolic
from jtorch.core.errors import CompileError
from jtorch.eager.tensor import Tensor


class Writing:
    """The part of an observer that sees writes."""

    effects: Effects
    journal: watch.Journal
    reads: dict[Any, Read]

    def read(self, kind: Any, frame: Any, container: Any, key: Any, value: Any, guarded: bool = True) -> None:
        raise NotImplementedError

    def is_itself(self, value: Any) -> bool:
        raise NotImplementedError

    def error(self, frame: types.FrameType | None, does: str, way_out: str) -> CompileError:
        raise NotImplementedError

    def write(
        self, frame: types.FrameType, owner: Any, key: Any, before: Any, after: Any,
        place: Place | None = None,
    ) -> None:  # fmt: skip
        """``key`` of ``owner``, which is from outside, is about to become ``after``. What a replay can write
        to ``place`` is an effect; to write what is there already changes nothing as long as it is there."""
        if place is not None and self._is_effect(place, before, after):
            return
        if before is not MISSING and (before is after or (isinstance(after, PLAIN) and same(before, after))):
            self._hold(frame, owner, key, before, place)
            return
        self._fill(frame, owner, key, before, after, place)
        first = " If that is done only the first time, call the function once before compiling it."
        became = ""
        if isinstance(after, PLAIN) and before is not MISSING:
            became = f" ({told(before)} becomes {told(after)})"
        raise self.error(
            frame,
            f"changes {label(owner, key)}, which it reads from outside{became}: a recording would not",
            "Pass the value in and return the new one, or keep it in a tensor and change that in place."
            + (first if before is MISSING or before is None else ""),
        )

    def _fill(
        self,
        frame: types.FrameType | None,
        owner: Any,
        key: Any,
        before: Any,
        after: Any,
        place: Place | None,
    ) -> None:
        """Raise ``Filling`` where a cache gets an entry that it lacks, a plain one that the function made,
        and the function has changed nothing before, which would be undone, and changes nothing more
        before it goes on as it does when it finds that."""
        if self.effects.written or self.journal.owners():
            return
        if place is None and type(owner) is dict and key is not MISSING and is_key(key):
            place = Place(owner, key)
        if place is None or after is MISSING or (before is not MISSING and before is not None):
            return
        if not holds_computed(after) and frame is not None and not frames.changes_more(frame):
            raise Filling(place, after)

    def _is_effect(self, place: Place, before: Any, after: Any) -> bool:
        if not (self.is_itself(after) or may_be_written(after)):
            return False
        fresh = place.identity not in self.effects.known
        if fresh and before is after and isinstance(after, Tensor):  # self.steps += 1
            return False
        if fresh and place.of_module and isinstance(before, Tensor) and before._data.__class__ not in ARRAYS:
            return False  # code of the library's put it there, and takes it away again: functional_call
        if fresh and before is not MISSING and isinstance(after, PLAIN) and same(before, after):
            if not self._has_read(place):  # a guard has it there before each call
                self.effects.write(place, after, changes=False)
            return True
        if (
            fresh and is_array_stand_in(after) and self._has_read(place)
        ):  # recorded for each that it finds there
            raise after.refuse("replacing an array that the function reads, by one")
        counts = _is_count(before, after) and place.identity not in self.effects.plain
        if fresh and counts and self._has_read(place):
            raise Counting(place)
        if fresh and _is_replaced(before, after) and self._has_read(place):
            raise Replacing(place)
        known = self.reads.get((ItemRead, id(place.container), (type(place.key), place.key)))
        if known is not None:  # an attribute of a module, of which others would be told at each call
            known.guarded = True
        self.effects.write(place, after)
        return True

    def _hold(self, frame: types.FrameType, owner: Any, key: Any, value: Any, place: Place | None) -> None:
        """Guard that ``value`` is at ``key`` of ``owner`` before each call, where it is written again."""
        if place is not None:
            owner, key = place.container, place.key
        if isinstance(place, Cell):
            self.read(CellRead, frame, owner, key, value)
        elif isinstance(place, Slot):
            self.read(AttributeRead, frame, owner, key, value)
        elif isinstance(owner, (dict, list)):  # of a module: it tells of changes
            self.read(ItemRead, frame, owner, key, value, guarded=place is None or not place.of_module)
        elif isinstance(owner, type):
            base = next(cls for cls in owner.__mro__ if key in vars(cls))
            self.read(ItemRead, frame, vars(base), key, value)
        elif key in (getattr(owner, "__dict__", None) or ()) and kind_of(type(owner)) is not Kind.MODULE:
            self.read(ItemRead, frame, owner.__dict__, key, value)

    def _has_read(self, place: Place) -> bool:
        keys = [place.key]
        if isinstance(place.container, list) and isinstance(place.key, int):  # from the end
            keys.append(place.key - len(place.container))
        names = [(id(place.container), (type(key), key)) for key in keys]
        kinds = (ItemRead, CellRead, AttributeRead)
        return any((kind, *name) in self.reads for kind in kinds for name in names)

    def hold_length(self, frame: types.FrameType, container: list) -> None:
        """An item of a list from outside is about to be replaced, by its index: a replay may find out that
        there is none only when its kernels have run."""
        if id(container) in self.effects.grown:
            raise self.error(
                frame,
                "replaces an item of a list from outside that it has appended to",
                "Replace it before you append, or append what it shall be.",
            )
        if id(container) not in self.effects.changed:
            self.read(LengthRead, frame, container, None, len(container))

    def append(self, frame: types.FrameType, container: Any, value: Any) -> None:
        """``value`` is about to be appended to a list or deque from outside."""
        if not (self.is_itself(value) or may_be_written(value)):
            raise self.error(
                frame,
                f"appends a {type(value).__name__} to a {type(container).__name__} from outside, which a "
                "replay cannot make again",
                "Append tensors, numbers and texts, or return it.",
            )
        self.effects.write(End(container, "the end"), value)


def is_key(key: Any) -> bool:
    """Whether a dict finds ``key`` without running code of a user's, and it does not change."""
    if type(key) is tuple:
        return all(map(is_key, key))
    return kind_of(type(key)) in (Kind.PLAIN, Kind.TYPE, Kind.FUNCTION)


def _is_count(before: Any, after: Any) -> bool:
    """A number that another of its kind replaces."""
    if type(before) not in (int, float):
        return False
    of_sizes = is_symbolic(after) and after.__class__ is type(before)
    return type(after) is type(before) or of_sizes or issubclass(type(after), Scalar)


def _is_replaced(before: Any, after: Any) -> bool:
    """A tensor whose place another one takes."""
    return type(before) is Tensor and type(before._data) in ARRAYS and isinstance(after, Tensor)


def label(owner: Any, key: Any) -> str:
    """How a message names a part of something."""
    if owner is None:
        return in_words(key)
    if isinstance(owner, dict) and "params" in owner:
        return f"{in_words(key) if key is not MISSING else 'the entries'} of an optimizer's group"
    if isinstance(owner, (type, types.ModuleType, types.FunctionType)):
        return f"{in_words(key)} of {owner.__name__}"
    return f"{told(key) if key is not MISSING else 'the entries'} of {told(owner)}"
