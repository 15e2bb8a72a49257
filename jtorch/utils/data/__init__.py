"""Datasets and the loader that makes batches of them, with ``torch.utils.data``'s names.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from jtorch.utils.data.collate import default_collate, default_convert
from jtorch.utils.data.dataloader import DataLoader
from jtorch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from jtorch.utils.data.distributed import DistributedSampler
from jtorch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from jtorch.utils.data.worker import get_worker_info
