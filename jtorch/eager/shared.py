"""Memory that processes share: tensors in it are seen, and changed, by forked and by spawned children.

Small tensors lie side by side in one mapped file without a name, so that a model of many parameters does
not use up the file descriptors of a process.
Source: https://docs.pytorch.org/docs/stable/notes/multiprocessing.html
"""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
import threading
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from jtorch.eager.tensor import Tensor

_SIZE = 1 << 24  # bytes of a map; only those that are written to use memory
_ALIGNED = 64


class SharedMap(mmap.mmap):
    """A mapped file without a name; ``token`` is the same in every process that maps it."""

    fd: int
    token: str


_known: weakref.WeakValueDictionary[str, SharedMap] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_filling: list[Any] = [None, 0]  # the map that the next tensors go to, and how far it is used


def _forget_filling() -> None:
    _filling[:] = None, 0


if hasattr(os, "register_at_fork"):  # parent and child would both put tensors at the same place
    os.register_at_fork(after_in_child=_forget_filling)


def is_shared(array: np.ndarray) -> bool:
    """Whether the memory under ``array`` is a shared map's."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return isinstance(array.base, SharedMap)


def copied(array: np.ndarray) -> np.ndarray:
    """A copy of ``array`` in shared memory, in the same order of dims."""
    with _lock:
        memory, begin = _place(array.nbytes)
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    made: np.ndarray = np.ndarray([array.shape[d] for d in order], array.dtype, memory, begin)
    if order != list(range(array.ndim)):
        made = made.transpose(np.argsort(order))
    made[...] = array
    return made


def _place(size: int) -> tuple[SharedMap, int]:
    memory, begin = _filling
    if memory is None or begin + size > len(memory):
        memory, begin = _mapped(_new_file(max(size, _SIZE)), max(size, _SIZE), secrets.token_hex(16)), 0
    _filling[:] = memory, -(-(begin + size) // _ALIGNED) * _ALIGNED
    return memory, begin


def _new_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("jtorch")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return fd


def _mapped(fd: int, size: int, token: str) -> SharedMap:
    memory = SharedMap(fd, size)
    memory.fd, memory.token = fd, token
    weakref.finalize(memory, os.close, fd)
    _known[token] = memory
    return memory


# -- to other processes ------------------------------------------------------------------------------------


def sent_as_memory(cls: type[Tensor]) -> None:
    """Let ``multiprocessing`` send shared tensors of ``cls`` as their memory, others as elements."""
    ForkingPickler.register(cls, _reduce_tensor)


def _reduce_tensor(tensor: Tensor) -> Any:
    array = tensor._data
    if not is_shared(array):
        return tensor.__reduce_ex__(2)
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    memory = root.base
    start = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    offset = array.__array_interface__["data"][0] - start
    where = (memory, offset, array.dtype, array.shape, array.strides)
    return _tensor_at, (type(tensor), *where, tensor._requires_grad, getattr(tensor, "persistent", None))


def _tensor_at(
    cls: type[Tensor], memory: SharedMap, offset: int, dtype: np.dtype, shape: tuple[int, ...],
    strides: tuple[int, ...], requires_grad: bool, persistent: bool | None,
) -> Tensor:  # fmt: skip
    sent_as_memory(cls)  # who gets one may send it on
    tensor: Any = object.__new__(cls)
    known = np.dtype(dtype.type)  # an unpickled dtype is another object than NumPy's own
    tensor.hold(np.ndarray(shape, known, memory, offset, strides), requires_grad)  # type: ignore[call-overload]
    if persistent is not None:
        tensor.persistent = persistent
    return tensor


def _reduce_map(memory: SharedMap) -> Any:
    return _map_at, (DupFd(memory.fd), len(memory), memory.token)


def _map_at(sent: Any, size: int, token: str) -> SharedMap:
    fd, memory = sent.detach(), _known.get(token)
    if memory is None:
        return _mapped(fd, size, token)
    if fd != memory.fd:
        os.close(fd)
    return memory


ForkingPickler.register(SharedMap, _reduce_map)
