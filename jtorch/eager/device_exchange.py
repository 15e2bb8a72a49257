"""Memory of a CUDA device shared with other libraries: DLPack, and the CUDA array interface.

Who gives memory and who takes it may use different queues of the device. What is given is ready: the device
has been waited for, but where the taker works in the same queue, or says that it waits by itself. Of what is
taken the giver's queue is waited for. Sources: https://dmlc.github.io/dlpack/latest/python_spec.html,
https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, higher
from jtorch.core.device_array import DeviceArray
from jtorch.core.devices import check
from jtorch.core.strides import contiguous_strides

CUDA = 2  # kDLCUDA
_KINDS = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}  # DLDataTypeCode, by NumPy's letters; V is bfloat16
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):  # DLManagedTensor, of before 1.0
    _fields_ = (("tensor", _Tensor), ("manager", ctypes.c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):  # DLManagedTensorVersioned
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", _DELETER), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_FORMS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_USED = {name: b"used_" + name for name in _FORMS}  # what a capsule is called that somebody has taken

_api = ctypes.pythonapi
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))

_given: dict[int, tuple] = {}  # address of a managed tensor -> what it points to, until it is deleted


@_DELETER
def _delete(address: int) -> None:
    _given.pop(address, None)


@_DESTRUCTOR
def _forget(capsule: int) -> None:
    """A capsule that nobody has taken: what it holds goes with it."""
    for name in _FORMS:
        if _is_valid(capsule, name):
            _given.pop(_pointer(capsule, name), None)


# -- out ---------------------------------------------------------------------------------------------------


def capsule_of(array: DeviceArray, stream: Any, max_version: Any) -> Any:
    """A capsule over ``array``, ready for the taker's ``stream``, as DLPack numbers them. Raises BufferError
    for a stream that the standard has not, and for a dtype that it has not."""
    code = _KINDS.get(array.dtype.kind)
    if code is None or (code == 4 and array.dtype.itemsize != 2):
        raise BufferError(f"DLPack has no word for {array.dtype}")
    if stream == 0:
        raise BufferError("__dlpack__: stream 0 could be one of two: 1 is the legacy one, 2 the thread's")
    _wait_for_own(array, stream)
    name = b"dltensor_versioned" if max_version is not None and max_version[0] >= 1 else b"dltensor"
    managed, n = _FORMS[name](), max(array.ndim, 1)
    shape = (ctypes.c_int64 * n)(*array.shape)
    strides = (ctypes.c_int64 * n)(*array.element_strides)
    told = managed.tensor
    told.data, told.device_type, told.device_id = (array.address if array.size else None), CUDA, 0
    told.ndim, told.shape, told.strides, told.byte_offset = array.ndim, shape, strides, 0
    told.code, told.bits, told.lanes = code, 8 * array.dtype.itemsize, 1
    managed.deleter = _delete
    if name == b"dltensor_versioned":
        managed.major = 1
    address = ctypes.addressof(managed)
    _given[address] = managed, shape, strides, array
    return _new(address, name, _forget)


def _wait_for_own(array: DeviceArray, stream: Any) -> None:
    native = array.block.memory.native
    if stream not in (-1, native.stream):
        with native.own():
            native.synchronize()


# -- in ----------------------------------------------------------------------------------------------------


class _Owner:
    """What keeps borrowed memory alive."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept


def _memory() -> Any:
    check("cuda")
    assert higher.device is not None
    return higher.device().current()


def kind_of_device(capsule: Any) -> int:
    """On what the memory of a DLPack capsule lies. Raises RuntimeError for one that was taken already."""
    return int(_tensor_of(capsule)[1].tensor.device_type)


def _tensor_of(capsule: Any) -> tuple[bytes, Any]:
    for name, form in _FORMS.items():
        if _is_valid(id(capsule), name):
            return name, form.from_address(_pointer(id(capsule), name))
    raise RuntimeError(
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so "
        "you might have already constructed a tensor from it once."
    )


def taken(ext_tensor: Any) -> DeviceArray:
    """An array over the memory of an object with ``__dlpack__``, ready for this library's queue."""
    stream = _memory().native.stream
    try:
        return from_capsule(ext_tensor.__dlpack__(stream=stream, max_version=(1, 0)))
    except TypeError:  # of before 1.0
        return from_capsule(ext_tensor.__dlpack__(stream=stream))


def from_capsule(capsule: Any) -> DeviceArray:
    """An array over the memory of a capsule, which is taken by that. Raises BufferError for what no tensor
    holds."""
    name, managed = _tensor_of(capsule)
    told = managed.tensor
    kinds = {code: letter for letter, code in _KINDS.items()}
    letter = kinds.get(told.code)
    if letter is None or told.lanes != 1 or told.bits % 8 or told.device_id:
        raise BufferError(
            f"from_dlpack: no tensor holds elements of kind {told.code} with {told.bits} bits, {told.lanes} "
            f"together, on device {told.device_id}"
        )
    if name == b"dltensor_versioned" and (managed.major != 1 or managed.flags & _READ_ONLY):
        raise BufferError("from_dlpack: memory that may not be written, or of a newer version of DLPack")
    dtype = dt.bfloat16.numpy if letter == "V" else np.dtype(f"{letter}{told.bits // 8}")
    shape = tuple(told.shape[: told.ndim])
    strides = tuple(told.strides[: told.ndim]) if told.strides else contiguous_strides(shape)
    address = (told.data or 0) + told.byte_offset
    owner = _Owner(capsule)
    made = _over(address, _known(dtype), shape, strides, owner)
    _rename(capsule, _USED[name])
    weakref.finalize(owner, _deleted, name, ctypes.addressof(managed)).atexit = False
    return made


def _deleted(name: bytes, address: int) -> None:
    managed = _FORMS[name].from_address(address)
    if managed.deleter:
        managed.deleter(address)


def from_interface(obj: Any) -> DeviceArray:
    """An array over the memory of an object with ``__cuda_array_interface__``, whose queue is waited for.
    Raises TypeError and ValueError for what no tensor holds."""
    told = obj.__cuda_array_interface__
    memory, dtype = _memory(), np.dtype(told["typestr"])
    if told.get("mask") is not None:
        raise TypeError("an object with a mask: a tensor has none")
    address, read_only = told["data"]
    if read_only:
        raise TypeError("memory that may not be written: a tensor can't say that")
    if not dtype.isnative:
        raise ValueError("byte order different from the native byte order, which no tensor has")
    shape, steps = tuple(told["shape"]), told.get("strides")
    if steps is not None and any(s % dtype.itemsize for s in steps):
        raise ValueError("strides that are not a multiple of the element byte size")
    strides = contiguous_strides(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
    stream = told.get("stream", 1)  # before version 3 it was not said: the default one
    if stream == 0:
        raise ValueError("stream 0 of CUDA could be one of two: 1 is the legacy one, 2 the thread's")
    if stream not in (None, memory.native.stream):
        with memory.native.own():
            memory.native.wait_for(stream)
    return _over(address, _known(dtype), shape, strides, _Owner(obj))


def _known(dtype: np.dtype) -> np.dtype:
    return dt.of(dtype).numpy


def _over(
    address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any
) -> DeviceArray:
    if any(s < 0 for s in strides):
        raise ValueError("a negative stride, which no tensor has")
    if address % dtype.itemsize:
        raise ValueError(f"an address that is no multiple of the {dtype.itemsize} bytes of an element")
    reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    block = _memory().borrowed(address, reach * dtype.itemsize, owner)
    return DeviceArray(block, dtype, shape, strides)
