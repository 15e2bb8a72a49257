"""Parameters as a vector."""

from __future__ import annotations

import jtorch
from jtorch.nn import utils


def test_vector_and_back():
    params = [
        jtorch.tensor([1.0, 2.0], requires_grad=True),
        jtorch.tensor([[3.0]], requires_grad=True),
    ]
    vector = utils.parameters_to_vector(params)
    assert vector.tolist() == [1.0, 2.0, 3.0]
    utils.vector_to_parameters(vector.detach() * 2, params)
    assert [p.tolist() for p in params] == [[2.0, 4.0], [[6.0]]]
