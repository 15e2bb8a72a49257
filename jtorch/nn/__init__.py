"""Neural network modules, with ``torch.nn``'s names.

Source: https://docs.pytorch.org/docs/stable/nn.html
"""

from jtorch.nn import functional, init, utils
from jtorch.nn.activation import (
    ELU,
    GELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from jtorch.nn.container import ModuleDict, ModuleList, ParameterList, Sequential
from jtorch.nn.conv import AvgPool2d, Conv2d, MaxPool2d
from jtorch.nn.dropout import Dropout
from jtorch.nn.embedding import Embedding
from jtorch.nn.linear import Identity, Linear
from jtorch.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from jtorch.nn.module import Module
from jtorch.nn.normalization import LayerNorm
from jtorch.nn.parameter import Parameter
from jtorch.nn.shape import Flatten
