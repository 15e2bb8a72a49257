"""Optimizers whose state is shared out between processes.

Source: https://docs.pytorch.org/docs/stable/distributed.optim.html
"""

from jtorch.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
