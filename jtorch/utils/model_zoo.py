"""``torch.utils.model_zoo``: the former name of ``torch.hub``'s downloads.

Source: https://docs.pytorch.org/docs/stable/model_zoo.html
"""

from jtorch.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
