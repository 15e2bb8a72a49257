"""Tensors over other libraries' memory, and their memory given to other libraries: NumPy, buffers, DLPack.

Nothing here copies unless it is asked to, and nothing leaves the tape unasked: what requires grad refuses
and says ``detach()``, but where no tape is written (``no_grad``). Sources: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html,
https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jtorch.core import devices, dtypes as dt, higher
from jtorch.core.device_array import DeviceArray
from jtorch.core.op import CONTEXT
from jtorch.eager.duals import is_dual
from jtorch.eager.messages import long_name
from jtorch.eager.nested import is_recorded, tensor_of
from jtorch.eager.tensor import Tensor, _concrete, wrap

# -- in ----------------------------------------------------------------------------------------------------


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory. Writing to one of a read-only array is NumPy's error.

    Raises TypeError for a dtype jtorch lacks and for masked arrays, ValueError for negative strides and
    foreign byte orders. Source: https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html
    """
    if is_recorded(array):
        return wrap(array.shared())  # type: ignore[attr-defined]
    if not isinstance(array, np.ndarray):
        kind = type(array)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(f"expected np.ndarray (got {module}{kind.__qualname__})")
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are "
            "not "
            "currently supported. (You can probably work around this by making a copy of your array  with "
            "array.copy().) "
        )
    dtype = _dtype_of(array)
    if any(s % dtype.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
            "reallocate the memory."
        )
    return wrap(_plain_array(array, dtype))


def _dtype_of(array: np.ndarray) -> np.dtype:
    """*The* object of the dtype of its elements. Raises TypeError and ValueError for what no tensor holds."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("expected np.ndarray (got a masked array: use .filled(value), a tensor has no mask)")
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte "
            "orders is currently not supported."
        )
    return dt.of(array.dtype).numpy


def _plain_array(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The same memory as an ndarray proper whose dtype is *the* object of that dtype."""
    if type(array) is not np.ndarray:
        array = array.view(np.ndarray)
    return array if array.dtype is dtype else array.view(dtype)


def frombuffer(
    buffer: Any, *, dtype: dt.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor over the memory of an object with a buffer, from byte ``offset`` on.

    Raises ValueError where the buffer does not hold ``count`` elements there.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.frombuffer.html
    """
    target = dt.to_numpy(dtype)
    assert target is not None
    try:
        length = memoryview(buffer).nbytes
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} "
            "bytes) minus 1"
        )
    if count < 0 and (length - offset) % target.itemsize:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            "element "
            f"size ({target.itemsize})"
        )
    if count > 0 and offset + count * target.itemsize > length:
        raise ValueError(
            f"requested buffer length ({count} * {target.itemsize} bytes) after offset ({offset} bytes) must "
            "not be "
            f"greater than actual buffer length ({length} bytes)"
        )
    return wrap(np.frombuffer(buffer, target, count, offset)).requires_grad_(requires_grad)


class _Capsule:
    """A bare DLPack capsule as the object that NumPy reads one from."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over another library's memory: an object with ``__dlpack__``, or a capsule.

    Raises BufferError where the memory can't be shared, or not without the ``copy`` that was refused.
    Source: https://docs.pytorch.org/docs/stable/dlpack.html
    """
    devices.check(device)
    on_device = _of_device(ext_tensor)
    if on_device is not None:
        made = wrap(on_device)
        if copy is False and device is not None and devices.check(device) != made.device:
            raise BufferError("from_dlpack: memory of another device can't be shared, and copy is False")
        made = made.clone() if copy else made
        return made if device is None else made.to(device)
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = _Capsule(ext_tensor)
    elif not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, "
            "so you "
            "might have already constructed a tensor from it once."
        )
    return from_numpy(np.from_dlpack(ext_tensor, copy=copy))


def _of_device(ext_tensor: Any) -> DeviceArray | None:
    """An array over memory of a CUDA device; None where it is not of one."""
    if type(ext_tensor).__name__ == "PyCapsule":
        from jtorch.eager import device_exchange

        if device_exchange.kind_of_device(ext_tensor) != device_exchange.CUDA:
            return None
        return device_exchange.from_capsule(ext_tensor)
    asked = getattr(ext_tensor, "__dlpack_device__", None)
    if asked is None or asked()[0] != _DLPACK_CUDA:
        return None
    from jtorch.eager import device_exchange

    return device_exchange.taken(ext_tensor)


_DLPACK_CUDA = 2


def _of_interface(obj: Any) -> Tensor | None:
    """A tensor over the memory that an object's ``__cuda_array_interface__`` tells of, None without one."""
    if isinstance(obj, (np.ndarray, list, tuple)) or not hasattr(obj, "__cuda_array_interface__"):
        return None
    from jtorch.eager import device_exchange

    return wrap(device_exchange.from_interface(obj))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing memory and the tape where it is a tensor or array of that dtype.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.as_tensor.html
    """
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(device, dtype=dtype)
    there = _of_interface(data)
    if there is not None:
        return there if dtype is None and device is None else there.to(device, dtype=dtype)
    made = from_numpy(data) if isinstance(data, np.ndarray) or is_recorded(data) else tensor_of(data, dtype)
    place = devices.chosen(device)
    return made if dtype is None and place is devices.CPU else made.to(place, dtype=dtype)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """``obj`` as a tensor: shared where possible, never where ``copy`` is true, always where it is false.

    ``obj`` is a tensor, an array, an object with ``__dlpack__`` or a buffer (read as elements of ``dtype``),
    or nested numbers. Without ``requires_grad`` a tensor keeps its own. Raises ValueError where
    ``copy=False`` can't be had. Source: https://docs.pytorch.org/docs/stable/generated/torch.asarray.html
    """
    place = None if device is None else devices.check(device)
    found = _shared(obj, dtype, copy)
    if found is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        found = tensor_of(obj, dtype)
    else:
        found = _as_asked(found, dtype, copy)
    if place is not None and place != found.device:
        found = found.to(place)
    if requires_grad is None or found.requires_grad == requires_grad:
        return found
    return found.detach().requires_grad_(requires_grad)


def _shared(obj: Any, dtype: Any, copy: bool | None) -> Tensor | None:
    """A tensor over the memory of ``obj``; None for what has no memory of one kind of element."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj.copy() if copy else obj)
    if isinstance(obj, (np.generic, str, list, tuple)):
        return None
    there = _of_interface(obj)
    if there is not None:
        return there
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    try:
        memoryview(obj)
    except TypeError:
        return None
    return frombuffer(obj, dtype=dtype or dt.get_default_dtype())


def _as_asked(tensor: Tensor, dtype: Any, copy: bool | None) -> Tensor:
    target = dt.to_numpy(dtype)
    if target is not None and target != tensor._data.dtype:
        if copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{long_name(tensor._data.dtype)}' into dtype "
                f"'{long_name(target)}'."
            )
        return tensor.to(dtype)
    return tensor.clone() if copy else tensor


