"""Sequences of unequal length: padded to one tensor, or packed without padding.

A packed sequence holds the rows of all first steps, then of all second ones, and so on; ``batch_sizes``
says how many sequences reach each step. Lengths and batch sizes decide shapes, so eager mode reads them as
Python numbers; for a recording see ``packing.py``.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.PackedSequence.html
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple, Self

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, full, functions, reads_elements, tensor
from jtorch.nn.utils import packing
from jtorch.nn.utils.lengths import numbers_in

_NOT_SORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
    "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if "
    "you do not need ONNX exportability."
)


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """``data`` (sum of lengths, *), ``batch_sizes`` (longest length,), and the order of the sequences.

    Made by ``pack_padded_sequence`` and ``pack_sequence``.

    >>> import jtorch
    >>> packed = jtorch.nn.utils.rnn.pack_sequence([jtorch.tensor([1, 2, 3]), jtorch.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """This sequence with its data moved or cast, as ``Tensor.to`` does it; indices stay int64."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        return type(self)(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        return self.to("cuda", *args, **kwargs)

    def double(self) -> Self:
        return self.to(dtype=dt.float64)

    def float(self) -> Self:
        return self.to(dtype=dt.float32)

    def half(self) -> Self:
        return self.to(dtype=dt.float16)

    def long(self) -> Self:
        return self.to(dtype=dt.int64)

    def int(self) -> Self:
        return self.to(dtype=dt.int32)

    def short(self) -> Self:
        return self.to(dtype=dt.int16)

    def char(self) -> Self:
        return self.to(dtype=dt.int8)

    def byte(self) -> Self:
        return self.to(dtype=dt.uint8)

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        return self.data.is_pinned()

    def pin_memory(self) -> Self:
        """Its data and indices in pinned memory. Raises RuntimeError without a CUDA device."""
        moved = [t if t is None else t.pin_memory() for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *moved)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes ``permutation``; None for None.

    >>> import jtorch
    >>> jtorch.nn.utils.rnn.invert_permutation(jtorch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else functions.argsort(permutation)


def _starts(sizes: list[int]) -> list[int]:
    return [sum(sizes[:t]) for t in range(len(sizes))]


def _vector(lengths: Any) -> Tensor:
    found = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype=dt.int64)
    if found.ndim != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {found.ndim}D cpu Long tensor"
        )
    return found


def _numbers(lengths: Any) -> list[int]:
    return numbers_in(_vector(lengths), "lengths of packed sequences")


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Drop the padding of ``input`` (T, B, *), or (B, T, *) with ``batch_first``.

    ``lengths`` (B,) must not increase, unless ``enforce_sorted`` is False. Raises RuntimeError for lengths
    below 1, above T, not in order, or of another number than B.

    >>> import jtorch
    >>> padded = jtorch.tensor([[1, 2, 3], [4, 5, 0]])
    >>> jtorch.nn.utils.rnn.pack_padded_sequence(padded, [3, 2], batch_first=True).data
    tensor([1, 4, 2, 5, 3])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pack_padded_sequence.html
    """
    found, order = _vector(lengths).to(dt.int64), None
    if not enforce_sorted:
        order = functions.argsort(found, descending=True, stable=True)
        found = found[order]
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[:2]
    if found.shape[0] != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {found.shape[0]} "
            f"(batch_size={batch})"
        )
    if not reads_elements():
        packing.check_lengths(found, steps, _NOT_SORTED)
        return PackedSequence(*packing.packed_rows(input, found), order)
    numbers = found.tolist()
    if min(numbers) <= 0:
        raise RuntimeError(packing.TOO_SHORT)
    if any(a < b for a, b in pairwise(numbers)):
        raise RuntimeError(_NOT_SORTED)
    if numbers[0] > steps:
        raise RuntimeError(f"Expected lengths of at most {steps}, the size of input, but got {numbers[0]}")
    sizes = [sum(n > t for n in numbers) for t in range(numbers[0])]
    rows = [t * batch + b for t, n in enumerate(sizes) for b in range(n)]
    data = input.reshape(steps * batch, *input.shape[2:])[tensor(rows, dtype=dt.int64)]
    return PackedSequence(data, tensor(sizes, dtype=dt.int64), order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(padded sequences (T, B, *) or, with ``batch_first``, (B, T, *); lengths (B,)).

    Raises ValueError for a ``total_length`` below the longest length.

    >>> import jtorch
    >>> packed = jtorch.nn.utils.rnn.pack_sequence([jtorch.tensor([1, 2, 3]), jtorch.tensor([4, 5])])
    >>> jtorch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    length = sequence.batch_sizes.shape[0]
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {length}"
            )
        length = total_length
    padded, lengths = _padded(sequence, padding_value, length)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is None:
        return padded, lengths
    order = sequence.unsorted_indices
    return padded.index_select(0 if batch_first else 1, order), lengths[order]


def _padded(sequence: PackedSequence, padding_value: float, length: Any) -> tuple[Tensor, Tensor]:
    """(padded sequences (length, B, *), lengths (B,)), the longest first."""
    data, batch_sizes, order, _ = sequence
    if not reads_elements():
        batch = packing.number_of_sequences(batch_sizes, order)
        return packing.padded_rows(data, batch_sizes, batch, padding_value, length)
    sizes = batch_sizes.tolist()
    batch = sizes[0]
    starts = _starts(sizes)
    padding = data.shape[0]  # where the row of padding stands
    rows = [
        [starts[t] + b if t < len(sizes) and b < sizes[t] else padding for b in range(batch)]
        for t in range(length)
    ]
    row = full((1, *data.shape[1:]), padding_value, dtype=data.dtype)
    padded = functions.cat([data, row])[tensor(rows, dtype=dt.int64).reshape(length, batch)]
    return padded, tensor([sum(n > b for n in sizes) for b in range(batch)], dtype=dt.int64)


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Tensors (length, *) as one (longest, B, *), or (B, longest, *) with ``batch_first``.

    Raises RuntimeError for no sequences, or trailing dims that differ.

    >>> import jtorch
    >>> jtorch.nn.utils.rnn.pad_sequence([jtorch.tensor([1, 2, 3]), jtorch.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    many = tuple(sequences)
    if not many:
        raise RuntimeError("received an empty list of sequences")
    first = many[0]
    longest = max(s.shape[0] for s in many)
    padded = []
    for s in many:
        if s.shape[1:] != first.shape[1:]:
            raise RuntimeError(
                f"Expected sequences with equal trailing sizes {list(first.shape[1:])}, but got "
                f"{list(s.shape[1:])}"
            )
        gap = full((longest - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype, device=s.device)
        padded.append(functions.cat([s, gap] if padding_side == "right" else [gap, s]))
    return functions.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences (length, *) that ``pad_sequence`` made ``padded_sequences`` of.

    >>> import jtorch
    >>> padded = jtorch.tensor([[1, 2, 3], [4, 0, 0]])
    >>> jtorch.nn.utils.rnn.unpad_sequence(padded, jtorch.tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    sequences: Any = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [sequences[k][:n] for k, n in enumerate(_numbers(lengths))]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (length, *) as one packed sequence; the longest first, unless ``enforce_sorted`` is False.

    >>> import jtorch
    >>> short, long = jtorch.tensor([4]), jtorch.tensor([1, 2])
    >>> packed = jtorch.nn.utils.rnn.pack_sequence([short, long], enforce_sorted=False)
    >>> packed.data, packed.sorted_indices
    (tensor([1, 4, 2]), tensor([1, 0]))
    """
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (length, *) that ``pack_sequence`` packed.

    >>> import jtorch
    >>> packed = jtorch.nn.utils.rnn.pack_sequence([jtorch.tensor([1, 2, 3]), jtorch.tensor([4, 5])])
    >>> jtorch.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1, 2, 3]), tensor([4, 5])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
