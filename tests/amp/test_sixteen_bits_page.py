"""docs/sixteen_bits.md is true: what it says of a call is measured again."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from tests.amp.sixteen_bits_calls import ALL
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch
from tools import sixteen_bits_page as page

if HAS_TORCH:
    import torch

PAGE = page.FILE.read_text()
QUICK = (
    "add", "mul by a number", "exp", "tanh", "sigmoid", "relu", "pow of 2", "where", "sum", "mean", "softmax",
    "cross_entropy", "mse_loss", "layer_norm", "batch_norm", "linear", "conv2d", "interpolate", "RNNCell",
    "scatter_add", "scaled_dot_product_attention",
)  # fmt: skip
CELLS = ("RNNCell", "LSTMCell", "GRUCell", "RNN", "LSTM", "GRU")


def _at_most(found, said):
    """Whether both are in the row or before it; of sums in another order a unit may be lost or gained, and of
    functions in float32, of which processors' libraries differ in the last place."""
    wide = all(m.dtype == "float32" for m in found)
    most = [b + 1 if b or (wide and b is not None) else 0 for b in said]
    return all(a is None or a <= b for a, b in zip(page.row_of(found), most, strict=True))


def _check(title, name, said):
    call, autocast = page.calls(title)[name], page.TITLES[title]
    found = [m for half in page.HALVES if (m := page.measured(torch, call, half, autocast)) is not None]
    assert found
    assert _at_most(found, said), (
        f"{title}, {name}: {found}: python -m tools.sixteen_bits_page writes it anew"
    )


def test_every_call_has_one_row():
    rows = page.rows(PAGE, "All in 16 bits")
    assert len(rows) > 240
    assert rows.keys() <= ALL.keys()
    assert set(QUICK) <= rows.keys()
    assert rows["add"] == (0.0, 0.0)
    assert rows["floor_divide"] == (0.0, None)
    assert rows.keys() & {"float16", "PyTorch"} == set()


@needs_torch
@each("name", QUICK)
def test_a_row_is_measured_again(name):
    for title in page.TITLES:
        said = page.rows(PAGE, title).get(name)
        if said is not None:
            _check(title, name, said)


@needs_torch
@pytest.mark.slow
@each("title", page.TITLES)
def test_all_rows_are(title):
    rows = page.rows(PAGE, title)
    assert len(rows) > 50
    for name, said in rows.items():
        _check(title, name, said)


@each("name", [*CELLS, "mean", "layer_norm", "interpolate", "pow of 2"])
def test_compiled_has_eager_mode_s_bits(name):
    """1 - tanh^2 was wider than bfloat16 in eager mode alone: every second gradient was another."""
    for half in page.HALVES:
        result, gradient = page.compiled_apart(ALL[name], half)
        assert (result, gradient) == (0.0, 0.0), half


def test_units():
    ours, theirs = np.array([1.0, 1.0, 2**-12]), np.array([1.0, 1 + 2**-7, 0.0])
    assert page.units(ours, theirs, "bfloat16") == 1.0
    assert page.units(ours, np.array([1.0, 1.0, np.nan]), "bfloat16") == np.inf
    assert page.units(ours[:2], theirs, "float16") == np.inf
    assert page.row_of([page.Measured("a", "a", 0.5, None, (0, None), (0, None))]) == (1.0, None)


def test_the_numbers_of_a_call_are_the_same_in_every_run():
    first, second = (page.arguments(ALL["mm"]) for _ in range(2))
    for a, b in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.float32
    assert (
        jtorch.tensor(page.rounded(first[1][0], "float16")).half().float().tolist()
        == page.rounded(first[1][0], "float16").tolist()
    )