# -- out ---------------------------------------------------------------------------------------------------


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as an array that shares this tensor's memory; ``force`` detaches first.

    Raises RuntimeError for a tensor that requires grad, other than where gradients are off (``no_grad``).
    Source: https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html
    """
    if _on_tape(self) and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return _concrete(self, "numpy()")


def _on_tape(tensor: Tensor) -> bool:
    """Whether computing on the bare elements would lose a gradient: in ``no_grad`` there is none to lose."""
    return tensor._requires_grad and CONTEXT.get().enabled


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol: ``copy=False`` is a ValueError where only a copy would do.

    Source: https://numpy.org/doc/stable/user/basics.interoperability.html
    """
    if _on_tape(self):
        numpy(self)  # which says what to do
    array = _concrete(self, "__array__()")
    return array if dtype is None and not copy else np.array(array, dtype=dtype, copy=copy)


_OPERATORS: dict[Any, Callable] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.true_divide: operator.truediv, np.floor_divide: operator.floordiv, np.remainder: operator.mod,
    np.power: operator.pow, np.matmul: operator.matmul, np.equal: operator.eq, np.not_equal: operator.ne,
    np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
}  # fmt: skip


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """An operator between an array and a tensor is the tensor's, tape included; the dtype is NumPy's.

    Any other of NumPy's functions and their methods (``np.add.reduce``) compute on the bare elements, and
    what they give is a tensor again, as in PyTorch, but for ``outer`` and the arrays of ``out``. Where a
    tensor requires grad that would lose the tape: it is a TypeError; so is a tensor that is written to.
    """
    if method == "__call__" and not options and ufunc in _OPERATORS:
        return _OPERATORS[ufunc](*_of_one_dtype(inputs, [_operand(value) for value in inputs]))
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    written = inputs[:1] if method == "at" else options.get("out", ())
    if any(isinstance(value, Tensor) for value in written):
        raise TypeError(
            f"np.{name}: NumPy writes to arrays, not to a Tensor. Use jtorch's own function of that kind, or "
            "hand in the array that shares its memory, tensor.numpy()."
        )
    tensors = [value for value in (*inputs, options.get("where")) if isinstance(value, Tensor)]
    if any(map(_on_tape, tensors)) or is_dual(*tensors):
        raise TypeError(
            f"np.{name} on a Tensor: NumPy would compute on its elements and gradients would be lost. Use "
            "jtorch's own "
            f"function of that kind, or np.{name}(tensor.detach().numpy()) for an array that has no gradient."
        )
    plain = [_concrete(v, f"np.{name}") if isinstance(v, Tensor) else v for v in inputs]
    if isinstance(options.get("where"), Tensor):
        options["where"] = _concrete(options["where"], f"np.{name}")
    found = getattr(ufunc, method)(*plain, **options)
    return found if written or method in ("at", "outer") else _as_tensors(found)


