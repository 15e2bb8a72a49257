"""Tensors that change places."""

from __future__ import annotations

import jtorch


def test_two_tensors_change_places() -> None:
    a, b = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(3)
    a.tag, memory = 1, b.data_ptr()
    jtorch.utils.swap_tensors(a, b)
    assert type(a) is jtorch.Tensor and type(b) is jtorch.nn.Parameter
    assert a.tolist() == [0, 0, 0] and b.tolist() == [1, 1] and a.data_ptr() == memory
    assert b.tag == 1 and not hasattr(a, "tag") and b.requires_grad and not a.requires_grad
