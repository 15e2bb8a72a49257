"""Tensors over files that are mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from jtorch.core import dtypes as dt, op as op_module
from jtorch.eager.public import Tensor, empty, from_numpy


def from_file(
    filename: str | os.PathLike[str], shared: bool | None = None, size: int = 0, *, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A vector of ``size`` elements whose memory is that file, read as it is used.

    ``shared``: what is written to it is written to the file, which is made, or made longer, where it has too
    few bytes; else writes stay here. Raises RuntimeError for a file that is too short and for a device;
    compiled functions run it eagerly.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.from_file.html

    >>> import os, tempfile
    >>> import jtorch
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> jtorch.arange(4.0).numpy().tofile(path)
    >>> jtorch.from_file(path, size=3)
    tensor([0., 1., 2.])
    """
    way_out = "Map it outside of the compiled function and pass the tensor in."
    op_module.CONTEXT.get().evaluator.refuse("maps a file", way_out)
    if device is not None and str(device) != "cpu":
        raise RuntimeError(f"from_file: a file is mapped into the host's memory, not to {device}")
    dtype = dtype or dt.get_default_dtype()
    if not size:
        return empty(0, dtype=dtype, requires_grad=requires_grad)
    path, needed = Path(filename), size * dtype.numpy.itemsize
    have = path.stat().st_size if path.exists() else 0
    if have < needed:
        if not shared:
            raise RuntimeError(
                f"from_file: {size} elements of {dtype} are {needed} bytes, and {path} has {have}: pass a "
                "smaller size, or shared=True, which makes the file longer"
            )
        with path.open("ab") as file:
            file.truncate(needed)
    mapped = np.memmap(path, dtype=dtype.numpy, mode="r+" if shared else "c", shape=(size,))
    return from_numpy(np.asarray(mapped)).requires_grad_(requires_grad)
