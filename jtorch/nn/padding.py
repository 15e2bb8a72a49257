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


_DOC = """{doc}

    >>> import jtorch
    >>> jtorch.nn.{name}({arguments})(jtorch.arange(1.0, 4.0).reshape({shape})).flatten()
    {shown}
"""


def _family(base: type, name: str, doc: str, shown: str, *values: float, **facts: Any) -> list[Any]:
    """The class ``base`` for one, two and three dims. In their example 1, 2, 3 becomes ``shown``."""
    classes = []
    for rank in (1, 2, 3):
        arguments = ", ".join(map(str, ((1, 1) + (0, 0) * (rank - 1), *values)))
        text = _DOC.format(
            doc=doc, name=f"{name}{rank}d", arguments=arguments, shape="1, " * (rank + 1) + "3", shown=shown
        )
        parts = {"rank": rank, "__doc__": text, "__module__": __name__, **facts}
        classes.append(type(f"{name}{rank}d", (base,), parts))
    return classes


ConstantPad1d, ConstantPad2d, ConstantPad3d = _family(
    _ConstantPad,
    "ConstantPad",
    "A border of ``value``; negative widths take away.",
    "tensor([9., 1., 2., 3., 9.])",
    9.0,
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _family(
    _ZeroPad, "ZeroPad", "A border of zeros.", "tensor([0., 1., 2., 3., 0.])"
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family(
    _Pad,
    "ReflectionPad",
    "The elements next to the edge, mirrored, as a border.",
    "tensor([2., 1., 2., 3., 2.])",
    mode="reflect",
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family(
    _Pad, "ReplicationPad", "The edge again as a border.", "tensor([1., 1., 2., 3., 3.])", mode="replicate"
)
CircularPad1d, CircularPad2d, CircularPad3d = _family(
    _Pad,
    "CircularPad",
    "The elements from the other side as a border.",
    "tensor([3., 1., 2., 3., 1.])",
    mode="circular",
)
