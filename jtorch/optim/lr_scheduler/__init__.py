"""Learning rate schedules: each writes the next rate into the optimizer's groups.

A compiled step reads rates and momenta at run time, so a schedule never retraces it. State dicts have
PyTorch's keys. Source: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

from jtorch.optim.lr_scheduler.base import LRScheduler, _LRScheduler
from jtorch.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from jtorch.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from jtorch.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from jtorch.optim.lr_scheduler.decay import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from jtorch.optim.lr_scheduler.plateau import ReduceLROnPlateau
