"""``nn.grad``: gradients of convolutions against PyTorch's."""

from __future__ import annotations

import importlib

import numpy as np

import jtorch
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
FACTS = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "groups": 2},
    {"stride": 2, "padding": 2, "groups": 2},
]


@needs_torch
@each("rank, facts", [(rank, facts) for rank in (1, 2, 3) for facts in FACTS])
def test_equals_pytorch(rank, facts):
    groups = facts.get("groups", 1)
    x, w = RNG.standard_normal((2, 4, *(7,) * rank)), RNG.standard_normal((6, 4 // groups, *(3,) * rank))
    convolution = getattr(torch.nn.functional, f"conv{rank}d")
    g = RNG.standard_normal(tuple(convolution(torch.tensor(x), torch.tensor(w), **facts).shape))

    def of_input(L, w, g):
        grad = importlib.import_module(f"{L.__name__}.nn.grad")
        return getattr(grad, f"conv{rank}d_input")(x.shape, w, g, **facts)

    def of_weight(L, x, g):
        grad = importlib.import_module(f"{L.__name__}.nn.grad")
        return getattr(grad, f"conv{rank}d_weight")(x, w.shape, g, **facts)

    compare(of_input, jtorch, torch, [w, g], rtol=1e-9, atol=1e-10)
    compare(of_weight, jtorch, torch, [x, g], rtol=1e-9, atol=1e-10)


def test_compiles():
    from jtorch.nn.grad import conv2d_weight

    x, g = jtorch.tensor(RNG.standard_normal((1, 2, 5, 5))), jtorch.tensor(RNG.standard_normal((1, 3, 3, 3)))
    compiled = jtorch.compile(lambda x, g: conv2d_weight(x, (3, 2, 3, 3), g), fullgraph=True)
    np.testing.assert_allclose(compiled(x, g).numpy(), conv2d_weight(x, (3, 2, 3, 3), g).numpy(), rtol=1e-12)


def test_the_layer_of_attention_has_pytorchs_name():
    from jtorch.nn.modules.linear import NonDynamicallyQuantizableLinear

    layer = NonDynamicallyQuantizableLinear(3, 2, bias=False)
    assert isinstance(layer, jtorch.nn.Linear)
    assert layer(jtorch.ones(4, 3)).shape == (4, 2)
