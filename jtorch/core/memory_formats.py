"""The order of a tensor's elements in memory, as PyTorch names it. This build keeps tensors row by row."""

from __future__ import annotations


class _Named:
    """A constant of this module, known by its name: also to pickle."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format(_Named):  # noqa: N801 - the name users of PyTorch know
    """An order of elements in memory: ``contiguous_format``, ``preserve_format``..."""

    __slots__ = ()


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def check(wanted: memory_format | None, wanted_by: str) -> bool:
    """Whether a ``memory_format=`` argument asks for row by row. Raises for what this build lacks."""
    if wanted is None or wanted is preserve_format:
        return False
    if wanted is contiguous_format:
        return True
    if isinstance(wanted, memory_format):
        raise NotImplementedError(f"{wanted_by}: memory_format={wanted}: tensors are kept row by row here")
    raise TypeError(f"{wanted_by}: memory_format must be torch.memory_format, not {type(wanted).__name__}")


class layout(_Named):  # noqa: N801 - the name users of PyTorch know
    """How a tensor keeps its elements: ``strided`` is what this build has."""

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
