"""Borders around the last dims, as modules.

Source: https://docs.pytorch.org/docs/stable/nn.html#padding-layers
"""

from __future__ import annotations

from typing import Any, ClassVar

from jtorch.eager.public import Tensor
from jtorch.nn import functional as F
from jtorch.nn.module import Module

_Size = int | tuple[int, ...]


class _Pad(Module):
    """``padding`` is a number, or (left, right, top, bottom, front, back) as far as there are dims."""

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: _Size) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: _Size, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: _Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _family(base: type, name: str, doc: str, **facts: Any) -> list[Any]:
    """The class ``base`` for one, two and three dims."""
    return [
        type(f"{name}{rank}d", (base,), {"rank": rank, "__doc__": doc, "__module__": __name__, **facts})
        for rank in (1, 2, 3)
    ]


ConstantPad1d, ConstantPad2d, ConstantPad3d = _family(
    _ConstantPad, "ConstantPad", "A border of ``value``; negative widths take away."
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _family(_ZeroPad, "ZeroPad", "A border of zeros.")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family(
    _Pad, "ReflectionPad", "The elements next to the edge, mirrored, as a border.", mode="reflect"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family(
    _Pad, "ReplicationPad", "The edge again as a border.", mode="replicate"
)
CircularPad1d, CircularPad2d, CircularPad3d = _family(
    _Pad, "CircularPad", "The elements from the other side as a border.", mode="circular"
)
