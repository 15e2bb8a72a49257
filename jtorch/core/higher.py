"""What lower layers ask of higher ones. ``jtorch`` itself enters it when all are there; None before that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

most_threads: Callable[[], int | None] | None = None  # that BLAS takes
formulas: Callable[[], Callable | None] | None = None  # what computes the body of an op by kernels
shortcuts: Callable[[], Any] | None = None  # what makes the machine code of eager ops
pooling: Callable[[], Any] | None = None  # native max-pooling
lines: Callable[[], Any] | None = None  # native loops along an axis
draws: Callable[[], Any] | None = None  # native loops that draw random numbers
narrowing: Callable[[], Any] | None = None  # native loops from and to floats of 16 bits
tensor_html: Callable[[], Callable] | None = None  # what writes a tensor for a notebook
products: Callable[[], Any] | None = None  # native matrix products
named: Callable[[str], Any] | None = None  # the public function of a name
sparse: Callable[[], Any] | None = None  # what makes sparse tensors
device: Callable[[], Any] | None = None  # what knows the device that tensors may lie on
meta: Callable[[], Any] | None = None  # the memory of tensors without elements


def provide(**found: Callable[..., Any]) -> None:
    """Enter them."""
    globals().update(found)
