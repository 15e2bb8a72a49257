"""Early signatures, where a factor stands before what it multiplies: ``p.add_(-lr, g)`` for
``p.add_(g, alpha=-lr)``. PyTorch takes them still, with a warning.

Source: https://github.com/pytorch/pytorch/blob/main/tools/autograd/deprecated.yaml
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.errors import user_source

_SHOWN: dict[Any, Any] = {}  # lines that were warned already


def factor_first(name: str, factor: str, *given: Any) -> tuple[Any, ...]:
    """``given`` with the number it begins with at its end, as the keyword ``factor`` means it today.

    Raises TypeError where it begins with no number: then an argument too many was given.
    """
    first = given[0]
    if not isinstance(first, (int, float, complex)) and not hasattr(first, "as_runtime_scalar"):
        raise TypeError(f"{name}() takes {len(given)} positional arguments but {len(given) + 1} were given")
    text = f"This overload of {name} is deprecated: the number goes last, as {factor}=..., after the tensors."
    source = user_source()
    warnings.warn_explicit(text, UserWarning, source.file, source.line, registry=_SHOWN)
    return (*given[1:], first)
