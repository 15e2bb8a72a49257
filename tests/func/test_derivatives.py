"""The shapes of what ``jtorch.func``'s derivatives return."""

import importlib.util

import numpy as np
import pytest

import jtorch
from jtorch import func

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import torch


def test_the_product_of_one_primal_comes_in_a_tuple():
    out, pull = func.vjp(lambda x: x.sin(), jtorch.zeros(3))
    (product,) = pull(jtorch.ones(3))
    assert product.tolist() == [1.0, 1.0, 1.0] and out.shape == (3,)


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # the oracle's own
def test_jacobians_along_inputs_have_the_dtype_of_the_output():
    W = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    functions = {
        "wider": lambda L, x: x.double().sin() * x.sum(), "one": lambda L, x: (x.double() * 2).sin()[:1],
        "narrower": lambda L, x: x.bfloat16() * 2, "autocast": lambda L, x: L.tanh(L.tensor(W) @ x),
    }  # fmt: skip
    for name, function in functions.items():
        found = []
        for L in (jtorch, torch) if HAS_TORCH else (jtorch,):
            with L.autocast("cpu", dtype=L.bfloat16, enabled=name == "autocast"):
                made = L.func.jacfwd(lambda x, L=L, f=function: f(L, x))(L.tensor([0.5, -1.0, 0.25]))
            found.append((str(made.dtype).split(".")[-1], made.double().tolist()))
        assert found[0][0] == ("float64" if name in ("wider", "one") else "bfloat16"), name
        np.testing.assert_allclose(found[0][1], found[-1][1], rtol=1e-12 if "64" in found[0][0] else 1e-2)
