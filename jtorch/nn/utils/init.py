"""Modules without the cost of their initial values.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.skip_init.html
"""

from __future__ import annotations

import inspect
from typing import Any

from jtorch.nn.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """A ``module_cls(*args, **kwargs)`` whose parameters hold anything.

    Raises RuntimeError for a class that is no Module or whose constructor takes no ``device``.

    >>> import jtorch
    >>> layer = jtorch.nn.utils.skip_init(jtorch.nn.Linear, 3, 2)
    >>> jtorch.nn.init.zeros_(layer.weight).shape
    torch.Size([2, 3])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, **{**kwargs, "device": "meta"}).to_empty(device=place)
