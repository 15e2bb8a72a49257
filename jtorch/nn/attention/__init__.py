"""MultiheadAttention.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
"""

from __future__ import annotations

from typing import Any

from jtorch.eager.public import Tensor, empty
from jtorch.nn import functional as F, init
from jtorch.nn.attention.backends import SDPBackend, sdpa_kernel
from jtorch.nn.linear import Linear
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter

__all__ = ["MultiheadAttention", "NonDynamicallyQuantizableLinear", "SDPBackend", "sdpa_kernel"]


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that PyTorch prints for the output projection of an attention."""


class MultiheadAttention(Module):
    """Attention of ``num_heads`` heads: query (L, B, E), key (S, B, kdim), value (S, B, vdim) to (L, B, E).

    With ``batch_first`` B comes first; without a batch dim, too. ``bias`` is for the projections,
    ``add_bias_kv`` adds a learned key and value, ``add_zero_attn`` a key and value of zeros. Raises
    AssertionError where ``num_heads`` does not divide ``embed_dim``.

    Unlike in PyTorch the result does not depend on whether gradients are recorded: there is no second,
    faster path for inference.

    >>> import jtorch
    >>> attention = jtorch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> out, weights = attention(jtorch.zeros(4, 5, 8), jtorch.zeros(4, 6, 8), jtorch.zeros(4, 6, 8))
    >>> out.shape, weights.shape
    (torch.Size([4, 5, 8]), torch.Size([4, 5, 6]))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self._add_projections(bias, made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        for name in ("bias_k", "bias_v"):
            setattr(self, name, Parameter(empty(1, 1, embed_dim, **made)) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _add_projections(self, bias: bool, made: dict[str, Any]) -> None:
        """One weight for queries, keys and values of one width, else one for each."""
        n, separate = self.embed_dim, ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(empty(3 * n, n, **made))
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, width in zip(separate, (n, self.kdim, self.vdim), strict=True):
                setattr(self, name, Parameter(empty(n, width, **made)))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * n, **made)) if bias else None)

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """(output, weights (B, L, S), or (B, heads, L, S) unless averaged, or None unless needed).

        In ``key_padding_mask`` (B, S) and ``attn_mask`` (L, S) or (B * heads, L, S) True hides a key and a
        float is added to the score. ``is_causal`` says that ``attn_mask`` is the causal one.
        """
        turned = self.batch_first and query.ndim == 3
        if turned:
            same_key, same_value = key is query, value is key
            query = query.transpose(0, 1)
            # the packed projection goes by identity
            key = query if same_key else key.transpose(0, 1)
            value = key if same_value else value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight,
            self.out_proj.bias, training=self.training, key_padding_mask=key_padding_mask,
            need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (out.transpose(0, 1) if turned else out), weights
