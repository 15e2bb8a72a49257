"""Where a tensor is and what its elements are: ``to`` in all its forms, ``type``, ``cpu``, ``cuda``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes as dt, memory_formats as formats, op as op_module
from jtorch.core.devices import check, device
from jtorch.eager.binding import APPLY
from jtorch.eager.duals import tangent_of
from jtorch.eager.messages import long_name
from jtorch.eager.node import Node
from jtorch.eager.tensor import Tensor, wrap

_FORMS = {
    "device": ("device", "dtype", "non_blocking", "copy"),
    "dtype": ("dtype", "non_blocking", "copy"),
    "other": ("other", "non_blocking", "copy"),
}
_PYTHON_TYPES = (float, int, bool, complex)
_OPTIONS = frozenset(("device", "dtype", "non_blocking", "copy", "memory_format"))


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to(device, dtype)``, ``to(dtype)`` or ``to(other)``; itself where nothing changes and no copy is
    asked.

    Each form takes ``non_blocking`` and ``copy``, too, and ``memory_format`` by name. With ``non_blocking``
    pinned memory is read while the program goes on; nothing else returns before it is done. Raises
    RuntimeError for a device this build lacks, TypeError for other arguments.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html
    """
    asked, before = _arguments(args, kwargs), self.device
    order = formats.asked(asked.get("memory_format"), "to()")
    other = asked.get("other")
    wanted = asked.get("dtype") if other is None else other.dtype
    place = asked.get("device")
    if place is None and other is not None:
        place = other.device
    if place is not None and (place := check(place)) != self.device:
        self = moved(self, place, bool(asked.get("non_blocking")))
    target = dt.to_numpy(wanted)
    if target is not None and target is not self._data.dtype:
        out = APPLY["cast"](self, dtype=target)
        return out if order is None else out.contiguous(memory_format=order)
    if order is not None and not self.is_contiguous(memory_format=order):
        return self.contiguous(memory_format=order)
    return self.clone() if asked.get("copy") and self.device == before else self


def moved(tensor: Tensor, place: device, later: bool = False) -> Tensor:
    """``tensor`` on another device, with a gradient that comes back to where it was."""
    context = op_module.CONTEXT.get()
    out = wrap(context.evaluator.move(tensor._data, place, later))
    if context.level is not None and (tangent := tangent_of(tensor)) is not None:
        context.level.give(out, moved(tangent, place))
    if context.grad and tensor._requires_grad:
        edge, data = (tensor._node or tensor, tensor._index), tensor._data
        node = ToCopyBackward0((edge,), (tensor.device,), (), (data.shape, data.dtype))
        out._node, out._requires_grad = node, True
    return out


def beside(tensor: Tensor, made: Tensor) -> Tensor:
    """``made`` where ``tensor`` lies."""
    return made if made.device == tensor.device else made.to(tensor.device)


class ToCopyBackward0(Node):
    """A copy on another device; it keeps where the gradient goes."""

    __slots__ = ()
    frees = False

    @staticmethod
    def vjp(xp: Any, g: Any, place: device) -> Any:
        return op_module.CONTEXT.get().evaluator.move(g, place)

    def backward_on_tensors(self, xp: Any, g: Any) -> Any:
        return moved(g, *self.check_saved())


def _arguments(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, whichever form they are in."""
    form = "device"
    if args and isinstance(args[0], Tensor):
        form = "other"
    elif args and (isinstance(args[0], dt.dtype) or args[0] in _PYTHON_TYPES):
        form = "dtype"
    names = _FORMS[form]
    asked = dict(zip(names, args, strict=False))
    fits = (
        len(args) <= len(names)
        and not kwargs.keys() & asked.keys()
        and kwargs.keys() <= _OPTIONS
        and not (form == "other" and kwargs.keys() & {"device", "dtype"})
    )
    asked |= kwargs
    place, wanted = asked.get("device"), asked.get("dtype")
    fits &= place is None or isinstance(place, (str, int, device))
    fits &= wanted is None or isinstance(wanted, dt.dtype) or wanted in _PYTHON_TYPES
    fits &= all(isinstance(asked.get(flag, False), bool) for flag in ("non_blocking", "copy"))
    if not fits:
        raise TypeError(
            f"to() received an invalid combination of arguments - got ({_told(args, kwargs)}), but expected "
            "one of:\n"
            " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy "
            "= False, *, "
            "torch.memory_format memory_format = None)\n"
            " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format "
            "memory_format = None)\n"
            " * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format "
            "memory_format = "
            "None)\n"
        )
    return asked


def _told(args: tuple, kwargs: dict[str, Any]) -> str:
    named = [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return ", ".join([type(value).__name__ for value in args] + named)


def cpu(self: Tensor, memory_format: Any = formats.preserve_format) -> Tensor:
    """A copy on the host; this tensor where it is there already."""
    return self.to("cpu", memory_format=memory_format)


def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = formats.preserve_format
) -> Tensor:  # fmt: skip
    """A copy on a CUDA device; this tensor where it is there already. Raises DeviceError without one."""
    place = "cuda" if device is None else device
    return self.to(place, non_blocking=non_blocking, memory_format=memory_format)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of this tensor's type, "torch.FloatTensor"; with ``dtype``, the tensor cast to it.

    ``dtype`` is a dtype or such a name. Raises ValueError for a name that is none.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.type.html
    """
    if dtype is None:
        return _type_name(self.dtype)
    if isinstance(dtype, str):
        check("cuda" if dtype.startswith("torch.cuda.") else None)
        found = next((d for d in dt.ALL if _type_name(d) == dtype), None)
        if found is None:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = found
    named = getattr(dtype, "dtype", None)
    if isinstance(dtype, type) and isinstance(named, dt.dtype):  # LongTensor
        check("cuda" if getattr(dtype, "is_cuda", False) else None)
        dtype = named
    if dtype is Tensor:
        dtype = dt.get_default_dtype()
    if isinstance(dtype, type):
        raise ValueError(f"invalid type: '{dtype.__name__}'")
    if not isinstance(dtype, dt.dtype):
        raise TypeError("dtype must be a type, str, or dtype object")
    return self.to(dtype)


def _type_name(dtype: dt.dtype) -> str:
    return f"torch.{long_name(dtype.numpy)}Tensor"


def get_device(self: Tensor) -> int:
    """The number of the GPU that holds this tensor; -1 where none does."""
    return self.device.index or 0 if self.is_cuda else -1


FUNCTIONS: dict[str, Callable] = {}
METHODS: dict[str, Any] = {
    "to": to, "cpu": cpu, "cuda": cuda, "type": type_, "get_device": get_device,
}  # fmt: skip
