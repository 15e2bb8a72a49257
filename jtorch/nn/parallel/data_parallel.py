"""Wrappers that share a module's batch between devices: one device here, so the module just runs.

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jtorch.nn.module import Module


class DataParallel(Module):
    """``module`` on a batch split over ``device_ids``, which stays empty: all of it runs in one place.

    What PyTorch does on a machine without a GPU. Names in ``state_dict()`` begin with ``module.`` here too.

    >>> import jtorch
    >>> jtorch.nn.DataParallel(jtorch.nn.Linear(3, 2))(jtorch.zeros(5, 3)).shape
    torch.Size([5, 2])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
