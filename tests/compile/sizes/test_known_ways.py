"""What products are told, and what grows into runs, by ways that are known: as without them."""

from __future__ import annotations

import ctypes
import itertools
import random

import numpy as np
import pytest

import jtorch
from jtorch.compile.run import choice, products
from jtorch.compile.run.choice import Choices
from jtorch.compile.run.products import ProductShape
from jtorch.compile.run.steps_at_sizes import StepsAtSizes
from jtorch.core import pieces, threads
from jtorch.native import blas, packed

F4, F8 = np.dtype("f4"), np.dtype("f8")


def linear(inner, columns, dtype=F4):
    """A layer: rows move."""
    return ProductShape(
        (0, 1, 1, 1), (None, inner, 0, columns, columns, 0, 1, 1, inner, 1, columns, 0), dtype
    )


def gradient(rows, columns, dtype=F4):
    """The gradient of its weight: the inner axis moves."""
    return ProductShape((0, 1, 1, 1), (rows, 1, 0, columns, columns, 0, 1, 1, None, rows, columns, 0), dtype)


ALL = ProductShape((0, 1, 1, 1), (None,) * 12, F4)
HEADS = ProductShape(
    (1, 1, 1, 1), (None, None, 16, None, None, 16, 0, None, None, 0, None, 1, 16, 1, 1, 0), F4
)
WINDOWS = ProductShape(
    (0, 1, 2, 2), (8, 27, 0, None, None, None, 0, None, None, 1, 0, 1, 3, 1, None, 0, 3, 9, 1, 0), F4
)


def of_all(draw):
    rows, columns, inner = (draw.choice((1, 2, 7, 16, 64, 65, 200)) for _ in range(3))
    return [rows, inner, 0, columns, columns, 0, 1, 1, inner, 1, columns, 0]


def of_heads(draw):
    n, rows, columns = draw.randint(1, 40), draw.choice((4, 16, 33)), draw.choice((4, 16, 33))
    return [n, rows * 16, rows * columns, rows, columns * 16, columns, columns]


def of_windows(draw):
    n, side = draw.randint(1, 9), draw.randint(5, 40)
    return [n * side * side, n, side * side, side * side, side, side + 2]


