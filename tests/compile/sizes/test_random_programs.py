"""Random programs over x of shape (n, 4) and y of shape (n,), at random sizes: ``dynamic=True`` gives the
bits of plans for these sizes alone and the values of eager mode, in float64, where rounding does not count.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.compile.plan import tiles
from jtorch.core import pieces

STEPS = [
    "x = x * {c}", "x = x + y.unsqueeze(1)", "x = jtorch.tanh(x)", "x = x - x.mean(0)",
    "x = jtorch.softmax(x, {a})", "x = x.reshape(-1, 2).reshape(x.shape[0], -1)",
    "x = x[: x.shape[0] - {k}]; y = y[: x.shape[0]]", "x = x[{k}:]; y = y[{k}:]",
    "x = jtorch.cat([x, x]); y = jtorch.cat([y, y])", "x = x.t().contiguous().t()", "x = x / x.shape[0]",
    "x = x * (x.shape[0] % {m})", "if x.shape[0] > {t}: x = x * 2",
    "x = x + jtorch.arange(x.shape[0]).float().unsqueeze(1)", "x = (x @ x.t()) @ x * 0.01",
    "x = x[::2]; y = y[::2]", "x = x.expand(2, *x.shape).reshape(-1, x.shape[1]); y = jtorch.cat([y, y])",
    "x = jtorch.where(x > 0, x, -x)", "x = x + jtorch.zeros(x.shape[0], 1)",
    "x = x.reshape(x.shape[0], 2, -1).transpose(1, 2).reshape(x.shape[0], -1)", "x = x.flip(0)",
    "y = y * x.shape[0] + x.sum(1)", "x = F.pad(x, (0, 0, 1, 0))[:-1]", "y = y[y.shape[0] - x.shape[0]:]",
    "x = x * max(x.shape[0], {t})", "x = x.sum(0, keepdim=True) + x", "x = F.layer_norm(x, x.shape[1:])",
    "x = jtorch.triu(x)", "x = x[jtorch.arange(x.shape[0] - 1, -1, -1)]", "x = x - x[-1]",
    "x = x * x.numel()", "x = x.reshape(-1).reshape(-1, x.shape[1])", "x = F.dropout(x, 0.3)",
    "x[x.shape[0] // 2:] *= 1.5", "y = jtorch.cumsum(y, 0)", "x = jtorch.stack([x, x * 2]).sum(0)",
    "x = x.unsqueeze(0).repeat(3, 1, 1).mean(0)", "y = y + jtorch.linspace(0, 1, y.shape[0])",
    "x = F.linear(x, x[:2] if x.shape[0] > 2 else x, None); x = jtorch.cat([x, x], 1)[:, :4] + 0 * y.sum()",
]  # fmt: skip
ENDS = [
    "return x", "return x.sum(), y", "return x, x.shape[0]", "return (x * x).mean(), x[0]",
    "return x.reshape(-1)", "return y.unsqueeze(0) @ x", "return y.shape[0] / 3, x.shape, [y]",
    "w = jtorch.ones(x.shape[1], requires_grad=True); ((x * w).sum() + 0.0).backward(); return w.grad, x",
]  # fmt: skip


def program(seed):
    """The text of a random program, and the sizes to call it with."""
    r = random.Random(seed)
    lines = [
        step.format(
            c=round(r.uniform(-1, 1), 2), a=r.choice([0, 1]), k=r.choice([0, 1, 2]), m=r.choice([2, 3, 4]),
            t=r.choice([6, 12, 20]),
        )
        for step in r.choices(STEPS, k=r.randint(2, 6))
    ]  # fmt: skip
    parts = [
        p.strip() for s in (*lines, r.choice(ENDS)) for p in ([s] if s.startswith("if") else s.split(";"))
    ]
    sizes = [r.randint(2, 70) for _ in range(5)] + r.sample([0, 1, 2, 3, 7, 8, 31, 64, 65], 3)
    return "def f(x, y):\n" + "".join(f"    {part}\n" for part in parts), sizes


def outcome(f, n, dtype):
    """What a call gives: values, strides and types, or an error's class."""
    jtorch.manual_seed(n)
    x, y = jtorch.randn(n, 4, dtype=dtype), jtorch.randn(n, dtype=dtype)
    try:
        found = f(x, y)
    except Exception as error:
        return type(error).__name__
    return [_plain(part) for part in (found if isinstance(found, tuple) else (found,))] + [_plain(x)]


def _plain(value):
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, jtorch.Tensor):
        return type(value).__name__, value
    return value.stride(), value.detach().numpy()


def same(a, b, exact):
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or a.shape != b.shape or a.dtype != b.dtype:
            return False
        if exact:
            return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        return np.allclose(a, b, rtol=1e-3, atol=1e-3, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return (
            type(a) is type(b)
            and len(a) == len(b)
            and all(same(p, q, exact) for p, q in zip(a, b, strict=True))
        )
    return a == b


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(k, marks=pytest.mark.slow) for k in range(25, 250))]
)
def test_any_size_is_as_its_own_plan_and_as_eager_mode(seed, monkeypatch):
    if seed % 4 < 2:  # threads share steps however short, and go through them by tiles
        monkeypatch.setattr(pieces, "LEAST_TOTAL", 0)
        monkeypatch.setattr(tiles, "LEAST_TIME", 0)
        monkeypatch.setattr(tiles, "GRAIN", 1e-3)
    text, sizes = program(seed)
    space = {"jtorch": jtorch, "F": F}
    exec(compile(text, f"<program {seed}>", "exec"), space)
    eager, exact = space["f"], jtorch.compile(space["f"], dynamic=False)
    any_size = jtorch.compile(space["f"], dynamic=True)
    dtype = jtorch.float64 if seed % 2 else jtorch.float32
    for n in sizes:
        found = outcome(any_size, n, dtype)
        assert same(found, outcome(exact, n, dtype), exact=True), f"{n}:\n{text}"
        if dtype is jtorch.float64:
            assert same(found, outcome(eager, n, dtype), exact=False), f"{n}:\n{text}"
