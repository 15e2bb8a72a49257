"""``torch.nn.modules``: the layers under the paths that programs import them from."""

from jtorch.nn.modules import module
from jtorch.nn.modules.module import Module
