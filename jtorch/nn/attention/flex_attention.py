"""Attention whose scores a function changes, and whose keys a function hides.

``score_mod(score, b, h, q_idx, kv_idx)`` gives the score to take, ``mask_mod(b, h, q_idx, kv_idx)`` whether a
query sees a key. Both are written for one score and mapped over all of them, which lie in memory as a whole.
Source: https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, arange, functions, zeros
from jtorch.func import vmap
from jtorch.nn.attention.block_mask import BlockMask, noop_mask, of_mask, sliced_mask

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip


class AuxRequest(NamedTuple):
    """What ``flex_attention`` gives besides its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: ``logsumexp`` of each query's scores, and the largest of them."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


# -- masks -------------------------------------------------------------------------------------------------


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """A bool mask (B, H, Q_LEN, KV_LEN) of a ``mask_mod``; of a ``score_mod`` False where it gives -inf.

    None for ``B`` and ``H`` is 1.

    >>> from jtorch.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if _is_score_mod(mod_fn):
        return ~_mapped(mod_fn, shape, device, zeros(*shape, device=device)).isneginf()
    return _mapped(mod_fn, shape, device)


def _is_score_mod(function: Callable) -> bool:
    """Whether it takes a score before the four places."""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    needed = [
        p for p in inspect.signature(function).parameters.values() if p.kind in kinds and p.default is p.empty
    ]
    if len(needed) not in (4, 5):
        raise AssertionError(
            "expected a mask_mod(b, h, q_idx, kv_idx) or a score_mod(score, b, h, q_idx, kv_idx), but got a "
            f"function of {len(needed)} arguments"
        )
    return len(needed) == 5


def _mapped(function: Callable, shape: tuple[int, ...], device: Any, *scores: Tensor) -> Tensor:
    """``function`` at each place of ``shape``, of the score there, if scores are given."""
    each = (0,) * len(scores)
    for axis in (3, 2, 1, 0):
        function = vmap(function, (*each, *(0 if k == axis else None for k in range(4))))
    return function(*scores, *(arange(n, device=device) for n in shape))


def create_block_mask(
    mask_mod: Callable,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The BlockMask of ``mask_mod``, for batches of ``B`` and ``H`` heads; None where that is all the same.

    Raises AssertionError for a function that is no mask_mod.

    >>> from jtorch.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 8, 8, BLOCK_SIZE=4)
    >>> mask.to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=jtorch.int32)
    """
    if _is_score_mod(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    return of_mask(mask, mask_mod, (Q_LEN, KV_LEN), size, separate_full_blocks)


def and_masks(*mask_mods: Callable) -> Callable:
    """The mask_mod of what all of ``mask_mods`` show."""
    return _joined(mask_mods, True)


def or_masks(*mask_mods: Callable) -> Callable:
    """The mask_mod of what one of ``mask_mods`` shows."""
    return _joined(mask_mods, False)


def _joined(mask_mods: tuple[Callable, ...], every: bool) -> Callable:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = b.new_ones((), dtype=dt.bool_) if every else b.new_zeros((), dtype=dt.bool_)
        for mod in mask_mods:
            seen = mod(b, h, q_idx, kv_idx)
            found = found & seen if every else found | seen
        return found

    return joined


# -- attention ---------------------------------------------------------------------------------------------


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax of the scores times ``value``: (B, H, L, E), (B, H, S, E), (B, H, S, V) to (B, H, L, V).

    A score is query . key times ``scale``, 1/sqrt(E) by default, then what ``score_mod`` makes of it, and
    -inf where ``block_mask`` hides the key; a query that sees none gets zeros. With ``enable_gqa`` a head of
    ``key`` and ``value`` serves several of ``query``. ``return_lse`` and ``return_aux`` ask for more results,
    ``kernel_options`` choose among PyTorch's kernels. Raises ValueError where shapes or dtypes do not fit.

    >>> import jtorch
    >>> from jtorch.nn.attention.flex_attention import flex_attention
    >>> query, key = jtorch.zeros(1, 1, 2, 4), jtorch.zeros(1, 1, 2, 4)
    >>> value = jtorch.tensor([[[[1.0], [3.0]]]])
    >>> flex_attention(query, key, value, lambda score, b, h, q_idx, kv_idx: score - 100 * (q_idx < kv_idx))
    tensor([[[[1.],
              [2.]]]])
    """
    _check(query, key, value, enable_gqa)
    if block_mask is not None:
        _check_mask(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    key, value = (_as_many_heads(t, query) for t in (key, value))
    scores = _scores(query, key, score_mod, block_mask, scale)
    alone = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(alone, 0.0).softmax(-1).masked_fill(alone, 0.0)
    out = functions.matmul(weights.to(query.dtype), value)
    lse = scores.masked_fill(alone, 0.0).logsumexp(-1).masked_fill(alone.squeeze(-1), -math.inf)
    if return_aux is not None:
        return out, AuxOutput(
            lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
        )
    return (out, lse) if return_lse else out


def _scores(query: Tensor, key: Tensor, score_mod: Any, block_mask: BlockMask | None, scale: Any) -> Tensor:
    """(B, H, L, S): what the softmax is taken of, in float32 at least."""
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = dt.float64 if query.dtype is dt.float64 else dt.float32
    scores = functions.matmul(query, key.transpose(-2, -1)).to(wide) * scale
    shape = tuple(scores.shape)
    if score_mod is not None:
        scores = _mapped(score_mod, shape, query.device, scores).to(wide)
    if block_mask is None or (block_mask.mask_mod is noop_mask and not block_mask._blocks_decide):
        return scores
    seen = block_mask.seen(_mapped(block_mask.mask_mod, shape, query.device))
    return functions.where(seen, scores, -math.inf)


def _as_many_heads(x: Tensor, query: Tensor) -> Tensor:
    """``x`` for each batch and head of ``query``."""
    x = x.repeat_interleave(query.shape[1] // x.shape[1], 1) if x.shape[1] != query.shape[1] else x
    return x.expand(query.shape[0], -1, -1, -1) if x.shape[0] != query.shape[0] else x


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    if not query.dtype is key.dtype is value.dtype:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if not query.ndim == key.ndim == value.ndim == 4:
        raise ValueError(
            f"Expected query, key, and value to be 4D tensors, but got query.dim: {query.ndim}, key.dim: "
            f"{key.ndim} and value.dim: {value.ndim} instead."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[:3] != value.shape[:3]:
        raise ValueError(
            f"flex_attention: query {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)} "
            "do not fit: query and key need the same last dim, key and value the same but that"
        )
    if key.shape[0] not in (1, query.shape[0]):
        raise ValueError(
            "Expect query and key/value, either to have the same batch size or key/value to have batch size "
            f"1, but got Bq={query.shape[0]} and Bkv={key.shape[0]}."
        )
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and "
            f"Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={query.shape[1]} and Hkv={key.shape[1]}."
        )


def _check_mask(query: Tensor, key: Tensor, block_mask: BlockMask) -> None:
    if block_mask.mask_mod is sliced_mask:
        sliced_mask()
    lengths = (query.shape[-2], key.shape[-2])
    if lengths != tuple(block_mask.seq_lengths):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
            f"kv_len={lengths[1]}. Create a new block mask of these lengths."
        )
    for name, mine, wanted in zip(("batch", "heads"), block_mask.shape, query.shape, strict=False):
        if mine not in (1, wanted):
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape}, whose {name} of {mine} is "
                f"neither 1 nor the query's {wanted}"
            )
