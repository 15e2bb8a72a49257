"""Tables of rows, looked up by number: Embedding, and EmbeddingBag, which sums them up.

Source: https://docs.pytorch.org/docs/stable/nn.html#sparse-layers
"""

from __future__ import annotations

from typing import Any, Self

from jtorch.eager.public import Tensor, empty, no_grad
from jtorch.nn import functional as F, init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class _Table(Module):
    """What both layers share: the table, which starts standard normal, and its options."""

    def _set_options(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        message: str,
    ) -> None:
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings and padding_idx != 0:
                raise AssertionError(message)
            padding_idx = padding_idx + num_embeddings if padding_idx < 0 else padding_idx
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def _set_weight(self, weight: Tensor | None, freeze: bool, device: Any, dtype: Any) -> None:
        shape = [self.num_embeddings, self.embedding_dim]
        if weight is None:
            fresh = empty(*shape, device=device, dtype=dtype)
            self.weight = Parameter(fresh, requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(weight.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight.detach(), requires_grad=not freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def _options_text(self) -> list[str]:
        found = [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        found += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        if self.scale_grad_by_freq is not False:
            found.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        return found


class Embedding(_Table):
    """Integers of any shape to rows of ``weight`` (num_embeddings, embedding_dim): one more dim.

    ``weight`` starts standard normal, with zeros in row ``padding_idx``, which gets no gradient. Rows whose
    ``norm_type``-norm is above ``max_norm`` are shortened in place when they are looked up. With ``sparse``
    its gradient is a COO tensor, see ``nn.functional.embedding``.

    >>> import jtorch
    >>> jtorch.nn.Embedding(10, 3)(jtorch.tensor([[1, 2, 4, 5]])).shape
    torch.Size([1, 4, 3])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_options(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            "Padding_idx must be within num_embeddings",
        )  # fmt: skip
        self._set_weight(_weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An Embedding over a table (num_embeddings, embedding_dim) that exists; frozen by default."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(
            embeddings.shape[0], embeddings.shape[1], padding_idx, max_norm, norm_type,
            scale_grad_by_freq, sparse, embeddings, freeze,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        parts = [str(self.num_embeddings), str(self.embedding_dim)]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts + self._options_text() + ["sparse=True"] * bool(self.sparse))


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows in each bag: (B, n), or a vector and offsets, to (B, width).

    Arguments as in ``Embedding`` and ``nn.functional.embedding_bag``.

    >>> import jtorch
    >>> bags = jtorch.nn.EmbeddingBag.from_pretrained(jtorch.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    >>> bags(jtorch.tensor([0, 1, 1]), jtorch.tensor([0, 1]))  # one bag of row 0, one of row 1 twice
    tensor([[1., 2.],
            [6., 8.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._set_options(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            "padding_idx must be within num_embeddings",
        )  # fmt: skip
        self._set_weight(_weight, False, device, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """An EmbeddingBag over a table (num_embeddings, embedding_dim) that exists; frozen by default."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        module = cls(
            embeddings.shape[0], embeddings.shape[1], max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )  # fmt: skip
        module.weight.requires_grad = not freeze
        return module

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        parts = [str(self.num_embeddings), str(self.embedding_dim), *self._options_text()]
        parts.append(f"mode={self.mode!r}")
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        return ", ".join(parts)
