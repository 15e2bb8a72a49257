"""Sizes and counts that become elements of tensors: one recording serves all of them."""

from __future__ import annotations

import pytest

import jtorch
from tests.each import each

FORMS = {
    "tensor": lambda n, k: jtorch.tensor([n, k]),
    "tensor of one": lambda n, k: jtorch.tensor(n),
    "tensor, nested": lambda n, k: jtorch.tensor([[n, 1.5], [k, 0.0]]),
    "tensor of a share": lambda n, k: jtorch.tensor(k / n),
    "int32": lambda n, k: jtorch.tensor([n, k], dtype=jtorch.int32),
    "new_tensor": lambda n, k: jtorch.ones(1).new_tensor([k, n]),
    "as_tensor": lambda n, k: jtorch.as_tensor([k]),
    "FloatTensor": lambda n, k: jtorch.FloatTensor([k]),
    "setitem": lambda n, k: written(n, k),
}


def written(n, k):
    table = jtorch.zeros(3, 2)
    table[1], table[2, 0] = n, k / n
    return table


@each("form", FORMS)
def test_one_recording_has_all_of_them(form):
    def counted(x):
        return FORMS[form](x.shape[0], len(x[x > 0]))

    compiled = jtorch.compile(counted, fullgraph=True, dynamic=True)
    for n in (7, 8, 12, 30):
        for k in (2, 3, 5):
            x = jtorch.where(jtorch.arange(n) < k, 1.0, -1.0)
            found, expected = compiled(x), counted(x)
            assert (found.tolist(), found.dtype) == (expected.tolist(), expected.dtype)
    assert len(compiled.retraces) == 0


def test_one_that_does_not_fit_is_an_error():
    compiled = jtorch.compile(lambda x: jtorch.tensor([x.shape[0], 1], dtype=jtorch.int8), dynamic=True)
    assert compiled(jtorch.ones(100)).tolist() == [100, 1]
    with pytest.raises(RuntimeError, match="cannot be converted to type int8 without overflow"):
        compiled(jtorch.ones(200))
