"""Early signatures, where a factor stands before what it multiplies: ``p.add_(-lr, g)`` for
``p.add_(g, alpha=-lr)``. PyTorch takes them still, with a warning.

Source: https://github.com/pytorch/pytorch/blob/main/tools/autograd/deprecated.yaml
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.core.errors import user_source
from jtorch.core.number_ranges import is_number

_SHOWN: dict[Any, Any] = {}  # lines that were warned already


def factor_first(name: str, factor: str, count: int, *given: Any) -> tuple[Any, ...]:
    """The ``count`` arguments after the first, ``given``, with the number they begin with at their end, as
    the keyword ``factor`` means it today.

    Raises TypeError where they begin with no number, or are more: then one too many was given.
    """
    first = given[0]
    number = isinstance(first, complex) or is_number(first)
    if not number or len(given) != count:
        raise TypeError(f"{name}() takes {count} positional arguments but {len(given) + 1} were given")
    text = f"This overload of {name} is deprecated: the number goes last, as {factor}=..., after the tensors."
    source = user_source()
    warnings.warn_explicit(text, UserWarning, source.file, source.line, registry=_SHOWN)
    return (*given[1:], first)
