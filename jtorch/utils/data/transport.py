"""Objects between processes through anonymous shared memory.

An object is pickled with its arrays apart (pickle protocol 5) into a file in memory that has no name, and
the file's descriptor travels over a socket. So nothing can be left behind, however a process ends; a message
on the socket is always 16 bytes, so no side ever waits for the other to read. What arrives uses the sender's
memory where it is large, and holds no descriptor open: a program may keep any number of batches.
"""

from __future__ import annotations

import ctypes
import functools
import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
import weakref
from typing import Any

import numpy as np

import jtorch
from jtorch.eager.public import Tensor

_MESSAGE = struct.Struct("<qq")  # the caller's tag, bytes in the file
_ALIGNMENT = 64
# Smaller ones are copied: Linux allows a process 65,530 mappings, and a map costs more than such a copy.
_MAPPED_FROM = 1 << 20


def send(channel: socket.socket, tag: int, value: Any) -> None:
    """Send ``value``. Raises OSError where the other side is gone, and what pickling raises."""
    descriptor, size = _stored(value)
    try:
        socket.send_fds(channel, [_MESSAGE.pack(tag, size)], [descriptor])
    finally:
        os.close(descriptor)


def receive(channel: socket.socket) -> tuple[int, Any]:
    """(tag, value) of the next message. Raises EOFError where the other side is gone."""
    tag, descriptor, size = take(channel)
    return tag, unpack(descriptor, size)


def take(channel: socket.socket) -> tuple[int, int, int]:
    """(tag, descriptor, bytes) of the next message, whose value is still to ``unpack``: that may fail."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    try:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE.size, 1, flags)
    except ConnectionError:
        raise EOFError("the other process has closed its end") from None
    if len(message) < _MESSAGE.size or not descriptors:
        for descriptor in descriptors:
            os.close(descriptor)
        raise EOFError("the other process has closed its end")
    tag, size = _MESSAGE.unpack(message)
    return tag, descriptors[0], size


def unpack(descriptor: int, size: int) -> Any:
    """The value in a message's file, which is closed."""
    try:
        content = _loaded(descriptor, size)
    finally:
        os.close(descriptor)
    return _restored(content)


class _Pickler(pickle.Pickler):
    """Leaves the memory of arrays out of the stream, that of tensors, too."""

    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        if value.requires_grad and not value.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
                "support crossing process boundaries.  If you just want to transfer the data, call detach() "
                "on the tensor before serializing (e.g., putting it on the queue)."
            )
        if type(value) is not Tensor or value.requires_grad:
            return NotImplemented  # the tensor's own way, by a copy
        try:
            array = value.numpy()
        except TypeError:  # a dtype that NumPy doesn't have
            return NotImplemented
        return jtorch.from_numpy, (np.ascontiguousarray(array).reshape(array.shape),)


def _stored(value: Any) -> tuple[int, int]:
    """(descriptor, bytes) of a new file in memory that holds ``value``: a count, the lengths, the parts."""
    stream = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(value)
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    lengths = np.array([len(parts), *(part.nbytes for part in parts)], np.int64)
    descriptor = _anonymous_file()
    try:
        end = 0
        for part in (lengths.data.cast("B"), *parts):
            start = _aligned(end)
            end = start + part.nbytes
            _write(descriptor, part, start)
        os.ftruncate(descriptor, end)  # also where the last parts are empty
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, end


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("jtorch-batch")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(descriptor: int, part: memoryview, offset: int) -> None:
    while part.nbytes:
        written = os.pwrite(descriptor, part, offset)
        part, offset = part[written:], offset + written


def _loaded(descriptor: int, size: int) -> memoryview:
    if size >= _MAPPED_FROM:
        return _mapped(descriptor, size)
    content = np.empty(size, np.uint8).data
    done = 0
    while done < size:
        got = os.preadv(descriptor, [content[done:]], done)
        if got == 0:
            raise EOFError(f"shared memory of {size} bytes ends after {done}")
        done += got
    return content


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _mapped(descriptor: int, size: int) -> memoryview:
    """The file's memory itself, given back when nothing refers to it any more.

    Not by ``mmap.mmap``: before Python 3.13 that keeps a descriptor open for as long as the memory lives,
    and a list of a thousand batches meets the limit of most systems.
    """
    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), f"cannot map {size} bytes of shared memory")
    block = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(block, libc.munmap, address, size).atexit = False  # arrays may live until the very end
    return memoryview(block).cast("B")


def _restored(content: memoryview) -> Any:
    count = int(np.frombuffer(content, np.int64, 1)[0])
    lengths = np.frombuffer(content, np.int64, count, offset=8).tolist()
    parts, end = [], 8 * (count + 1)
    for length in lengths:
        start = _aligned(end)
        end = start + length
        parts.append(content[start:end])
    return pickle.loads(parts[0], buffers=parts[1:])
