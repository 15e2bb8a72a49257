"""Any object as PyTorch's .pt: a pickle of classes by reference, whose tensors lie beside it.

Source: https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.core.devices import device
from jtorch.eager.public import Size, Tensor
from jtorch.nn.parameter import Buffer
from jtorch.serialization.memory import Memories
from jtorch.serialization.torch_writer import PlainPickler, zipped

_SPELLED = (Size, dt.dtype, device)  # exactly these: subclasses pickle in their own way
_REDUCTIONS = (Tensor.__reduce_ex__, Buffer.__reduce_ex__)  # of tensors that don't pickle in their own way


def to_bytes(obj: Any) -> bytes:
    """The file that holds ``obj``. Raises what Python's pickle raises for what it can't hold."""
    memories = Memories()
    while True:
        out = io.BytesIO()
        _WholePickler(out, memories).dump(obj)
        if memories.settled():
            return zipped(out.getvalue(), memories)


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]


class _WholePickler(_PythonPickler):
    """The pickler written in Python: the one in C can't name what only another package has."""

    def __init__(self, out: io.BytesIO, memories: Memories) -> None:
        super().__init__(out, protocol=2)
        self.plain = PlainPickler(memories)
        self.plain.taken()

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if id(obj) in self.memo:
            super().save(obj, save_persistent_id)
        elif type(obj) in _SPELLED:
            self.write(self.plain.spelled(obj))
            self.memoize(obj)
        elif isinstance(obj, Tensor) and type(obj).__reduce_ex__ in _REDUCTIONS:
            self._save_tensor(obj)
        else:
            super().save(obj, save_persistent_id)

    def _save_tensor(self, tensor: Tensor) -> None:
        for part in self.plain.parts(tensor, type(tensor)):
            self.write(self.plain.taken())
            self.save(part)
        self.write(self.plain.taken())
        if id(tensor) in self.memo:  # something that hangs on it holds it, and has made it already
            self.write(pickle.POP + self.get(self.memo[id(tensor)][0]))
        else:
            self.memoize(tensor)