def _as_tensors(found: Any) -> Any:
    """What a function of NumPy's gave, as tensors of its dtype."""
    if isinstance(found, tuple):
        return tuple(map(_as_tensors, found))
    return from_numpy(np.asarray(found))


def _of_one_dtype(inputs: tuple, operands: list[Any]) -> list[Any]:
    """``operands`` in the dtype that NumPy computes in, if there is an array among ``inputs``."""
    if not any(isinstance(value, np.ndarray) for value in inputs):
        return operands
    target = dt.of(dt.promoted_by_numpy([t._data.dtype for t in operands if isinstance(t, Tensor)]))
    return [t.to(target) if isinstance(t, Tensor) else t for t in operands]


def _operand(value: Any) -> Any:
    """NumPy's numbers are weak, as Python's are; its arrays become tensors.

    Of their own memory: a write to the array would change what the tape saved, unseen by the version counter.
    """
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        return value
    if CONTEXT.get().evaluator.follows(value):  # a later call copies the elements of then
        return wrap(_plain_array(value, _dtype_of(value))).clone()
    return from_numpy(value.copy())


def _dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A capsule over this tensor's memory, for ``from_dlpack`` of other libraries.

    Raises BufferError for a tensor that requires grad, and for read-only memory unless ``max_version`` allows
    to say so. Source:
    https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html
    """
    if self._requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if self._data.__class__ is DeviceArray and self.is_cuda:
        return _dlpack_of_device(self, stream, max_version, dl_device, copy)
    array = _concrete(self, "__dlpack__()")
    return array.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """(kind of device, its number): 1 is the CPU, 2 is CUDA."""
    return (_DLPACK_CUDA, 0) if self.is_cuda else (1, 0)


def _dlpack_of_device(self: Tensor, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    from jtorch.eager import device_exchange

    if dl_device is not None and tuple(dl_device) != (_DLPACK_CUDA, 0):
        if tuple(dl_device) != (1, 0) or copy is False:
            raise BufferError(f"__dlpack__: memory of {self.device} can't be shared with device {dl_device}")
        return self.cpu().__dlpack__(max_version=max_version)
    array = self.clone()._data if copy else self._data
    return device_exchange.capsule_of(array, stream, max_version)


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """What libraries for CUDA ask: where the elements are, version 3.

    Raises AttributeError for a tensor that is not on a CUDA device, RuntimeError for one that requires grad.
    Source: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
    """
    if not self.is_cuda or self._data.__class__ is not DeviceArray:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is "
            "required use tensor.cuda() to copy tensor to device memory."
        )
    if self._requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
            "required, use var.detach() to get Variable that doesn't require grad."
        )
    return self._data.__cuda_array_interface__


def to_dlpack(tensor: Tensor) -> Any:
    """``tensor`` as a DLPack capsule, which can be consumed once."""
    return tensor.__dlpack__()


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module of the array API standard's functions for tensors: ``jtorch.array_api``."""
    import importlib

    namespace = importlib.import_module("jtorch.array_api")
    namespace.check_version(api_version)
    return namespace


FUNCTIONS: dict[str, Callable] = {
    "from_numpy": from_numpy, "from_dlpack": from_dlpack, "frombuffer": frombuffer, "as_tensor": as_tensor,
    "asarray": asarray, "to_dlpack": to_dlpack,
}  # fmt: skip


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """The elements that are not zero, with their places: a ``sparse.SparseTensor``."""
    assert higher.sparse is not None
    return higher.sparse().to_sparse(self, sparse_dim, layout=layout)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The same of a matrix by rows."""
    assert higher.sparse is not None
    return higher.sparse().to_sparse_csr(self, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The same of a matrix by columns."""
    assert higher.sparse is not None
    return higher.sparse().to_sparse_csc(self, dense_dim)


METHODS: dict[str, Any] = {
    "numpy": numpy, "__array__": _array, "__array_ufunc__": _array_ufunc, "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device, "__cuda_array_interface__": property(_cuda_array_interface),
    "__array_namespace__": _array_namespace,
    "to_sparse": to_sparse, "to_sparse_csr": to_sparse_csr, "to_sparse_csc": to_sparse_csc,
}  # fmt: skip
