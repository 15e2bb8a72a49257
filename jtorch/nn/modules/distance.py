"""``torch.nn.modules.distance``: the layers that PyTorch keeps there."""

from jtorch.nn.distance import CosineSimilarity, PairwiseDistance

__all__ = ["CosineSimilarity", "PairwiseDistance"]
