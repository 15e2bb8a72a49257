"""``torch.distributed.checkpoint.stateful``: where PyTorch's scripts import ``Stateful`` from."""

from jtorch.distributed.checkpoint.api import Stateful

__all__ = ["Stateful"]
