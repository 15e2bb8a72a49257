"""``x[mask]`` where the elements of ``mask`` are not known: what it has at each place of ``x``.

How many elements there are nobody can tell while a program is recorded. What is done to each by itself can be
done at all places, and kept at those that the mask names when it is written back: ``x[mask] += v``,
``x[mask] = f(x[mask])``. Where the mask does not hold it starts at 1, and whatever comes of that stays there:
what goes in and gets a gradient, the tensor or another, goes in through a ``where``, and what is written back
goes through another, so that no gradient passes there (0 times the slope of a pole would be NaN). All else
that is asked of it needs the number of elements, and is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.errors import CountNeeded, user_source
from jtorch.core.op import TABLE, Kind
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor


class Selection(Tensor):
    """``everywhere``, of the shape of the tensor that was indexed, where ``mask``, which stands at ``axis``,
    holds."""

    __slots__ = ("everywhere", "line", "places")

    everywhere: Tensor
    places: Places
    line: Any

    @property
    def _data(self) -> Any:  # type: ignore[override]
        raise refused(self.line)

    def __getattr__(self, name: str) -> Any:
        if name in Tensor.__slots__:  # which no selection has of its own
            raise refused(self.line)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    @property
    def dtype(self) -> Any:
        return self.everywhere.dtype

    @property
    def ndim(self) -> int:
        return self.places.axis + 1 + self.places.after

    def dim(self) -> int:
        return self.ndim

    @property  # type: ignore[misc]  # which nobody sets here
    def requires_grad(self) -> bool:  # type: ignore[override]
        return self.everywhere.requires_grad

    def is_floating_point(self) -> bool:
        return self.everywhere.is_floating_point()

    def to(self, *args: Any, **kwargs: Any) -> Selection:
        """The elements in another dtype; a tensor among the arguments only names it."""
        given = [value.everywhere if isinstance(value, Selection) else value for value in args]
        return _made(self.everywhere.to(*given, **kwargs), self.places)


def refused(line: Any) -> BaseException:
    """What a program raises that needs to know how many elements there are: the next attempt counts them."""
    return CountNeeded(line)


class Places:
    """Where a mask holds: it stands at ``axis``, and ``after`` axes follow it."""

    def __init__(self, mask: Tensor, axis: int, after: int) -> None:
        self.mask = mask
        self.version = mask._version
        self.kept = APPLY["clone"](mask)  # the mask may change before it is used again
        self.axis = axis
        self.after = after

    def only(self, value: Tensor) -> Tensor:
        """``value``, of the axes after the mask's or fewer, where the mask holds, and else 1."""
        wide = self.kept.reshape(*self.kept.shape, *(1,) * self.after)
        return APPLY["where"](wide, value, True if value._data.dtype.kind == "b" else 1)

    def fit(self, view: Tensor, axis: int, mask: Tensor) -> bool:
        """Whether these are the places of ``mask`` at ``axis`` of ``view``, which a recording relies on."""
        if (self.axis, self.after, self.kept.shape) != (axis, view.ndim - axis - mask.ndim, mask.shape):
            return False
        if mask is self.mask and mask._version == self.version:
            return True
        return bool(APPLY["eq"](self.kept, mask).all())

    def are(self, other: Places) -> bool:
        """Whether these are the places of another mask."""
        if (self.axis, self.after, self.kept.shape) != (other.axis, other.after, other.kept.shape):
            return False
        if self.mask is other.mask and self.version == other.version:
            return True
        return bool(APPLY["eq"](self.kept, other.kept).all())


def selected(view: Tensor, axis: int, mask: Tensor) -> Selection:
    """``view`` at the places of ``mask``, which stands at ``axis``."""
    places = Places(mask, axis, view.ndim - axis - mask.ndim)
    return _made(places.only(view), places)


def _made(everywhere: Tensor, places: Places) -> Selection:
    made = object.__new__(Selection)
    made.everywhere, made.places, made.line = everywhere, places, user_source()
    return made


def _operand(self: Selection, value: Any, others: tuple) -> Any:
    """An argument, one of ``others``, of what is done at each place: numbers, and tensors that are the same
    for each, which get their gradients from where the mask holds alone."""
    if not isinstance(value, Tensor):
        return value
    if isinstance(value, Selection):
        if not self.places.are(value.places):
            raise refused(self.line)
        return value.everywhere
    if value.ndim > self.places.after:
        raise refused(self.line)
    if not value.requires_grad:
        return value
    if not value.ndim:  # it becomes as wide as the places, and must not decide the dtype for that
        wide = [(t.everywhere._data.dtype, 1) for t in (self, *others) if isinstance(t, Selection)]
        value = value.to(dt.of(dt.promote([*wide, (value._data.dtype, 0)])))
    return self.places.only(value)


def _at_each_place(name: str) -> Callable:
    def method(self: Selection, *args: Any, **kwargs: Any) -> Any:
        every = (*args, *kwargs.values())
        given = [_operand(self, value, every) for value in args]
        named = {key: _operand(self, value, every) for key, value in kwargs.items()}
        found = getattr(self.everywhere, name)(*given, **named)
        if found is self.everywhere:  # in place
            return self
        return _made(found, self.places) if isinstance(found, Tensor) else found

    method.__name__ = name
    return method


_OTHERS = (  # what else is done to each element by itself
    "clamp", "clip", "clamp_", "clip_", "clone", "detach", "float", "double", "half", "long", "int",
    "contiguous", "nan_to_num",
)  # fmt: skip


def install() -> None:
    """Have what is done to each element by itself done at each place; ``Tensor`` has its methods by now."""
    names = {name for op in TABLE if op.kind is Kind.ELEMENTWISE and op.public for name in op.methods}
    names |= {f"{op.public}_" for op in TABLE if op.kind is Kind.ELEMENTWISE and op.in_place}
    for symbol in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
        names |= {f"__{symbol}__", f"__r{symbol}__", f"__i{symbol}__"}
    names |= {
        f"__{symbol}__" for symbol in ("neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge")
    }
    for name in names.union(_OTHERS):
        if hasattr(Tensor, name):
            setattr(Selection, name, _at_each_place(name))
    Selection.__hash__ = Tensor.__hash__  # type: ignore[method-assign]
