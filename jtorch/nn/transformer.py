"""Transformer: encoder and decoder layers, stacks of them, and both together.

Unlike in PyTorch the result does not depend on whether gradients are recorded: there is no second path for
inference, and padded positions keep the values that they are computed to.
Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from jtorch.eager.public import Tensor, full, functions
from jtorch.nn import functional as F, init
from jtorch.nn.attention import MultiheadAttention
from jtorch.nn.container import ModuleList
from jtorch.nn.dropout import Dropout
from jtorch.nn.linear import Linear
from jtorch.nn.module import Module
from jtorch.nn.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


class _Layer(Module):
    """What encoder and decoder layers share: sublayers with a residual, normalised before or after."""

    def _add_parts(
        self, d_model: int, nhead: int, width: int, dropout: float, activation: Activation, eps: float,
        batch_first: bool, norm_first: bool, bias: bool, made: dict[str, Any], attentions: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Make the parts in PyTorch's order, which decides the state dict's and that of random draws."""
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **made
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, width, bias=bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(width, d_model, bias=bias, **made)
        self.norm_first = norm_first
        sublayers = range(1, len(attentions) + 2)
        for k in sublayers:
            setattr(self, f"norm{k}", LayerNorm(d_model, eps=eps, bias=bias, **made))
        for k in sublayers:
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = _activation(activation)

    def _sublayer(self, k: int, x: Any, function: Callable[[Tensor], Tensor]) -> Any:
        norm, dropout = getattr(self, f"norm{k}"), getattr(self, f"dropout{k}")
        if self.norm_first:
            return x + dropout(function(norm(x)))
        return norm(x + dropout(function(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a network of two linear layers: (S, B, d_model) to the same shape.

    With ``batch_first`` (B, S, d_model); without a batch dim, too. ``activation`` is "relu", "gelu" or a
    function.

    >>> import jtorch
    >>> layer = jtorch.nn.TransformerEncoderLayer(16, nhead=4, dim_feedforward=32, batch_first=True)
    >>> layer(jtorch.zeros(2, 10, 16)).shape
    torch.Size([2, 10, 16])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._add_parts(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias, {"device": device, "dtype": dtype}, ("self_attn",),
        )  # fmt: skip

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, attn_mask=src_mask, key_padding_mask=padding, need_weights=False,
                is_causal=is_causal,
            )[0]  # fmt: skip

        other = None if src_mask is None else src_mask.dtype
        padding = F._canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", other, "src_mask", src.dtype
        )
        src_mask = F._canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = self._sublayer(1, src, attend)
        return self._sublayer(2, x, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output and two linear layers: (T, B, d_model) to the same.

    >>> import jtorch
    >>> layer = jtorch.nn.TransformerDecoderLayer(16, nhead=4, dim_feedforward=32)
    >>> layer(jtorch.zeros(20, 2, 16), memory=jtorch.zeros(10, 2, 16)).shape
    torch.Size([20, 2, 16])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoderLayer.html
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._add_parts(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias, {"device": device, "dtype": dtype}, ("self_attn", "multihead_attn"),
        )  # fmt: skip

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(
                x, x, x, attn_mask=tgt_mask, key_padding_mask=tgt_key_padding_mask, need_weights=False,
                is_causal=tgt_is_causal,
            )[0]  # fmt: skip

        def attend_to_memory(x: Tensor) -> Tensor:
            return self.multihead_attn(
                x, memory, memory, attn_mask=memory_mask, key_padding_mask=memory_key_padding_mask,
                need_weights=False, is_causal=memory_is_causal,
            )[0]  # fmt: skip

        x = self._sublayer(1, tgt, attend)
        x = self._sublayer(2, x, attend_to_memory)
        return self._sublayer(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """``num_layers`` copies of ``encoder_layer``, then ``norm`` if there is one.

    ``enable_nested_tensor`` and ``mask_check`` choose between PyTorch's two paths for inference, which
    differ at padded positions alone; there is one path here.

    >>> import jtorch
    >>> layer = jtorch.nn.TransformerEncoderLayer(16, nhead=4, dim_feedforward=32, batch_first=True)
    >>> model = jtorch.nn.TransformerEncoder(layer, num_layers=2)
    >>> model(jtorch.zeros(2, 10, 16)).shape, len(model.layers)
    (torch.Size([2, 10, 16]), 2)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoder.html
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """``is_causal`` says that ``mask`` is the causal one; None leaves that open, with equal results."""
        other = None if mask is None else mask.dtype
        padding = F._canonical_mask(src_key_padding_mask, "src_key_padding_mask", other, "mask", src.dtype)
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, False)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=is_causal is True, src_key_padding_mask=padding)
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Module):
    """``num_layers`` copies of ``decoder_layer``, then ``norm`` if there is one.

    >>> import jtorch
    >>> layer = jtorch.nn.TransformerDecoderLayer(16, nhead=4, dim_feedforward=32)
    >>> model = jtorch.nn.TransformerDecoder(layer, num_layers=2)
    >>> model(jtorch.zeros(20, 2, 16), jtorch.zeros(10, 2, 16)).shape
    torch.Size([20, 2, 16])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoder.html
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        out = tgt
        for layer in self.layers:
            out = layer(
                out, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal is True,
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """Encoder and decoder: ``src`` (S, B, d_model) and ``tgt`` (T, B, d_model) to (T, B, d_model).

    Matrices start Xavier uniform. Raises RuntimeError where batches or d_model do not fit.

    >>> import jtorch
    >>> model = jtorch.nn.Transformer(16, 4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32)
    >>> model(jtorch.zeros(10, 2, 16), jtorch.zeros(20, 2, 16)).shape
    torch.Size([20, 2, 16])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        args = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **made)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*args, **made)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*args, **made)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch_dim = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): -inf where the key lies after the query, 0 elsewhere."""
        hidden = full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return functions.triu(hidden, 1)
