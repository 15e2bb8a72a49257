"""Datasets and the loader that makes batches of them, with ``torch.utils.data``'s names.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from jtorch.utils.data.collate import default_collate
from jtorch.utils.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from jtorch.utils.data.loader import DataLoader
from jtorch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
)
