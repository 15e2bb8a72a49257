"""``functools.cached_property`` that is asked for the first time while a function is recorded."""

from __future__ import annotations

import functools

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError


class Tables:
    size = 4

    @functools.cached_property
    def mask(self):
        return jtorch.ones(self.size, self.size).tril()

    @functools.cached_property
    def scale(self):
        return self.size**-0.5

    @functools.cached_property
    def twice(self):
        return self.mask * 2

    @functools.cached_property
    def pair(self):
        return {"a": jtorch.arange(4.0), "b": [3, self.mask.sum(0)]}

    @functools.cached_property
    def total(self):
        return self.mask.sum().item()


class Layer(nn.Module, Tables):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jtorch.full((4,), 2.0))
        self.register_buffer("offset", jtorch.ones(4))

    @functools.cached_property
    def shift(self):
        return self.offset + 1

    def forward(self, x):
        return (x * self.weight) @ self.mask * self.scale + self.shift


def use(x, tables):
    return x @ tables.twice * tables.pair["a"] + tables.pair["b"][1] * tables.total + tables.scale


FUNCTIONS = {
    "an object": (Tables, use),
    "a module": (Layer, lambda x, layer: layer(x)),
    "a module's tables": (Layer, use),
    "getattr": (Tables, lambda x, tables: x @ getattr(tables, "mask") * tables.scale),  # noqa: B009
    "asked twice": (Tables, lambda x, tables: x @ tables.mask + tables.mask.sum(0)),
}


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_cached_property_is_computed_once(name, inside):
    make, function = FUNCTIONS[name]
    ours, eager = make(), make()

    def step(x, owner):
        out = function(x, owner)
        if inside:
            out.sum().backward()
        return out

    f = jtorch.compile(lambda x: step(x, ours))
    kept = None
    for k in range(5):
        x, y = (jtorch.full((4,), float(k), requires_grad=True) for _ in range(2))
        out, expected = f(x), step(y, eager)
        if not inside:
            out.sum().backward()
            expected.sum().backward()
        assert out.tolist() == pytest.approx(expected.tolist())
        assert x.grad.tolist() == pytest.approx(y.grad.tolist())
        assert ours.__dict__["mask"].tolist() == eager.mask.tolist()
        assert ours.__dict__.keys() == eager.__dict__.keys()
        assert kept in (None, id(ours.mask))
        kept = id(ours.mask)
    assert sum(map(len, f.plans.values())) <= 2, str(f.retraces)  # at first there are no gradients


def test_what_was_kept_is_forgotten():
    for make in (Tables, Layer):
        owner = make()
        f = jtorch.compile(lambda x, owner=owner: x @ owner.mask * owner.scale)
        for size in (4, 3, 2):
            owner.size = size
            for name in ("mask", "scale"):
                if name in vars(owner):
                    delattr(owner, name)
            for k in range(2):
                x = jtorch.full((size,), 1.0 + k)
                assert f(x).tolist() == pytest.approx(
                    (x @ jtorch.ones(size, size).tril() * size**-0.5).tolist()
                )


def test_kept_values_have_no_graph():
    class Graph(Layer):
        @functools.cached_property
        def graph(self):
            return self.weight * 2

    layer = Graph()
    f = jtorch.compile(lambda x: x * layer.graph)
    with pytest.raises(CompileError, match=r"test_cached_properties.py:\d+.*built outside it"):
        f(jtorch.ones(4))
    assert layer.graph.requires_grad
    layer.graph = layer.graph.detach()
    assert f(jtorch.ones(4)).tolist() == layer.graph.tolist()


def test_random_draws_and_changes_come_once():
    class Noisy(Layer):
        made = 0

        @functools.cached_property
        def noise(self):
            self.made += 1
            return jtorch.rand(4)

    layer = Noisy()
    f = jtorch.compile(lambda x: x * layer.noise)
    jtorch.manual_seed(0)
    first = f(jtorch.ones(4)).tolist()
    assert f(jtorch.ones(4)).tolist() == first == layer.noise.tolist() and layer.made == 1
    jtorch.manual_seed(0)
    assert jtorch.rand(4).tolist() == first
    del layer.noise
    assert f(jtorch.ones(4)).tolist() != first and layer.made == 2
