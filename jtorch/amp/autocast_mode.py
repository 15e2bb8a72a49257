"""``autocast``: products in a type of 16 bits, sums and losses in float32, without a cast in the program.

    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = criterion(model(x), y)
    loss.backward()

What is set belongs to the thread: it is part of the context that ops run in, and of what a compiled function
was recorded for. Source: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.casting import OFF, Setting, casts
from jtorch.core.devices import cuda_is_available
from jtorch.core.dtypes import bfloat16, dtype, float16, float32
from jtorch.eager.public import Tensor

_SUPPORTED = {"cpu": (bfloat16, float16), "cuda": (bfloat16, float16, float32)}
# of devices that are not here: what PyTorch has for them
_OTHERS = {
    "xpu": float16, "mps": float16, "mtia": float16, "maia": float16, "ipu": float16,
    "hpu": bfloat16, "xla": bfloat16,
}  # fmt: skip


class autocast:  # noqa: N801 - PyTorch's name
    """A block, or a function, whose ops compute in the dtypes of their classes; ``enabled=False`` inside one
    is a block without.

    >>> import jtorch
    >>> a = jtorch.ones(2, 2)
    >>> with jtorch.autocast("cpu", dtype=jtorch.bfloat16):
    ...     print((a @ a).dtype, a.exp().dtype)
    jtorch.bfloat16 jtorch.float32

    It is about the tensors of one device, "cpu" or "cuda"; blocks of the two nest. On a device that is not
    there it warns and does nothing, as in PyTorch. ``dtype`` is bfloat16 on the CPU and float16 on "cuda",
    unless it is given or was set. Parameters in float32 are cast once a block, unless ``cache_enabled`` is
    False. Raises RuntimeError for a device that PyTorch has no autocast for.
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self._type = _kind(device_type, "autocast")
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else bool(cache_enabled)
        self._enabled = bool(enabled) and self._is_possible()

    def _is_possible(self) -> bool:
        """Whether it can be on; a warning says why not."""
        if self._type != "cpu" and not (self._type == "cuda" and cuda_is_available()):
            warnings.warn(
                f"{self._type.upper()} is not available or torch_xla is imported. Disabling autocast.",
                UserWarning,
                stacklevel=3,
            )
            return False
        if self.fast_dtype not in _SUPPORTED[self._type]:
            name, known = self._type.upper(), ", ".join(map(str, _SUPPORTED[self._type]))
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {known} currently.",
                UserWarning,
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        """What held before is kept in the context, not here: one object serves several blocks and threads."""
        context = op_module.CONTEXT.get()
        before = context.casting
        changes: dict[str, Any] = {
            "cache_enabled": self._cache_enabled, "nesting": before.nesting + 1, "outer": before,
        }  # fmt: skip
        if self._type in _SUPPORTED:
            changes[self._type] = Setting(self._enabled, self.fast_dtype)
        if before.nesting == 0:
            changes["cache"] = {}
        try:
            op_module.CONTEXT.set(context.replace(casting=before.replace(**changes)))
        except BaseException:  # Ctrl-C, right after the change: nobody would call __exit__
            op_module.CONTEXT.set(context)
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        context = op_module.CONTEXT.get()
        op_module.CONTEXT.set(context.replace(casting=context.casting.outer or OFF))

    def __call__(self, func: Callable) -> Callable:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use "
                "autocast as a context manager? For example:\n"
                "    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable) -> Callable:
    """``func`` inside the block ``autocast_instance``."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


# -- what is set -------------------------------------------------------------------------------------------


def _change(**changes: Any) -> None:
    context = op_module.CONTEXT.get()
    if not context.casting.nesting:  # outside of blocks each setting has a cache of its own
        changes["cache"] = {}
    op_module.CONTEXT.set(context.replace(casting=context.casting.replace(**changes)))


def _now(device_type: str) -> Setting:
    casting = op_module.CONTEXT.get().casting
    if device_type in _OTHERS:
        return dict(casting.others).get(device_type, Setting(False, _OTHERS[device_type]))
    return casting.on(device_type)


def _set(device_type: str, setting: Setting) -> None:
    if device_type in _OTHERS:
        others = dict(op_module.CONTEXT.get().casting.others) | {device_type: setting}
        kept = ((name, s) for name, s in others.items() if s != Setting(False, _OTHERS[name]))
        _change(others=tuple(sorted(kept, key=lambda entry: entry[0])))
    else:
        _change(**{device_type: setting})


def _kind(device_type: str, what: str) -> str:
    """ "cuda" of "cuda:1": what is set is about all devices of a kind."""
    kind, colon, number = device_type.partition(":")
    if (kind in _SUPPORTED or kind in _OTHERS) and (number.isdigit() or not colon):
        return kind
    raise RuntimeError(f"unknown device type for autocast in {what}: {device_type!r}")


def is_autocast_available(device_type: str) -> bool:
    """Whether PyTorch knows autocast for ``device_type``; here it is on for "cpu" and "cuda" alone."""
    kind = device_type.partition(":")[0]
    return kind in _SUPPORTED or kind in _OTHERS


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on; without an argument, on "cuda"."""
    device_type = "cuda" if device_type is None else device_type
    device_type = _kind(device_type, "is_autocast_enabled")
    return _now(device_type).enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for this thread, until it is switched again or the block around it ends.

    Where there is no CUDA it can be on for "cuda", and for devices that are never here, and changes nothing.
    Raises RuntimeError for a device that PyTorch has no autocast for.
    """
    if isinstance(device_type, bool) and enabled is None:  # of a GPU
        enabled, device_type = device_type, "cuda"
    if not isinstance(device_type, str):
        raise TypeError(
            "set_autocast_enabled(): argument 'device_type' (position 1) must be str, not "
            f"{type(device_type).__name__}"
        )
    device_type = _kind(device_type, "set_autocast_enabled")
    _set(device_type, _now(device_type)._replace(enabled=bool(enabled)))


def get_autocast_dtype(device_type: str) -> dtype:
    """The type that autocast lowers to on ``device_type``: bfloat16 on "cpu" and float16 on "cuda", unless it
    was set."""
    device_type = _kind(device_type, "get_autocast_dtype")
    return _now(device_type).dtype


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Set that type for this thread. Raises RuntimeError for one that no op computes in under autocast."""
    device_type = _kind(device_type, "set_autocast_dtype")
    if dtype not in _SUPPORTED.get(device_type, (dtype,)):
        known = " and ".join(map(str, _SUPPORTED[device_type]))
        raise RuntimeError(f"set_autocast_dtype({device_type!r}, {dtype}): autocast lowers to {known}")
    _set(device_type, _now(device_type)._replace(dtype=dtype))


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost block ends."""
    return op_module.CONTEXT.get().casting.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep casts of parameters until the outermost block ends, or don't."""
    _change(cache_enabled=bool(enabled))


