"""Optimizers and learning rate schedules, with ``torch.optim``'s names."""

from jtorch.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from jtorch.optim.adadelta import Adadelta as Adadelta
from jtorch.optim.adafactor import Adafactor as Adafactor
from jtorch.optim.adagrad import Adagrad as Adagrad
from jtorch.optim.adam import Adam as Adam, AdamW as AdamW
from jtorch.optim.adamax import Adamax as Adamax
from jtorch.optim.asgd import ASGD as ASGD
from jtorch.optim.lbfgs import LBFGS as LBFGS
from jtorch.optim.muon import Muon as Muon
from jtorch.optim.nadam import NAdam as NAdam
from jtorch.optim.optimizer import Optimizer as Optimizer
from jtorch.optim.radam import RAdam as RAdam
from jtorch.optim.rmsprop import RMSprop as RMSprop
from jtorch.optim.rprop import Rprop as Rprop
from jtorch.optim.sgd import SGD as SGD
from jtorch.optim.sparse_adam import SparseAdam as SparseAdam
