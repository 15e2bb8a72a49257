"""Optimizers and learning rate schedules, with ``torch.optim``'s names."""

from jtorch.optim import lr_scheduler
from jtorch.optim.adam import Adam, AdamW
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.sgd import SGD