CASES = {
    "layer": (linear(64, 128), lambda draw: [draw.randint(1, 700)]),
    "float64": (linear(300, 30, F8), lambda draw: [draw.randint(1, 700)]),
    "few rows": (linear(256, 1024), lambda draw: [draw.randint(1, 70)]),
    "gradient": (gradient(64, 10), lambda draw: [draw.randint(1, 5000)]),
    "any": (ALL, of_all),
    "heads": (HEADS, of_heads),
    "windows": (WINDOWS, of_windows),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _ways_of_its_own():
    for known in (products._ways, products._ways_of_piece, products._ways_of_rows):
        known.cache_clear()
    yield
    for known in (products._ways, products._ways_of_piece, products._ways_of_rows):
        known.cache_clear()


def same(found, shape, moving, pieces=None):
    """What is told is what the call of the product says."""
    product = shape.product(moving)
    call = products.call_of(product, shape.dtype)
    pieces = call.pieces if pieces is None else pieces
    told, given = found
    assert (told.kernel, told.n_words, told.pieces) == (call.kernel, call.n_words, len(pieces))
    assert told.n_shared == len(call.shared or ())
    assert told.goes_by_tiles == (call.product is product and not call.threaded)
    begins = [n for piece in (pieces[:1] if call.shared else pieces) for n in call.begins(piece)]
    words = [n for piece in pieces for n in call.words(piece)]
    assert given.tolist() == [*words, *(call.shared or ()), *begins]


@pytest.mark.parametrize("name", CASES)
def test_products_are_told_what_they_are_told_without_a_known_way(name):
    shape, numbers_of = CASES[name]
    draw, asked = random.Random(name), set()
    for _ in range(300):
        moving = numbers_of(draw)
        asked.add(tuple(moving))
        same(products.known_told(shape, moving), shape, moving)
        _, (rows,) = products._ways_of_rows(shape).f(moving)
        assert products.known_rows_of(shape, tuple(moving)) == rows
        if name in ("layer", "gradient", "few rows"):
            for tiles in (2, 4):
                rows = moving[0] if name != "gradient" else 64
                even = [k * rows // tiles for k in range(tiles + 1)]
                uneven = [0, *sorted(draw.choices(range(rows + 1), k=tiles - 1)), rows]
                for edges in (even, uneven):
                    told = products.known_told(shape, moving, ("rows", edges))
                    parts = [pieces.Piece("rows", both) for both in itertools.pairwise(edges)]
                    same(told, shape, moving, parts)
    ways = products._ways(shape)
    least = len(asked) * (2 / 3 if name != "any" else 1 / 6)
    assert ways.served > least  # and the ways are of use
    assert products._ways_of_rows(shape).served > least


def test_what_pieces_share_is_memory_of_each_product():
    """Two products of the same sizes are told the same; each has these words for itself."""
    if not threads.at_first() or not blas.is_private():
        pytest.skip("products of such sizes are BLAS's here")
    told, given = products.known_told(linear(256, 256), [512])
    if not told.n_shared:
        pytest.skip("products of such sizes are BLAS's here")
    assert told.kernel == packed.kernel("f32")
    v, w = jtorch.randn(256, 256), jtorch.randn(256, 256)
    function, x = jtorch.compile(lambda x: (x @ v).relu() @ w), jtorch.randn(512, 256)
    jtorch.compiler.mark_dynamic(x, 0)
    function(x)
    ((plan,),) = function.plans.values()
    made = plan.runner.at(512).made
    rows, _ = made.layout.tables(made.memory)
    starts = {row[0] == told.kernel and read(row[1]) for row in rows.tolist()} - {False}
    assert len(starts) == 2
    begin = made.memory.ctypes.data
    assert all(begin < start < begin + made.memory.nbytes for start in starts)
    assert not given.flags.writeable


def read(address):
    return ctypes.c_int64.from_address(address).value


def test_runs_that_grow_by_known_ways_are_those_that_grow_without(monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_TOTAL", 0)
    real, begun = StepsAtSizes._grown, {}

    def grown(self, given, tasks, first, still):
        found = real(self, given, tasks, first, still)
        assert found == self._grow(tuple(tasks[first:]), given)
        begun.update(self._begun)
        return found

    monkeypatch.setattr(StepsAtSizes, "_grown", grown)
    monkeypatch.setattr(choice, "_FOLLOWED", 0)  # this plan would be followed as a whole
    draw = np.random.default_rng(0)
    nn = jtorch.nn
    model = nn.Sequential(nn.Linear(24, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 48), nn.Linear(48, 5))
    step = jtorch.compile(lambda x: model(x).square().mean().backward(), dynamic=True)
    for n in (*range(14, 60, 3), 64, 128, 256, 600, 601):
        model.zero_grad()
        step(jtorch.from_numpy(draw.standard_normal((n, 24)).astype("f4")))
    assert sum(ways.served for ways in begun.values()) > 10


def heads(x):
    y = x.reshape(x.shape[0], 6, 4, 6).transpose(1, 2)
    return jtorch.nn.functional.scaled_dot_product_attention(y, y, y)


def worst(x):
    """Losses in order, and the sum of those that are large."""
    each = (x @ x.t()).softmax(-1).sum(-1)
    return each.sort().values[x.shape[0] // 2 :].cumsum(0)


nn = jtorch.nn
SHORT = {
    "layers": lambda: nn.Sequential(nn.Linear(24, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 48)),
    "wide": lambda: nn.Sequential(nn.Linear(24, 300), nn.ReLU(), nn.Linear(300, 200)),
    "images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4, 6)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
    ),
    "heads": lambda: nn.Sequential(nn.Linear(24, 144), nn.Unflatten(1, (6, 24)), Called(heads)),
    "library calls": lambda: Called(worst),
}


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("least", [0, pieces.LEAST_TOTAL])
@pytest.mark.parametrize("name", SHORT)
def test_a_plan_that_is_followed_as_a_whole_goes_as_one_whose_runs_and_products_are(name, least, monkeypatch):
    monkeypatch.setattr(pieces, "LEAST_TOTAL", least)
    monkeypatch.setattr(choice, "_FOLLOWED", 100)
    real, counts = Choices.at, {"at": 0, "moving": 0}
    all_choices = set()

    def at(self, sizes, asked):
        found, expected = real(self, sizes, asked), self.apart(sizes, asked)
        assert found.steps == expected.steps
        assert found.tiling.lifetimes == expected.tiling.lifetimes
        assert found.given.dtype == expected.given.dtype and found.given.tolist() == expected.given.tolist()
        all_choices.add(self)
        counts["at"] += 1
        return found

    monkeypatch.setattr(Choices, "at", at)
    jtorch.manual_seed(0)
    model, draw = SHORT[name](), random.Random(name)
    step = jtorch.compile(lambda x: model(x).square().mean().backward(), dynamic=True)
    for n in (*draw.sample(range(2, 100), 40), *draw.sample(range(100, 1500), 40)):
        model.zero_grad()
        step(jtorch.randn(n, 24, requires_grad=True))
    ways = [choices._ways for choices in all_choices]
    assert counts["at"] >= 70
    assert sum(w.served for w in ways if w is not None) > 20
