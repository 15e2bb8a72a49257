"""``jtorch.save`` and ``jtorch.load``."""

from __future__ import annotations

import os
import pickle
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

from jtorch.core.errors import DataError
from jtorch.serialization import numpy_files, tensors, torch_reader, torch_writer, whole_writer
from jtorch.serialization.memory import NotPlainError
from jtorch.serialization.placing import Places, Storage, check_places
from jtorch.utils.files import write_atomically

_FORMAT_OF = {".pt": "torch", ".pth": "torch", ".safetensors": "safetensors"}
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled number such a file starts with


def save(
    obj: Any, f: str | os.PathLike | IO[bytes], pickle_module: Any = pickle, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False, *,
    format: str | None = None,
) -> None:  # fmt: skip
    """Write ``obj`` to the file ``f``, whole or not at all; to an open file, at its position.

    A file keeps its permissions, a link stays a link, and a device or pipe is written to as it is. A file
    that may not be written is refused with PermissionError; another name of it, a hard link, keeps what it
    had. An open file holds one object that can be loaded, as in PyTorch: the one saved last, from where it
    begins.

    Plain data is a tensor, number, string, None, dtype, device, Size, or a dict, OrderedDict, Counter, list
    or tuple of such; dict keys are strings, numbers, bools or None. Tensors come back equal, with their
    strides and offsets; those that were one object come back as one, and those of one memory, such as views
    and tied weights, as such. Each storage is written once and whole, also where only a view of it is saved,
    as in PyTorch: save its ``clone()`` to write its elements alone. Any other object,
    such as a whole module, is pickled, its classes by name, and is loaded with ``weights_only=False``; so is
    a tensor of a subclass, but a Parameter's comes back as a Parameter from plain data, as in PyTorch.

    ``format`` is "safetensors" or "torch"; left out, it is "torch" where the name ends in .pt or .pth, so
    that ``torch.load`` reads it, and "safetensors" otherwise, but for what that can't hold. Attributes of
    tensors (``x.tag = 1``) are kept in PyTorch's format. A safetensors file, where the name or ``format``
    asks for one, is for others to read: each tensor is an entry of its own elements, row by row, without
    attributes, and its buffers are tensors. Those that overlap in memory are in it once, under the name of
    the one that holds the others, or as "NAME.storage", of one dim, where none does; ``jtorch.load`` gives
    all of them, sharing memory.

    Of PyTorch's other arguments a ``pickle_module`` other than Python's and its format of before 1.6 are
    refused with NotImplementedError, and ``pickle_protocol`` is taken for 2, which every reader knows.

    No file is written that ``load`` refuses. Raises TypeError, naming the place, for what safetensors can't
    store (subclasses of Tensor, a tensor named ``__metadata__`` or by what is no Unicode, a million values
    beside the tensors), ValueError for what unfolds to more than ``load`` takes, and what pickle raises.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.save.html

    >>> import io, jtorch
    >>> file = io.BytesIO()
    >>> jtorch.save({"w": jtorch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> jtorch.load(file)
    {'w': tensor([1., 1.])}
    """
    if pickle_module is not pickle and pickle_module is not None:
        raise NotImplementedError(
            "jtorch.save: pickle_module: files are written as Python's pickle writes them"
        )
    if not _use_new_zipfile_serialization:
        raise NotImplementedError(
            "jtorch.save: PyTorch's format of before 1.6 is not written; 1.6 and later read .pt"
        )
    if format not in (None, "safetensors", "torch"):
        raise ValueError(f"jtorch.save: format is 'safetensors' or 'torch', got {format!r}")
    path = _as_path(f, "save", "write")
    if path is not None and not path.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    if format is None and path is not None:
        format = _FORMAT_OF.get(path.suffix.lower())
    content = _to_bytes(obj, format)
    if path is None:
        f.write(content)  # type: ignore[union-attr]
    else:
        write_atomically(path, content)


def _to_bytes(obj: Any, format: str | None) -> bytes:
    if format == "safetensors":
        return tensors.to_bytes(obj)
    if format is None:
        with suppress(NotPlainError):
            return tensors.to_bytes(obj, whole=True)
    with suppress(NotPlainError):
        return torch_writer.to_bytes(obj)
    return whole_writer.to_bytes(obj)


