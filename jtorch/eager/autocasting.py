"""Autocast: arguments cast to what an op of a class computes in, and the op computed without it.

The casting is on the tape, so that gradients come back in the dtypes of the arguments. A parameter in float32
is cast once a block, whoever asks; what has changed since is cast anew.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.core.casting import Casting, Policy, casts, target
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_FLOAT32 = np.dtype(np.float32)


def autocasts(
    policy: str | None = None, *, cpu: str | None = None, cuda: str | None = None
) -> Callable[[F], F]:
    """Declare the class of a function that is no op of the table, on each device or on all. What a function
    of a class calls is not asked again; where users ask it for a ``dtype``, nothing is cast.

    "as_is": what it is made of would be cast, and PyTorch, which computes it at once, casts nothing.
    """
    pair = Policy(cpu, cuda) if policy is None else Policy(policy, policy)

    def decorate(function: F) -> F:
        names = [*inspect.signature(function).parameters]
        place = names.index("dtype") if "dtype" in names else None

        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            context = op_module.CONTEXT.get()
            if context.autocast is None:
                return function(*arguments, **keywords)
            if place is not None and _asks(arguments, keywords, place):
                return alone(function, context, arguments, keywords)
            device = _device_of(arguments, keywords)
            found = pair[device == "cuda"]
            if found is None:
                return function(*arguments, **keywords)
            return _computed_as(found, device, function, context, arguments, keywords)

        called.declared = function  # type: ignore[attr-defined]
        return called  # type: ignore[return-value]

    return decorate


def _asks(arguments: Sequence[Any], keywords: dict, place: int) -> bool:
    """Whether a call names a ``dtype``, which is the argument at ``place``."""
    asked = arguments[place] if place < len(arguments) else keywords.get("dtype")
    return asked is not None


def uncast(function: F) -> F:
    """``function`` for calls that autocast leaves alone: in place, or into ``out=``."""
    return autocasts("as_is")(function)


def computed(
    policy: tuple[str | None, str | None], apply: Callable, context: Context, arguments: Sequence[Any],
    keywords: dict,
) -> Any:  # fmt: skip
    """An op, which ``apply`` computes, of arguments cast as its class says on the device that they lie on."""
    device = _device_of(arguments, keywords)
    return _computed_as(policy[device == "cuda"] or "as_is", device, apply, context, arguments, keywords)


def _computed_as(
    found: str, device: str, function: Callable, context: Context, arguments: Sequence[Any], keywords: dict
) -> Any:
    setting = context.casting.on(device)
    if not setting.enabled or found == "as_is":
        return alone(function, context, arguments, keywords)
    if found == "banned":
        raise RuntimeError(_BANNED)
    given = _tensors([*arguments, *keywords.values()])
    dtypes = [t._data.dtype for t in given if t.is_cuda == (device == "cuda")]
    wanted = dt.of(target(found, setting.dtype, dtypes))
    cast = functools.partial(_cast, context, device, wanted)
    arguments = [cast(a) for a in arguments]
    keywords = {name: cast(value) for name, value in keywords.items()}
    return alone(function, context, arguments, keywords)


_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


def alone(function: Callable, context: Context, arguments: Sequence[Any], keywords: dict) -> Any:
    """``function`` with autocast off."""
    try:  # before the change: Ctrl-C may come right after it
        op_module.CONTEXT.set(without(context))
        return function(*arguments, **keywords)
    finally:
        op_module.CONTEXT.set(context)


def _device_of(arguments: Sequence[Any], keywords: dict) -> str:
    """Where a call is computed: beside tensors on a device those of the host are numbers or indices."""
    on_device = any(t.is_cuda for t in _tensors([*arguments, *keywords.values()]))
    return "cuda" if on_device else "cpu"


def without(context: Context) -> Context:
    """``context`` with autocast off."""
    return context.replace(casting=context.casting.off())


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


def _cast(context: Context, device: str, wanted: dt.dtype, value: Any) -> Any:
    if isinstance(value, Tensor):
        dtype = value._data.dtype
        if dtype is wanted.numpy or not casts(dtype) or value.is_cuda != (device == "cuda"):
            return value
        casting = context.casting
        lowers = dtype is _FLOAT32 and casting.on(device).dtype is wanted and casting.cache_enabled
        if lowers and value._requires_grad and value._node is None and value._base is None:
            return _remembered(casting.cache, context.grad, wanted, value)
        return value.to(wanted)
    if value.__class__ in (list, tuple) and any(isinstance(v, Tensor) for v in value):
        return [_cast(context, device, wanted, v) for v in value]
    return value


def _remembered(cache: dict, grad: bool, wanted: dt.dtype, leaf: Tensor) -> Tensor:
    """``leaf`` cast, as it was cast before if it still is what it was then. Without gradients that is another
    tensor: on no tape."""
    key = id(leaf), grad, wanted
    version = leaf._cell[0] + 0
    found = cache.get(key)
    if found is not None and found[1] is leaf._data and found[2] == version:
        return found[3]
    cast = leaf.to(wanted)
    cache[key] = leaf, leaf._data, version, cast  # ``leaf``, so that its id is nobody else's
    return cast
