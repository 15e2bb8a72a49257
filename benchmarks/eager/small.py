"""What networks and their data consist of, on small arrays: softmax, losses, sorting, indices, random draws.

Here it is what surrounds the arithmetic that counts. Each is one function of tensors of (n, n) without a
tape; what draws random numbers is timed alone, and not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.agree import Tolerance
from benchmarks.program import Program, Workload, torch_program

SIZES = (8, 64, 512)

Form = Callable[[Any, Any, Any, Any], Any]  # (the library, x and y (n, n), classes (n,)) -> what is computed

FORMS: dict[str, Form] = {
    "softmax": lambda L, x, y, t: L.softmax(x, -1),
    "log_softmax": lambda L, x, y, t: L.log_softmax(x, -1),
    "layer_norm": lambda L, x, y, t: L.nn.functional.layer_norm(x, x.shape[1:], y[0], y[1]),
    "group_norm": lambda L, x, y, t: L.nn.functional.group_norm(x, 2),
    "batch_norm": lambda L, x, y, t: L.nn.functional.batch_norm(x, None, None, training=True),
    "cross_entropy": lambda L, x, y, t: L.nn.functional.cross_entropy(x, t),
    "nll_loss": lambda L, x, y, t: L.nn.functional.nll_loss(x, t),
    "mse_loss": lambda L, x, y, t: L.nn.functional.mse_loss(x, y),
    "smooth_l1_loss": lambda L, x, y, t: L.nn.functional.smooth_l1_loss(x, y),
    "bce_with_logits": lambda L, x, y, t: L.nn.functional.binary_cross_entropy_with_logits(x, y),
    "kl_div": lambda L, x, y, t: L.nn.functional.kl_div(x, y, reduction="batchmean"),
    "gelu": lambda L, x, y, t: L.nn.functional.gelu(x),
    "silu": lambda L, x, y, t: L.nn.functional.silu(x),
    "softplus": lambda L, x, y, t: L.nn.functional.softplus(x),
    "sigmoid": lambda L, x, y, t: x.sigmoid(),
    "std": lambda L, x, y, t: x.std(),
    "var of rows": lambda L, x, y, t: x.var(-1),
    "logsumexp": lambda L, x, y, t: x.logsumexp(-1),
    "norm": lambda L, x, y, t: x.norm(),
    "cosine_similarity": lambda L, x, y, t: L.nn.functional.cosine_similarity(x, y),
    "max of rows": lambda L, x, y, t: x.max(-1)[0],
    "argmax": lambda L, x, y, t: x.argmax(-1),
    "mean of columns": lambda L, x, y, t: x.mean(0),
    "cat": lambda L, x, y, t: L.cat([x, y], 1),
    "stack": lambda L, x, y, t: L.stack([x, y]),
    "split": lambda L, x, y, t: x.split(4)[1],
    "topk": lambda L, x, y, t: x.topk(3)[0],
    "sort": lambda L, x, y, t: x.sort()[0],
    "argsort": lambda L, x, y, t: x.argsort(dim=-1, stable=True),
    "cumsum": lambda L, x, y, t: x.cumsum(0),
    "gather": lambda L, x, y, t: x.gather(1, t[:, None]),
    "x[y]": lambda L, x, y, t: x[t],
    "index_select": lambda L, x, y, t: x.index_select(0, t),
    "embedding": lambda L, x, y, t: L.nn.functional.embedding(t, x),
    "where": lambda L, x, y, t: L.where(x > 0, x, y),
    "masked_fill": lambda L, x, y, t: x.masked_fill(x > 0, 0.0),
    "clamp": lambda L, x, y, t: x.clamp(-1, 1),
    "tril": lambda L, x, y, t: x.tril(),
    "conv1d": lambda L, x, y, t: L.nn.functional.conv1d(x[None], y[:8, :, None]),
    "max_pool1d": lambda L, x, y, t: L.nn.functional.max_pool1d(x[None], 2),
    "attention": lambda L, x, y, t: L.nn.functional.scaled_dot_product_attention(x[None], y[None], x[None]),
    "linear": lambda L, x, y, t: L.nn.functional.linear(x, y, y[0]),
    "one_hot": lambda L, x, y, t: L.nn.functional.one_hot(t),
}
DRAWS: dict[str, Form] = {
    "randn": lambda L, x, y, t: L.randn(x.shape),
    "rand": lambda L, x, y, t: L.rand(x.shape),
    "randint": lambda L, x, y, t: L.randint(0, 9, x.shape),
    "dropout": lambda L, x, y, t: L.nn.functional.dropout(x),
}


def _program(torch: Any, form: Form, n: int, compares: bool) -> Program:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.standard_normal((n, n), dtype=np.float32))
    y = torch.from_numpy(generator.uniform(0.1, 0.9, (n, n)).astype(np.float32))
    t = torch.from_numpy(generator.permutation(n))

    def step() -> Any:
        found = form(torch, x, y, t)
        return found if compares else x

    return torch_program(torch, step, step, [()], {})


def _workload(name: str, n: int) -> Workload:
    form, compares = FORMS.get(name) or DRAWS[name], name in FORMS
    # sums in another order; products of 512 terms cancel
    tolerance = Tolerance(losses=1e-4, rounding=1e-5 if name != "conv1d" else 1e-4)
    build = partial(_program, form=form, n=n, compares=compares)
    return Workload(f"{name} {n}x{n}", f"of {n}x{n}, forward", build, tolerance=tolerance)


WORKLOADS = {n: tuple(_workload(name, n) for name in (*FORMS, *DRAWS)) for n in SIZES}
