"""Autocast: arguments cast to what an op of a class computes in, and the op computed without it.

The casting is on the tape, so that gradients come back in the dtypes of the arguments. A parameter in float32
is cast once a block, whoever asks; what has changed since is cast anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.casting import Casting, casts
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_FLOAT32 = np.dtype(np.float32)


def autocasts(policy: str | None) -> Callable[[F], F]:
    """Declare the class of a function that is no op of the table: what it calls is not asked again.

    ``None``: what it is made of would be cast, and PyTorch, which computes it at once, casts nothing.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            context = op_module.CONTEXT.get()
            if context.autocast is None:
                return function(*arguments, **keywords)
            return computed(policy, function, context, arguments, keywords)

        called.declared = function  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate


def uncast(function: F) -> F:
    """``function`` for calls that autocast leaves alone: in place, or into ``out=``."""
    return autocasts(None)(function)


def computed(
    policy: str | None, function: Callable, context: Context, arguments: Sequence[Any], keywords: dict
) -> Any:
    """``function`` of arguments cast as its class ``policy`` says."""
    if policy is not None:
        given = [*arguments, *keywords.values()]
        casting = context.casting
        target = dt.of(casting.target(policy, [t._data.dtype for t in _tensors(given)]))
        cast = functools.partial(_cast, casting, context.grad, target)
        arguments = [cast(a) for a in arguments]
        keywords = {name: cast(value) for name, value in keywords.items()}
    try:  # before the change: Ctrl-C may come right after it
        op_module.CONTEXT.set(without(context))
        return function(*arguments, **keywords)
    finally:
        op_module.CONTEXT.set(context)


def without(context: Context) -> Context:
    """``context`` with autocast off."""
    return context.replace(casting=context.casting.replace(enabled=False))


@contextmanager
def as_before(casting: Casting) -> Iterator[None]:
    """Autocast as it was once, for what is run again."""
    before = op_module.CONTEXT.get()
    try:  # before the change: Ctrl-C may come right after it
        op_module.CONTEXT.set(before.replace(casting=casting.replace(cache={})))
        yield
    finally:
        op_module.CONTEXT.set(before)


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif value.__class__ in (list, tuple):
            yield from _tensors(value)


def _cast(casting: Casting, grad: bool, target: dt.dtype, value: Any) -> Any:
    if isinstance(value, Tensor):
        dtype = value._data.dtype
        if dtype is target.numpy or not casts(dtype):
            return value
        lowers = dtype is _FLOAT32 and casting.dtype is target and casting.cache_enabled
        if lowers and value._requires_grad and value._node is None and value._base is None:
            return _remembered(casting.cache, grad, target, value)
        return value.to(target)
    if value.__class__ in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [_cast(casting, grad, target, v) for v in value]
    return value


def _remembered(cache: dict, grad: bool, target: dt.dtype, leaf: Tensor) -> Tensor:
    """``leaf`` cast, as it was cast before if it still is what it was then. Without gradients that is another
    tensor: on no tape."""
    key = id(leaf), grad, target
    version = leaf._cell[0] + 0
    found = cache.get(key)
    if found is not None and found[1] is leaf._data and found[2] == version:
        return found[3]
    cast = leaf.to(target)
    cache[key] = leaf, leaf._data, version, cast  # ``leaf``, so that its id is nobody else's
    return cast
