"""What waits for a backward pass in 16 bits, and where it becomes float32 again."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch import nn
from jtorch.compile.graph.conversions import converted_where_read, made_again
from jtorch.compile.graph.halves import widens
from jtorch.compile.graph.ir import Eqn, Graph, Type, Var
from jtorch.core.dtypes import HALVES
from jtorch.core.errors import Source
from jtorch.core.op import BY_NAME

FLOAT32 = np.dtype(np.float32)


def eqn(name, inputs, dtype=FLOAT32, shape=(3, 3), **statics):
    statics = {"dtype": dtype} if name == "cast" else statics
    return Eqn(BY_NAME[name], inputs, statics, (Var(Type(dtype, shape)),), Source("", 1, "f"))


def chain(half, products, last, *views, first="matmul"):
    """A value in 16 bits of which ``first`` reads the float32, and, so many products later, ``last``."""
    a, w = Var(Type(half, (3, 3))), Var(Type(FLOAT32, (3, 3)))
    cast = eqn("cast", (a,))
    eqns = [cast, eqn(first, (*cast.outputs, w))]
    for _ in range(products):
        eqns.append(eqn("matmul", (*eqns[-1].outputs, w)))
    end = cast.outputs[0]
    for statics in views:
        eqns.append(eqn("permute", (end,), axes=statics))
        end = eqns[-1].outputs[0]
    eqns.append(eqn(last, (*eqns[1 + products].outputs, end)))
    return Graph("f", (a, w), tuple(eqns), eqns[-1].outputs)


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
@pytest.mark.parametrize("views", [(), ((1, 0),), ((1, 0), (1, 0))], ids=len)
def test_what_a_product_reads_much_later_is_converted_again(half, views):
    for products in (0, 1, 2, 9):
        graph = converted_where_read(chain(half, products, "matmul", *views))
        casts = [e for e in graph.eqns if widens(e)]
        assert len(casts) == (2 if products > 1 else 1)  # beside the one that reads it first
        assert made_again(graph) == set(casts[1:])
        (last,) = (e for e in graph.eqns if e.outputs == graph.outputs)
        place = graph.eqns.index(last)
        assert all(graph.eqns.index(c) >= place - 1 - len(views) for c in casts[1:]), "just before"


@pytest.mark.parametrize("half", sorted(HALVES, key=str), ids=str)
def test_kernels_that_read_it_may_be_those_that_made_it(half):
    graph = chain(half, 9, "mul", first="mul")
    assert [e.op for e in converted_where_read(graph).eqns] == [e.op for e in graph.eqns]
    assert not made_again(graph)


def test_a_result_of_the_graph_stays_one_value():
    graph = chain(np.dtype(np.float16), 9, "matmul")
    given = graph.replace(outputs=(*graph.outputs, graph.eqns[0].outputs[0]))
    found = converted_where_read(given)
    assert found.outputs == given.outputs and sum(map(widens, found.eqns)) == 1


def test_kernels_convert_what_a_product_has_read():
    graph = converted_where_read(chain(np.dtype(np.float16), 9, "mul"))
    assert sum(map(widens, graph.eqns)) == 2 and graph.eqns[-2].op is BY_NAME["cast"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down, self.norm = nn.Linear(32, 128), nn.Linear(128, 32), nn.LayerNorm(32)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (h.reshape(b, t, 4, 8).transpose(1, 2) for h in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(x)))


def perceptron():
    return nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.ReLU())))


def trained(make, dtype, compiled, x):
    """Losses and parameters after three steps, and the bytes of scratch memory of the plan."""
    jtorch.manual_seed(0)
    model = make()
    optimizer = jtorch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        with jtorch.autocast("cpu", dtype=dtype or jtorch.bfloat16, enabled=dtype is not None):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = jtorch.compile(step) if compiled else step
    losses = [run(x).item() for _ in range(3)]
    arena = 0
    if compiled:
        ((plan,),) = run.plans.values()
        arena = plan.program.plan.arena_bytes
    return losses, [p.detach().numpy().copy() for p in model.parameters()], arena


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
@pytest.mark.parametrize("make", [perceptron, lambda: nn.Sequential(Block(), Block())], ids=["mlp", "gpt"])
def test_activations_under_autocast_take_less_memory(make, dtype):
    """What products read waits in 16 bits: 3 bytes of 5 a number, where a bool waits beside it. What softmax
    and layer_norm, which PyTorch computes in float32, and the derivative of gelu keep is float32."""
    x = jtorch.randn(1024, 64) if make is perceptron else jtorch.randn(16, 64, 32)
    *_, wide = trained(make, None, True, x)
    losses, parameters, arena = trained(make, dtype, True, x)
    assert 0 < arena < (0.75 if make is perceptron else 0.9) * wide
    eager, found, _ = trained(make, dtype, False, x)
    np.testing.assert_allclose(losses, eager, rtol=2e-3)
    for p, q in zip(parameters, found, strict=True):
        np.testing.assert_allclose(p, q, rtol=0.05, atol=2e-3)


@pytest.mark.parametrize("dtype", [jtorch.bfloat16, jtorch.float16], ids=str)
def test_graphs_are_checked_as_they_are_compiled(dtype, monkeypatch):
    monkeypatch.setenv("JTORCH_CHECK", "1")
    x = jtorch.randn(16, 64)
    losses, *_ = trained(perceptron, dtype, True, x)
    np.testing.assert_allclose(losses, trained(perceptron, dtype, False, x)[0], rtol=2e-3)


def test_a_later_backward_is_kept_16_bits_for():
    jtorch.manual_seed(0)
    model = perceptron()

    @jtorch.compile
    def forward(x):
        with jtorch.autocast("cpu", dtype=jtorch.bfloat16):
            return model(x)

    x, gradients = jtorch.randn(64, 64), []
    for run in (forward, forward.function):
        for p in model.parameters():
            p.grad = None
        with jtorch.autocast("cpu", dtype=jtorch.bfloat16, enabled=run is not forward):
            run(x).float().square().mean().backward()
        gradients.append([p.grad.numpy().copy() for p in model.parameters()])
    for found, eager in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, eager, rtol=0.05, atol=1e-6)
    ((plan,),) = forward.plans.values()
    large = {str(v.dtype) for v in plan.backward.split.saved if v.shape == (64, 64)}
    assert large == {"bfloat16"}
