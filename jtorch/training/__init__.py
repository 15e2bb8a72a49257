"""A trainer that survives: the loop around a training step, whose runs go on exactly where they were killed.

Source: https://lightning.ai/docs/pytorch/stable/common/trainer.html
"""

from jtorch.training.callbacks import Callback, EarlyStopping, ProgressBar
from jtorch.training.checkpoint import ModelCheckpoint
from jtorch.training.loggers import CSVLogger, JSONLogger, Logger
from jtorch.training.state import seed_everything
from jtorch.training.trainer import Trainer
