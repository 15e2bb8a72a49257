"""The order of a tensor's elements in memory, as PyTorch names it; results of ops lie row by row."""

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


# in which order the axes lie that are the images' batch, channels, height...: the outermost first
ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def asked(wanted: memory_format | None, wanted_by: str) -> memory_format | None:
    """The order that a ``memory_format=`` argument asks for; None for the order that there is.

    Raises TypeError where it is no memory format.
    """
    if wanted is None or wanted is preserve_format:
        return None
    if isinstance(wanted, memory_format):
        return wanted
    raise TypeError(f"{wanted_by}: memory_format must be torch.memory_format, not {type(wanted).__name__}")


def order(wanted: memory_format, ndim: int) -> tuple[int, ...] | None:
    """Which axis is the outermost in memory, and so on; None for row by row. Raises RuntimeError where a
    tensor of ``ndim`` dims has no such order."""
    axes = ORDERS.get(wanted)
    if axes is not None and len(axes) != ndim:
        raise RuntimeError(f"required rank {len(axes)} tensor to use {wanted.name} format")
    return axes


class layout(_Named):  # noqa: N801 - the name users of PyTorch know
    """How a tensor keeps its elements: ``strided`` is what this build has."""

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
