"""Parameters as one vector.

Source: https://docs.pytorch.org/docs/stable/nn.html#utilities
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from jtorch.eager.public import Tensor, functions, no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after the other, as one vector.

    >>> import jtorch
    >>> jtorch.nn.utils.parameters_to_vector(jtorch.nn.Linear(3, 2).parameters()).shape  # 2 * 3 and 2
    torch.Size([8])
    """
    return functions.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the pieces of ``vec`` into the parameters.

    >>> import jtorch
    >>> layer = jtorch.nn.Linear(2, 1)
    >>> jtorch.nn.utils.vector_to_parameters(jtorch.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    with no_grad():
        for p, piece in _pieces(vec, parameters):
            p.copy_(piece.reshape(p.shape))


def _pieces(vec: Any, parameters: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    start = 0
    for p in parameters:
        yield p, vec[start : start + p.numel()]
        start += p.numel()
