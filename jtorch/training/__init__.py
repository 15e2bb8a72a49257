"""A trainer that survives: the loop around a training step, whose runs go on exactly where they were killed.

Source: https://lightning.ai/docs/pytorch/stable/common/trainer.html
"""

from jtorch.training.callbacks import (
    Callback as Callback,
    EarlyStopping as EarlyStopping,
    ProgressBar as ProgressBar,
)
from jtorch.training.checkpoint import ModelCheckpoint as ModelCheckpoint
from jtorch.training.loggers import CSVLogger as CSVLogger, JSONLogger as JSONLogger, Logger as Logger
from jtorch.training.state import seed_everything as seed_everything
from jtorch.training.trainer import Trainer as Trainer
