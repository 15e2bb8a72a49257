"""``nn.DataParallel`` on one device: the module itself, under the name ``module``."""

import numpy as np
import pytest

import jtorch
from jtorch import nn


def test_the_wrapped_module_runs_on_the_whole_batch():
    inner = nn.Linear(3, 2)
    model = nn.DataParallel(inner, device_ids=[0, 1], output_device=0, dim=0)
    x = jtorch.randn(5, 3)
    out = model(x)
    np.testing.assert_array_equal(out.detach().numpy(), inner(x).detach().numpy())
    out.sum().backward()
    np.testing.assert_allclose(inner.bias.grad.numpy(), [5.0, 5.0])


def test_names_and_repr_are_pytorchs():
    model = nn.DataParallel(nn.Linear(3, 2))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert model.device_ids == []
    assert repr(model).startswith("DataParallel(\n  (module): Linear(")


def test_several_inputs_and_keywords_reach_the_module():
    class Sum(nn.Module):
        def forward(self, a, b, *, scale):
            return (a + b) * scale

    out = nn.DataParallel(Sum())(jtorch.ones(2), jtorch.ones(2), scale=3)
    assert out.tolist() == [6.0, 6.0]


def test_the_distributed_form_wants_a_process_group():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with pytest.raises(AttributeError, match="blah"):
        nn.parallel.blah  # noqa: B018
