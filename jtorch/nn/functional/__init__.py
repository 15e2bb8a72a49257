"""``torch.nn.functional``'s functions under their names; eager mode defines them."""

from jtorch.eager.functional import *  # noqa: F403
from jtorch.eager.functional import __getattr__  # noqa: F401 - the error that lists the names
