"""Embedding: rows of a table, looked up by number."""

from __future__ import annotations

from typing import Any

from jtorch.eager.creation import empty
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.tensor import Tensor
from jtorch.nn import functional as F
from jtorch.nn import init
from jtorch.nn.module import Module
from jtorch.nn.parameter import Parameter


class Embedding(Module):
    """Integers of any shape to rows of ``weight`` (num_embeddings, embedding_dim): one more dim.

    ``weight`` starts standard normal, with zeros in row ``padding_idx``, which gets no gradient.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """An Embedding over a table (num_embeddings, embedding_dim) that exists; frozen by default."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        module = cls(embeddings.shape[0], embeddings.shape[1], padding_idx)
        module.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return module

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
