"""Which keys a query sees, by blocks of scores: the ``BlockMask`` of ``flex_attention``.

Source: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, arange, functions, zeros_like
from jtorch.nn import functional as F

_TABLES = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
    "full_q_num_blocks", "full_q_indices",
)  # fmt: skip


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Hides nothing."""
    return batch.new_ones((), dtype=dt.bool_)


def sliced_mask(*_: Any) -> Tensor:
    """The function of a slice of a BlockMask, whose places it does not know."""
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


class BlockMask:
    """Blocks of ``BLOCK_SIZE`` scores, (queries, keys), that are partly or wholly ("full") seen.

    ``kv_num_blocks`` (B, H, rows) says how many blocks of each row are partly seen, the first so many of
    ``kv_indices`` (B, H, rows, columns) which; in them ``mask_mod`` decides. The ``full_`` tables tell of
    blocks in which all is seen, the ``q_`` tables the same by columns. ``create_block_mask`` makes one of a
    function, ``from_kv_blocks`` of tables. Raises RuntimeError for ``kv_indices`` of fewer than 2 dims.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),
        mask_mod: Callable = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self._blocks_decide = True  # not where they were made of the function itself

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Callable | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """The mask of these tables; without ``seq_lengths`` the blocks are complete."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        by_columns: list[Any] = [None] * 4
        if compute_q_blocks:
            by_columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                by_columns[2:] = _ordered(_dense(full_kv_num_blocks, full_kv_indices).transpose(-2, -1))
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        tables = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *by_columns)
        options: Any = (size, mask_mod or noop_mask)
        return cls(seq_lengths, *tables, *options)

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)"""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of scores, seen or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The share of scores, in percent, that lie in blocks of which nothing is seen."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """1 for each block (B, H, rows, columns) of which something is seen, else 0."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return partial
        return partial | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def seen(self, by_function: Tensor) -> Tensor:
        """What is seen of scores (B, H, queries, keys), given what ``mask_mod`` says of each."""
        if not self._blocks_decide:
            return by_function
        found = by_function & self._spread(_dense(self.kv_num_blocks, self.kv_indices))
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return found
        return found | self._spread(_dense(self.full_kv_num_blocks, self.full_kv_indices))

    def _spread(self, blocks: Tensor) -> Tensor:
        """The block of each score."""
        (high, wide), (queries, keys) = self.BLOCK_SIZE, self.seq_lengths
        rows = blocks.repeat_interleave(high, -2)[..., :queries, :]
        return rows.repeat_interleave(wide, -1)[..., :keys] != 0

    def to(self, device: Any) -> BlockMask:
        """The mask with its tables on ``device``."""
        moved: Any = [None if t is None else t.to(device) for t in self._tables()]
        options: Any = (self.BLOCK_SIZE, self.mask_mod)
        found = BlockMask(self.seq_lengths, *moved, *options)
        found._blocks_decide = self._blocks_decide
        return found

    def _tables(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, name) for name in _TABLES)

    def __getitem__(self, index: Any) -> BlockMask:
        """The blocks at ``index``, of batches, heads and rows; give it a ``mask_mod`` before it is used."""
        given = (*(index if isinstance(index, tuple) else (index,)), *[slice(None)] * 3)[:3]
        sizes = self.kv_num_blocks.shape[:3]
        at = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) and -n <= i < n else i
            for i, n in zip(given, sizes, strict=True)
        )
        cut: Any = [None if t is None else t[at] for t in self._tables()[:4]]
        by_columns = self.q_indices is not None
        options: Any = (self.BLOCK_SIZE, sliced_mask, self.seq_lengths, by_columns)
        return BlockMask.from_kv_blocks(*cut, *options)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, block_size={self.BLOCK_SIZE})"


def of_mask(
    mask: Tensor, mask_mod: Callable, lengths: tuple[int, int], size: tuple[int, int], separate: bool
) -> BlockMask:
    """The BlockMask of a bool mask (B, H, queries, keys); ``separate`` keeps full blocks apart."""
    mask = F.pad(mask, (0, -lengths[1] % size[1], 0, -lengths[0] % size[0]))
    B, H, queries, keys = mask.shape
    blocks = mask.reshape(B, H, queries // size[0], size[0], keys // size[1], size[1])
    seen = blocks.sum((3, 5))
    full = (seen == size[0] * size[1]) if separate else None
    partial = (seen > 0) if full is None else (seen > 0) & ~full
    tables: Any = (*_ordered(partial), *((None, None) if full is None else _ordered(full)))
    options: Any = (size, mask_mod, lengths)
    found = BlockMask.from_kv_blocks(*tables, *options)
    found._blocks_decide = False
    return found


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """(how many columns of each row are set, all columns, those first)"""
    dense = dense.int()
    order = functions.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).int(), order.int()


def _dense(count: Tensor, columns: Tensor) -> Tensor:
    """1 in the first ``count`` of the ``columns`` of each row, else 0."""
    taken = arange(columns.shape[-1], device=columns.device) < count.unsqueeze(-1)
    return zeros_like(columns, dtype=dt.int32).scatter(-1, columns.long(), taken.int())
