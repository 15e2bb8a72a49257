"""The classes of results with names: ``isinstance(x.max(0), jtorch.return_types.max)``.

Source: https://docs.pytorch.org/docs/stable/generated/torch.max.html
"""

from jtorch.core.return_types import *  # noqa: F403
from jtorch.core.return_types import __getattr__ as __getattr__
