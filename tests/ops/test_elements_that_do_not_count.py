"""NaN that is left out, factors of 0, rows that padding leaves out: what is computed, and where gradients go.

PyTorch says which of several NaN a window takes, and that what is multiplied by 0 does not matter.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

import jtorch
from tests.each import each

HAS_TORCH = importlib.util.find_spec("torch") is not None
NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(3)
HOLES = np.array([[NAN, NAN, NAN], [1.0, NAN, 2.0], [NAN, 3.0, 3.0]])
ROWS = np.array([[1.0, 2.0], [-INF, -INF], [-INF, 3.0], [4.0, -INF], [NAN, 1.0]])


def punched(*shape, value=NAN):
    """Numbers, of which a third are ``value``."""
    return np.where(RNG.random(shape) < 0.35, value, RNG.standard_normal(shape))


def bags(mode, padding, index, offsets=None):
    def program(L, rows):
        starts = None if offsets is None else L.tensor(offsets)
        index_ = L.tensor(index)
        bag = L.nn.functional.embedding_bag
        return (bag(index_, rows, starts, mode=mode, padding_idx=padding),)

    return program, [ROWS]


def pooled(name, x, size):
    return lambda L, x: getattr(L.nn.functional, name)(x, size, return_indices=True), [x]


def fractional(rank, x, size):
    samples = np.full((*x.shape[:2], rank), 0.3)

    def program(L, x):
        pool = getattr(L.nn.functional, f"fractional_max_pool{rank}d")
        return pool(x, 2, output_size=size, return_indices=True, _random_samples=L.tensor(samples))

    return program, [x]


def without(name, x, **options):
    return lambda L, x: (getattr(L, name)(x, **options),), [x]


def added(name, beta, alpha, *arrays):
    return lambda L, *given: (getattr(L, name)(*given, beta=beta, alpha=alpha),), list(arrays)


INDEX = [[1, 1], [0, 2], [1, 0]], [[4, 1], [1, 4], [0, 0]], [[1, 2], [2, 1], [3, 3]]
LINE, IMAGE, VOLUME = punched(1, 2, 9), punched(1, 2, 6, 5), punched(1, 1, 4, 4, 4)
M, N, MATRICES, OTHERS = (RNG.standard_normal(s) for s in ((2, 3), (3, 4), (2, 2, 3), (2, 3, 4)))
PROGRAMS = {
    f"bag {mode} {padding} {index}": bags(mode, padding, index)
    for mode in ("max", "sum", "mean") for padding in (None, 0, 1) for index in INDEX
}  # fmt: skip
PROGRAMS |= {
    f"bag max {padding} by offsets": bags("max", padding, [0, 0, 1, 3, 1], [0, 2, 2])
    for padding in (None, 0, 1)
}
PROGRAMS |= {
    "adaptive line": pooled("adaptive_max_pool1d", LINE, 4),
    "adaptive line, few": pooled("adaptive_max_pool1d", LINE, 2),
    "adaptive image": pooled("adaptive_max_pool2d", IMAGE, (2, 2)),
    "adaptive image, uneven": pooled("adaptive_max_pool2d", IMAGE, (4, 3)),
    "adaptive volume": pooled("adaptive_max_pool3d", VOLUME, 2),
    "adaptive -inf": pooled("adaptive_max_pool2d", punched(1, 2, 6, 5, value=-INF), (4, 3)),
    "adaptive of -inf": pooled("adaptive_max_pool2d", np.full((1, 2, 6, 5), -INF), (4, 3)),
    "fractional image": fractional(2, IMAGE, (3, 2)), "fractional volume": fractional(3, VOLUME, (2, 2, 2)),
}  # fmt: skip
PROGRAMS |= {
    f"{name} {options}": without(name, HOLES, **options)
    for name in ("nansum", "nanmean") for options in ({}, {"dim": 0}, {"dim": 1}, {"dim": 1, "keepdim": True})
} | {f"{name} of NaN": without(name, np.full(3, NAN)) for name in ("nansum", "nanmean")}  # fmt: skip
for beta, alpha in ((0, 1), (0.0, 2.0), (1, 0), (0, 0), (2, 0)):
    for label, bad in (("NaN", NAN), ("inf", INF)):
        image, vector = np.full((2, 4), bad if beta == 0 else 1.0), np.full(2, bad if beta == 0 else 1.0)
        first = np.where(RNG.random((2, 3)) < 0.5, bad if alpha == 0 else 2.0, 1.0)
        PROGRAMS |= {
            f"{name} {beta} {alpha} {label}": added(name, beta, alpha, *arrays)
            for name, *arrays in (
                ("addmm", image, first, N), ("addmm", image[0], first, N), ("addmv", vector, first, N[:, 0]),
                ("addbmm", image, np.stack([first, M]), OTHERS), ("addr", image, first[:, 0], N[0]),
            )
        }  # fmt: skip
    PROGRAMS[f"baddbmm {beta} {alpha}"] = added(
        "baddbmm", beta, alpha, np.full((2, 2, 4), NAN if beta == 0 else 1.0), MATRICES, OTHERS
    )


def results(L, name, through=lambda function: function):
    """The outputs of a program, and the gradients of a weighted sum of its first one."""
    program, arrays = PROGRAMS[name]
    inputs = [L.tensor(a, requires_grad=True) for a in arrays]

    def step(*given):
        outputs = program(L, *given)
        weights = L.arange(1.0, outputs[0].numel() + 1, dtype=L.float64).reshape(tuple(outputs[0].shape))
        grads = L.autograd.grad((outputs[0] * weights).sum(), given)
        return [out.detach() for out in outputs], grads

    outputs, grads = through(step)(*inputs)
    return [np.array(value.tolist()) for value in (*outputs, *grads)]


@each("name", PROGRAMS)
def test_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    for got, right in zip(results(jtorch, name), results(torch, name), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-14)


@each("name", PROGRAMS)
def test_compiled(name):
    for got, right in zip(results(jtorch, name, jtorch.compile), results(jtorch, name), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-14)


# -- without PyTorch -------------------------------------------------------------------------------------


def test_a_row_of_infinities_has_its_gradient_beside_padding():
    rows = jtorch.tensor([[-INF, -INF], [5.0, 5.0]], requires_grad=True)
    index = jtorch.tensor([[1, 0], [0, 1]])
    out = jtorch.nn.functional.embedding_bag(index, rows, mode="max", padding_idx=1)
    assert out.tolist() == [[-INF, -INF]] * 2
    out.sum().backward()
    assert rows.grad.tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_the_last_of_several_nan_is_the_place():
    x = jtorch.tensor([[[NAN, 1.0, NAN, 2.0]]])
    values, places = jtorch.nn.functional.adaptive_max_pool1d(x, 1, return_indices=True)
    assert math.isnan(values.item()) and places.item() == 2


def test_the_gradient_of_the_mean_of_nothing_is_nan():
    x = jtorch.tensor([[NAN, NAN], [1.0, NAN]], requires_grad=True)
    jtorch.nanmean(x, 1)[1].backward()
    assert x.grad[1].tolist() == [1.0, 0.0] and x.grad[0].isnan().all()


def test_nan_is_left_out_before_the_elements_become_integers():
    x = jtorch.tensor([NAN, 1.75, 2.5])
    for library, given in ((jtorch, x), *_pytorch(x)):
        assert library.nansum(given, dtype=library.int64).item() == 3
    assert jtorch.compile(lambda t: jtorch.nansum(t, dtype=jtorch.int64))(x).item() == 3


def test_complex_elements_are_refused():
    x = jtorch.tensor([complex(NAN, 0.0), 1.0 + 1.0j])
    for library, given in ((jtorch, x), *_pytorch(x)):
        with pytest.raises(RuntimeError, match="does not support complex inputs"):
            library.nansum(given)


def _pytorch(x):
    """PyTorch, if it is there, with the same tensor."""
    if not HAS_TORCH:
        return []
    import torch

    return [(torch, torch.tensor(x.tolist()))]


def test_an_input_that_is_multiplied_by_0_has_a_gradient_of_zeros():
    image, ones = jtorch.full((2, 2, 2), NAN, requires_grad=True), jtorch.ones(2, 2, 2)
    for function, given in (
        (jtorch.baddbmm, (image, ones, ones)), (jtorch.addbmm, (image[0], ones, ones)),
        (jtorch.addmm, (image[0], ones[0], ones[0])), (jtorch.addmv, (image[0, 0], ones[0], ones[0, 0])),
        (jtorch.addr, (image[0], ones[0, 0], ones[0, 0])),
    ):  # fmt: skip
        out = function(*given, beta=0)
        assert not out.isnan().any(), function
        (grad,) = jtorch.autograd.grad(out.sum(), image)
        assert grad.eq(0).all(), function
