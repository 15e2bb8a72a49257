"""Attention: scaled dot products, and several heads of them with their projections.

Source: https://docs.pytorch.org/docs/stable/nn.functional.html#attention-mechanisms
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, autocasts, functions, in_float32, ops, zeros
from jtorch.nn.functional.dropout import dropout

_INFINITY = float("inf")


# -- one attention -----------------------------------------------------------------------------------------


@autocasts("lower")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value: (..., L, E), (..., S, E), (..., S, V) to (..., L, V).

    ``scale`` is 1/sqrt(E) by default. ``attn_mask`` broadcasts to (..., L, S): False hides a key, a float is
    added; a query that sees no key gets zeros. ``is_causal`` hides the keys after a query, counted from the
    first. With ``enable_gqa`` each head (third dim from the end) of ``key`` and ``value`` serves several of
    ``query``. ``dropout_p`` applies whatever the mode of a module. Raises RuntimeError for shapes and dtypes
    that do not fit.

    >>> import jtorch
    >>> query, key, value = jtorch.zeros(2, 5, 8), jtorch.zeros(2, 3, 8), jtorch.ones(2, 3, 4)
    >>> out = jtorch.nn.functional.scaled_dot_product_attention(query, key, value)
    >>> out.shape, out[0, 0]  # equal scores give the mean of the values
    (torch.Size([2, 5, 4]), tensor([1., 1., 1., 1.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    _check_attention(query, key, value, attn_mask, dropout_p, is_causal)
    if query.dtype in (dt.float16, dt.bfloat16):  # else scores are rounded before the softmax, weights after
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        return in_float32(scaled_dot_product_attention, query, key, value, attn_mask, **options)
    if enable_gqa:
        key, value = (_repeated_heads(t, query) for t in (key, value))
    query, key, value = _one_batch(query, key, value)
    scores = (*query.shape[:-1], key.shape[-2])
    bias = None if attn_mask is None else _bias(attn_mask, query, scores)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else dt.plain(scale)
    weights = ops.attention_weights(query, key, bias, scale=scale, causal=is_causal, safe=True)
    return ops.matmul(dropout(weights, dropout_p), value)


def _check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout_p: float, is_causal: bool
) -> None:
    q, k, v = query, key, value
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )
    if not (q.dtype is k.dtype and k.dtype is v.dtype):
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {q.dtype} "
            f"key.dtype: {k.dtype} and value.dtype: {v.dtype} instead."
        )
    if not q.is_floating_point():
        raise RuntimeError(f"scaled_dot_product_attention: expected floating-point inputs, got {q.dtype}")
    if mask is not None and mask.dtype not in (dt.bool_, q.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask.dtype} and  query.dtype: {q.dtype} instead."
        )
    if mask is not None and is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"scaled_dot_product_attention: query {list(q.shape)}, key {list(k.shape)} and value "
            f"{list(v.shape)} do not fit: query and key need the same last dim, key and value the same "
            "length"
        )


def _repeated_heads(x: Tensor, query: Tensor) -> Tensor:
    """``x`` with each head as often as the number of heads of ``query`` asks for."""
    if min(x.ndim, query.ndim) < 3:
        raise RuntimeError("enable_gqa: expected query, key and value of at least 3 dims")
    heads, wanted = x.shape[-3], query.shape[-3]
    if heads == wanted:
        return x
    if heads == 0 or wanted % heads:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    lead, (length, width) = x.shape[:-3], x.shape[-2:]
    many = x.unsqueeze(-3).expand(*lead, heads, wanted // heads, length, width)
    return many.reshape(*lead, wanted, length, width)


def _one_batch(*tensors: Tensor) -> list[Tensor]:
    """``tensors`` with their dims but the last two broadcast against each other."""
    leads = [tuple(t.shape[:-2]) for t in tensors]
    if leads[0] == leads[1] == leads[2]:
        return list(tensors)
    lead = _broadcast(leads)
    return [t.expand(*lead, *t.shape[-2:]) for t in tensors]


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    ndim = max(len(s) for s in shapes)
    found = []
    for k, sizes in enumerate(zip(*((1,) * (ndim - len(s)) + s for s in shapes), strict=True)):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            a, b = sorted(wide)[:2]
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
                f"dimension {k}"
            )
        found.append(wide.pop() if wide else 1)
    return tuple(found)


def _bias(mask: Tensor, query: Tensor, scores: tuple[int, ...]) -> Tensor:
    """What a mask, True or a number where a key counts, adds to the scores."""
    if _broadcast([tuple(mask.shape), scores]) != scores:
        raise RuntimeError(
            f"attn_mask of shape {list(mask.shape)} does not broadcast to the scores' {list(scores)}"
        )
    if mask.dtype is dt.bool_:
        return functions.where(mask, 0.0, -_INFINITY).to(query.dtype)
    return mask


# -- masks of several heads --------------------------------------------------------------------------------


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """``mask``, or for a bool one -inf where it is True, which hides, and 0 elsewhere."""
    if mask is None:
        return None
    if mask.dtype is not dt.bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    return mask if mask.is_floating_point() else functions.where(mask, -_INFINITY, 0.0).to(target_type)


def _check_heads(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any, attn_mask: Any, num_heads: int
) -> bool:
    """Whether the inputs have a batch dim. Raises AssertionError for dims that do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    batched, n = query.ndim == 3, query.ndim
    kind = f"For {'batched' if batched else 'unbatched'} ({n}-D) `query`"
    if key.ndim != n or value.ndim != n:
        raise AssertionError(
            f"{kind}, expected `key` and `value` to be {n}-D but found {key.ndim}-D and {value.ndim}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.ndim != n - 1:
        raise AssertionError(
            f"{kind}, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{key_padding_mask.ndim}-D tensor instead"
        )
    if attn_mask is None:
        return batched
    if attn_mask.ndim not in (2, 3):
        raise AssertionError(
            f"{kind}, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor "
            "instead"
        )
    expected = (num_heads, query.shape[0], key.shape[0])
    if not batched and attn_mask.ndim == 3 and tuple(attn_mask.shape) != expected:
        raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return batched


def _shaped_mask(mask: Tensor, batch: int, num_heads: int, length: int, source: int) -> Tensor:
    """An attention mask with three dims, the first of them 1 or ``batch * num_heads``."""
    expected = (length, source) if mask.ndim == 2 else (batch * num_heads, length, source)
    if tuple(mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.ndim == 2 else mask


def _one_key_more(mask: Tensor | None) -> Tensor | None:
    """``mask`` with a last column of zeros: every query sees the key that was added."""
    if mask is None:
        return None
    return functions.cat([mask, zeros(*mask.shape[:-1], 1, dtype=mask.dtype, device=mask.device)], -1)


def _merged_mask(mask: Tensor | None, padding: Tensor, batch: int, heads: int, source: int) -> Tensor:
    """The attention mask and the key padding mask (batch, source) as one."""
    for axis, n in enumerate((batch, source)):
        if padding.shape[axis] != n:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {n}, but got {padding.shape[axis]}"
            )
    wide: Any = padding.reshape(batch, 1, 1, source).expand(batch, heads, 1, source)
    wide = wide.reshape(batch * heads, 1, source)
    return wide if mask is None else mask + wide


# -- several heads -----------------------------------------------------------------------------------------


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weights: Any, packed: Any, bias: Any
) -> tuple[Tensor, ...]:
    """Queries, keys and values of all heads; ``packed`` is the three ``weights`` as one, or None."""
    if packed is not None and query is key and key is value:
        return tuple(functions.linear(query, packed, bias).chunk(3, -1))
    if packed is not None:
        weights = packed.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    inputs = (query, key, value)
    return tuple(functions.linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))


