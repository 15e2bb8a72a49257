"""``torch.nn.modules.container``: the layers that PyTorch keeps there."""

from jtorch.nn.container import ModuleDict, ModuleList, Sequential
from jtorch.nn.parameter_container import ParameterDict, ParameterList

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
