"""Functions that are only other functions put together: no op, no node of their own.

Each file offers ``FUNCTIONS`` (names of the module ``jtorch``) and ``METHODS`` (names of Tensor).
"""

from collections.abc import Callable
from typing import Any

from jtorch.eager.functions import (
    arithmetic,
    class_losses,
    comparison,
    conversion,
    products,
    reductions,
    selection,
    shape,
)

MODULES: tuple[Any, ...] = (
    arithmetic, class_losses, comparison, conversion, products, reductions, selection, shape,
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {name: f for m in MODULES for name, f in m.FUNCTIONS.items()}
METHODS: dict[str, Any] = {name: f for m in MODULES for name, f in m.METHODS.items()}
