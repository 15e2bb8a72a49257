"""``torch.utils.deterministic``: memory that nobody has written is 0 here, so the switch decides nothing.

Source: https://docs.pytorch.org/docs/stable/deterministic.html
"""

fill_uninitialized_memory = True