def clear_autocast_cache() -> None:
    """Forget what was cast."""
    op_module.CONTEXT.get().casting.cache.clear()


def autocast_increment_nesting() -> int:
    """How many blocks there are now, one more than before."""
    _change(nesting=op_module.CONTEXT.get().casting.nesting + 1)
    return op_module.CONTEXT.get().casting.nesting


def autocast_decrement_nesting() -> int:
    """How many blocks there are now, one less than before."""
    _change(nesting=op_module.CONTEXT.get().casting.nesting - 1)
    return op_module.CONTEXT.get().casting.nesting


def get_autocast_gpu_dtype() -> dtype:
    """``get_autocast_dtype("cuda")``"""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """``set_autocast_dtype("cuda", dtype)``"""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cpu_enabled() -> bool:
    """``is_autocast_enabled("cpu")``"""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """``set_autocast_enabled("cpu", enabled)``"""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """``get_autocast_dtype("cpu")``"""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """``set_autocast_dtype("cpu", dtype)``"""
    set_autocast_dtype("cpu", dtype)


def warn_of_early_name(name: str, device_type: str, by_keyword: bool = False) -> None:
    """Say that ``torch.amp`` has what was called as ``torch.cuda.amp.autocast`` or the like, in PyTorch's
    words."""
    told = f"args..., device_type='{device_type}'" if by_keyword else f"'{device_type}', args..."
    warnings.warn(
        f"`torch.{device_type}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({told})` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


# -- custom Functions --------------------------------------------------------------------------------------


def custom_fwd(
    fwd: Callable | None = None, *, device_type: str, cast_inputs: dtype | None = None
) -> Callable:
    """Decorate the ``forward`` of a custom Function: with ``cast_inputs`` it gets its floating-point tensors
    in that dtype and runs without autocast, where that is on; ``custom_bwd`` learns what held.

    Source: https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions
    """
    _check_is_text(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        is_on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = is_on and cast_inputs is None
        if not is_on or cast_inputs is None:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorate the ``backward`` of a custom Function: it runs as its ``forward`` did."""
    _check_is_text(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd


def _check_is_text(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(value: Any, target: dtype) -> Any:
    """``value`` with the floating-point tensors in it, but those of float64, in ``target``."""
    if isinstance(value, Tensor):
        return value.to(target) if casts(value.dtype.numpy) else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, target): _cast(v, target) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, target) for v in value)
    return (_cast(v, target) for v in value) if isinstance(value, Iterable) else value
