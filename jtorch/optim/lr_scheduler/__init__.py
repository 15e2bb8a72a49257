"""Learning rate schedules: each writes the next rate into the optimizer's groups.

A compiled step reads rates and momenta at run time, so a schedule never retraces it. State dicts have
PyTorch's keys. Source: https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
"""

from jtorch.optim.lr_scheduler.base import LRScheduler as LRScheduler, _LRScheduler
from jtorch.optim.lr_scheduler.combined import (
    ChainedScheduler as ChainedScheduler,
    SequentialLR as SequentialLR,
)
from jtorch.optim.lr_scheduler.cosine import (
    CosineAnnealingLR as CosineAnnealingLR,
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from jtorch.optim.lr_scheduler.cyclic import CyclicLR as CyclicLR, OneCycleLR as OneCycleLR
from jtorch.optim.lr_scheduler.decay import (
    ConstantLR as ConstantLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiplicativeLR as MultiplicativeLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)
from jtorch.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
