"""Datasets and the loader that makes batches of them, with ``torch.utils.data``'s names.

Source: https://docs.pytorch.org/docs/stable/data.html
"""

from jtorch.utils.data.collate import default_collate as default_collate, default_convert as default_convert
from jtorch.utils.data.dataloader import DataLoader as DataLoader
from jtorch.utils.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from jtorch.utils.data.distributed import DistributedSampler as DistributedSampler
from jtorch.utils.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)
from jtorch.utils.data.worker import get_worker_info as get_worker_info
