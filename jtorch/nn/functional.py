"""``torch.nn.functional``'s functions under their names; eager mode defines them."""

from jtorch.eager.functional import *  # noqa: F403