def _check_lengths(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, heads: int, same: bool) -> None:
    if query.shape[2] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[2]}")
    if embed_dim % heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {heads}")
    if same and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )


def _check_static(name: str, x: Tensor, rows: int, width: int) -> Tensor:
    if x.shape[0] != rows:
        raise AssertionError(f"expecting {name}.size(0) of {rows}, but got {x.shape[0]}")
    if x.shape[2] != width:
        raise AssertionError(f"expecting {name}.size(2) of {width}, but got {x.shape[2]}")
    return x


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """(output (L, B, E), weights (B, L, S) or None): ``MultiheadAttention`` says what the arguments are.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """
    batched = _check_heads(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        one = query is key and key is value  # the packed projection goes by identity
        query = query.unsqueeze(1)
        key, value = (query, query) if one else (key.unsqueeze(1), value.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    other = None if attn_mask is None else attn_mask.dtype
    padding = _canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # the hint takes the mask's place only where nothing else has to be added to it
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    _check_lengths(query, key, value, embed_dim_to_check, num_heads, not use_separate_proj_weight)
    if mask is not None:
        mask = _shaped_mask(mask, batch, num_heads, length, key.shape[0])

    packed = None if use_separate_proj_weight else in_proj_weight
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projected(query, key, value, weights, packed, in_proj_bias)
    if (bias_k is None) != (bias_v is None):
        given, absent = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{given} is set but {absent} is None")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            kind = "key" if static_k is not None else "value"
            raise AssertionError(f"bias cannot be added to static {kind}.")
        k, v = (functions.cat([t, b.expand(1, batch, width)]) for t, b in ((k, bias_k), (v, bias_v)))
        mask, padding = _one_key_more(mask), _one_key_more(padding)

    rows, head = batch * num_heads, width // num_heads
    q, k, v = (t.reshape(t.shape[0], rows, head).transpose(0, 1) for t in (q, k, v))
    k = k if static_k is None else _check_static("static_k", static_k, rows, head)
    v = v if static_v is None else _check_static("static_v", static_v, rows, head)
    if add_zero_attn:
        k, v = (functions.cat([t, zeros(rows, 1, head, dtype=t.dtype, device=t.device)], 1) for t in (k, v))
        mask, padding = _one_key_more(mask), _one_key_more(padding)
    source = k.shape[1]
    if padding is not None:
        mask = _merged_mask(mask, padding, batch, num_heads, source)

    # PyTorch's two ways differ where a query sees no key: NaN where the weights are asked for, else 0
    found = ops.attention_weights(q, k, mask, scale=1 / math.sqrt(head), causal=causal, safe=not need_weights)
    found = dropout(found, dropout_p if training else 0.0)
    out = ops.matmul(found, v).transpose(0, 1).reshape(length * batch, width)
    out = functions.linear(out, out_proj_weight, out_proj_bias)
    out = out.reshape(length, batch, out.shape[1])
    out = out if batched else out.squeeze(1)
    if not need_weights:
        return out, None
    found = found.reshape(batch, num_heads, length, source)
    found = found.mean(dim=1) if average_attn_weights else found
    return out, found if batched else found.squeeze(0)
