"""Shapes that don't broadcast are PyTorch's RuntimeError in its words, whatever the op is made of."""

from __future__ import annotations

import pytest

import jtorch
import jtorch.nn.functional as F

CASES = {
    "add": lambda a, b: a + b,
    "where": lambda a, b: jtorch.where(a > 0, a, b),
    "lerp": lambda a, b: jtorch.lerp(a, b, 0.5),
    "addcmul": lambda a, b: jtorch.addcmul(a, b, b),
    "addcdiv": lambda a, b: jtorch.addcdiv(a, b, b),
    "xlogy": jtorch.special.xlogy,
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "huber_loss": F.huber_loss,
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="sum"),
    "soft_margin_loss": F.soft_margin_loss,
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_sizes_that_do_not_fit(name, mode):
    f = CASES[name] if mode == "eager" else jtorch.compile(CASES[name])
    with pytest.raises(RuntimeError, match=r"size of tensor a \(\d\) must match the size of tensor b \(\d\)"):
        f(jtorch.ones(2), jtorch.ones(3))
