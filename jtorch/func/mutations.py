"""``functionalize``: functions without writes into memory that others see."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def functionalize(func: Callable, *, remove: str = "mutations") -> Callable:
    """``func``, which gives what it gave, and writes into its arguments what it wrote.

    PyTorch's replaces writes in place (and views, with ``remove="mutations_and_views"``) by ops that make new
    memory, which shows in what a tracer records, not in results. Here a recording does so of itself: graphs
    of ``jtorch.compile`` write to inputs alone. Raises RuntimeError for another ``remove``.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.functionalize.html

    >>> import jtorch
    >>> def f(x):
    ...     y = x.clone()
    ...     return y.view(-1).add_(1)
    >>> jtorch.func.functionalize(f)(jtorch.zeros(1, 2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove={remove!r}): received invalid argument for kwarg 'remove'. Valid "
            'options are "mutations" and "mutations_and_views"'
        )

    @functools.wraps(func)
    def functional(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return functional