def load(
    f: str | os.PathLike | IO[bytes],
    map_location: Any = None,
    pickle_module: None = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """What is in the file ``f``, known by its content and not by its name.

    A file of ``save``, PyTorch's .pt, .npy: the object. Any other safetensors file, .npz: the dict of its
    tensors. Tensors go where they were or, in a file that does not say (only .pt does), to the CPU;
    ``map_location`` says where else: a device, a dict from device to device, or a function of a storage and
    the name of its device, which gives back the storage for the CPU, ``storage.cuda()``, or None for where
    it was. With ``mmap`` the elements of safetensors and .pt files are read when they are first used, and
    changing them does not change the file.

    Loading runs no code, and what is no plain data is an error, but for what
    ``serialization.add_safe_globals`` lists. ``weights_only=False`` unpickles a .pt file, as whole objects
    need: a pickle can be made to run any code, so never load one in this way that could have come from an
    untrusted source, or that could have been tampered with.

    Raises FileNotFoundError where there is no file, DataError (where a class is refused, also an
    UnpicklingError) for one that is cut off, malformed or no plain data,
    NotImplementedError for what jtorch lacks, such as a dtype, RuntimeError for tensors of a device that is
    not here, without ``map_location``. What a small file unfolds to in memory is bounded, too.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.load.html

    >>> import jtorch
    >>> import io
    >>> file = io.BytesIO()
    >>> jtorch.save(jtorch.tensor([1, 2]), file)
    >>> _ = file.seek(0)
    >>> jtorch.load(file)
    tensor([1, 2])
    """
    if pickle_module is not None:
        raise NotImplementedError("jtorch.load: pickle_module: files are read without running pickle")
    if weights_only not in (None, True, False):
        raise TypeError(f"jtorch.load: weights_only is a bool, got {weights_only!r}")
    check_places(map_location)
    whole = weights_only is False
    path = _as_path(f, "load", "read")
    if path is None:
        if mmap:
            raise ValueError("f must be a file path in order to use the mmap argument")
        return _read(f, None, f"<{type(f).__name__}>", map_location, False, whole)  # type: ignore[arg-type]
    if not path.is_file():
        raise FileNotFoundError(f"jtorch.load: no file at {path}")
    with closing(path.open("rb")) as file:
        return _read(file, path, str(path), map_location, bool(mmap), whole)


def _read(file: IO[bytes], path: Path | None, where: str, map_location: Any, mmap: bool, whole: bool) -> Any:
    start = file.tell()
    head = file.read(512)
    file.seek(start)
    if head[8:9] != b"{":  # a safetensors file starts with a length and a JSON object
        if head.startswith(b"\x93NUMPY"):
            return _placed(numpy_files.read_array(file, where), Places(map_location))
        if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return _read_zip(file, path, where, map_location, mmap, whole)
        _refuse_pickles(head, where)
    return tensors.read(file, path, where, mmap, Places(map_location))


def _read_zip(
    file: IO[bytes], path: Path | None, where: str, map_location: Any, mmap: bool, whole: bool
) -> Any:
    from jtorch.serialization.zipped import Archive

    archive = Archive(file, path, where)
    if any(name.rpartition("/")[2] == "data.pkl" for name in archive.names):
        return torch_reader.read(archive, map_location, mmap, weights_only=not whole)
    places = Places(map_location)
    return {name: _placed(tensor, places) for name, tensor in numpy_files.read_arrays(archive).items()}


def _placed(tensor: Any, places: Places) -> Any:
    place = places.of(Storage(tensor.numpy()), "cpu")
    return tensor if place.type == "cpu" else tensor.to(place)


def _refuse_pickles(head: bytes, where: str) -> None:
    if head.startswith(_OLD_TORCH) or head[257:262] == b"ustar":
        raise DataError(
            f"{where}: written in PyTorch's format of before 1.6, which jtorch does not read. Load it in "
            "PyTorch "
            "and save it again: torch.save(torch.load(path), path)"
        )
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        raise DataError(f"{where}: a bare pickle, which can run code when it is read; jtorch reads none")


def _as_path(f: Any, name: str, method: str) -> Path | None:
    """The path that ``f`` is; None for an open file."""
    if isinstance(f, (str, os.PathLike)):
        return Path(f)
    if callable(getattr(f, method, None)) and (method == "write" or callable(getattr(f, "seek", None))):
        return None
    raise TypeError(f"jtorch.{name}: expected a path or an open binary file, got {type(f).__name__}")
