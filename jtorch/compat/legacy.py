"""Tensor types of the early days, which name a dtype: ``FloatTensor(2, 3)``, ``t.type(torch.LongTensor)``.

Source: https://docs.pytorch.org/docs/stable/tensors.html
"""

from __future__ import annotations

import warnings
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.construction import constructed
from jtorch.eager.messages import long_name
from jtorch.eager.tensor import Tensor


class TensorType(type):
    """The class of ``FloatTensor`` and its kin: calling one makes a Tensor; none has instances of its own."""

    dtype: dt.dtype
    is_cuda: bool

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if cls.is_cuda:
            cls.refuse()
        return constructed(args, cls.dtype, device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return not cls.is_cuda and isinstance(instance, Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    def refuse(cls) -> None:
        raise TypeError(
            f"type {cls.__module__}.{cls.__name__} not available. Torch not compiled with CUDA enabled."
        )


_NAMED = tuple(d for d in dt.ALL if d not in (dt.uint16, dt.uint32, dt.uint64, dt.complex64, dt.complex128))


def _types(module: str, is_cuda: bool) -> dict[str, TensorType]:
    made = {}
    for dtype in _NAMED:
        name = f"{long_name(dtype.numpy)}Tensor"
        facts = {"__module__": module, "dtype": dtype, "is_cuda": is_cuda}
        made[name] = TensorType(name, (), facts | {"__doc__": f"Tensors of {dtype.name}."})
    return made


TYPES = _types("torch", False)
CUDA_TYPES = _types("torch.cuda", True)  # the names are there; making a tensor is the error


def set_default_tensor_type(t: Any, /) -> None:
    """Make the dtype of ``t``, a type or its name, the default float: see ``set_default_dtype``."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        known = {"torch": TYPES, "torch.cuda": CUDA_TYPES}.get(module, {})
        if name not in known:
            raise TypeError(f"invalid type name: {t!r}")
        t = known[name]
    if t is Tensor:
        t = TYPES["FloatTensor"]
    if not isinstance(t, TensorType):
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    if t.is_cuda:
        t.refuse()
    dt.set_default_dtype(t.dtype)
