"""``torch.nn.modules.sparse``: the layers that PyTorch keeps there."""

from jtorch.nn.embedding import Embedding, EmbeddingBag

__all__ = ["Embedding", "EmbeddingBag"]
