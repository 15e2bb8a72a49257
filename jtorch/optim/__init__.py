"""Optimizers and learning rate schedules, with ``torch.optim``'s names."""

from jtorch.optim import lr_scheduler, swa_utils
from jtorch.optim.adadelta import Adadelta
from jtorch.optim.adafactor import Adafactor
from jtorch.optim.adagrad import Adagrad
from jtorch.optim.adam import Adam, AdamW
from jtorch.optim.adamax import Adamax
from jtorch.optim.asgd import ASGD
from jtorch.optim.lbfgs import LBFGS
from jtorch.optim.muon import Muon
from jtorch.optim.nadam import NAdam
from jtorch.optim.optimizer import Optimizer
from jtorch.optim.radam import RAdam
from jtorch.optim.rmsprop import RMSprop
from jtorch.optim.rprop import Rprop
from jtorch.optim.sgd import SGD
