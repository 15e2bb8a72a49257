"""The classes of results with names: ``isinstance(x.max(0), jtorch.return_types.max)``."""

from jtorch.core.return_types import *  # noqa: F403
