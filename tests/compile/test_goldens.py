"""Printed graphs and generated source of a dozen programs, as they were when somebody last read them.

A refactoring shows an empty diff in ``goldens/``. Where a change is meant, write them anew and read the diff:

    python -m tests.compile.test_goldens
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch.compile import debug
from jtorch.compile.codegen.source import emit
from jtorch.compile.graph.finalise import finalise
from jtorch.eager.tensor import Tensor, leaf
from tests.compile.chain import optimised, planned, trace

FOLDER = Path(__file__).parent / "goldens"


def floats(*shape: int, seed: int = 0, requires_grad: bool = False) -> Tensor:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return leaf(np.asarray(values), requires_grad)


def softmax():
    return lambda x: F.softmax(x, dim=-1).clone(), [floats(4, 6)]


def layer_norm():
    return lambda x, w, b: F.layer_norm(x, (6,), w, b), [floats(4, 6), floats(6), floats(6)]


def cross_entropy():
    def program(x, target):
        loss = F.cross_entropy(x, target)
        return loss.detach().clone(), *jtorch.autograd.grad(loss, x)

    return program, [floats(4, 5, requires_grad=True), jtorch.tensor([1, 0, 4, 2])]


def rnn_cell():
    def program(x, h, w, u, b):
        new = jtorch.tanh(x @ w + h @ u + b)
        return new.detach().clone(), *jtorch.autograd.grad(new.sum(), (w, u, b))

    shapes = (4, 3), (4, 5), (3, 5), (5, 5), (5,)
    return program, [floats(*s, seed=k, requires_grad=k > 1) for k, s in enumerate(shapes)]


def adam():
    parameter = nn.Parameter(floats(3, 4))
    optimizer = jtorch.optim.Adam([parameter], lr=0.01)

    def program(g):
        parameter.grad = g
        optimizer.step()

    return program, [floats(3, 4, seed=1)]


def pad_and_cat():
    def program(x, y):
        framed = jtorch.cat((jtorch.zeros(1, 3), x, y))
        return framed[::2].flip(0) * 2.0

    return program, [floats(2, 3), floats(3, 3)]


def embedding_backward():
    def program(weight, ids):
        return jtorch.autograd.grad((F.embedding(ids, weight) ** 2).sum(), weight)[0]

    return program, [floats(5, 3, requires_grad=True), jtorch.tensor([1, 1, 4])]


def dropout():
    return lambda x: F.dropout(x, 0.25) + 1.0, [floats(3, 4)]


def mlp_step():
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def program(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach().clone()

    return program, [floats(4, 3), floats(4, 2)]


PROGRAMS = {
    f.__name__: f
    for f in (
        softmax, layer_norm, cross_entropy, rnn_cell, adam, pad_and_cat, embedding_backward, dropout, mlp_step
    )
}  # fmt: skip


def text_of(name: str) -> str:
    """The final graph without line numbers, and its kernels."""
    program, leaves = PROGRAMS[name]()
    made = trace(program, leaves, name)
    graph = finalise(optimised(made.graph))
    graph = graph.replace(eqns=tuple(e.replace(source=None) for e in graph.eqns))
    return f"{graph}\n\n\n{debug.kernel_text(emit(planned(graph)))}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden(name):
    expected = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert text_of(name) == expected, f"goldens/{name}.txt: see the docstring of this file"


if __name__ == "__main__":
    for golden in PROGRAMS:
        (FOLDER / f"{golden}.txt").write_text(text_of(golden), encoding="utf-8")
