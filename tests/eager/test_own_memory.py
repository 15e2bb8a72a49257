"""Functions that have nothing to do for some arguments: is a write to their result one to their input?"""

from __future__ import annotations

import pytest

import jtorch

COPIES = {  # of (2, 3), (1, 3), (1, 1), (3, 1)
    "repeat once": lambda T, x: x.repeat(1, 1),
    "repeat": lambda T, x: x.repeat(2, 1),
    "repeat in front": lambda T, x: x.repeat(2, 1, 1),
    "tile": lambda T, x: x.tile(2),
    "repeat_interleave once": lambda T, x: x.repeat_interleave(1, 0),
    "repeat_interleave": lambda T, x: x.repeat_interleave(2, 0),
    "repeat_interleave flat": lambda T, x: x.repeat_interleave(2),
    "pad with nothing": lambda T, x: T.nn.functional.pad(x, (0, 0, 0, 0)),
    "pad of no dim": lambda T, x: T.nn.functional.pad(x, ()),
    "pad by a value": lambda T, x: T.nn.functional.pad(x, (0, 0), value=2.0),
    "pad away": lambda T, x: T.nn.functional.pad(x.repeat(1, 2), (-1, 0)),
    "replicate nothing": lambda T, x: T.nn.functional.pad(x, (0, 0), mode="replicate"),
    "ZeroPad2d": lambda T, x: T.nn.ZeroPad2d(0)(x[None]),
    "ReflectionPad1d": lambda T, x: T.nn.ReflectionPad1d(0)(x),
    "differences of no order": lambda T, x: T.diff(x, n=0),
    "interpolate": lambda T, x: T.nn.functional.interpolate(x[None], scale_factor=1),
    "interpolate from one": lambda T, x: T.nn.functional.interpolate(x[None, :, :1], size=2),
    "interpolate linearly": lambda T, x: T.nn.functional.interpolate(
        x[None], size=x.shape[-1], mode="linear"
    ),
    "Upsample": lambda T, x: T.nn.Upsample(scale_factor=1)(x[None, None]),
    "pixel_shuffle": lambda T, x: T.nn.functional.pixel_shuffle(x[None], 1),
    "pixel_unshuffle": lambda T, x: T.nn.functional.pixel_unshuffle(x[None], 1),
    "channel_shuffle": lambda T, x: T.nn.functional.channel_shuffle(x[None], 1),
    "unfold": lambda T, x: T.nn.functional.unfold(x[None, None], 1),
    "chain_matmul": lambda T, x: T.chain_matmul(x),
    "roll": lambda T, x: x.roll(0, 0),
    "flip": lambda T, x: x.flip(()),
    "rot90": lambda T, x: T.rot90(x, 4),
    "cat": lambda T, x: T.cat([x]),
    "tril": lambda T, x: x.tril(10),
    "max_pool1d": lambda T, x: T.nn.functional.max_pool1d(x[None], 1),
    "avg_pool1d": lambda T, x: T.nn.functional.avg_pool1d(x[None], 1),
    "clamp": lambda T, x: x.clamp(-99.0),
    "sum": lambda T, x: x.sum(0),
    "amax": lambda T, x: x.amax(()),
    "sort": lambda T, x: x.sort(0).values,
    "index": lambda T, x: x[[0]],
    "select_scatter": lambda T, x: T.select_scatter(x, x.select(0, 0), 0, 0),
}
VIEWS = {
    "einsum": lambda T, x: T.einsum("ij->ij", x),
    "einsum of an ellipsis": lambda T, x: T.einsum("...", x),
    "einsum in another order": lambda T, x: T.einsum("ij->ji", x),
    "expand": lambda T, x: x.expand(-1, -1),
    "narrow": lambda T, x: x.narrow(0, 0, 1),
    "reshape": lambda T, x: x.reshape(-1),
    "permute": lambda T, x: x.permute(0, 1),
}
SHAPES = [(2, 3), (1, 3), (1, 1), (3, 1)]


def shared(T, function, shape):
    """Whether a write to the result changes the input, and whether it is another tensor."""
    x = T.ones(shape)
    made = function(T, x)
    made.fill_(5.0)
    assert (made == 5).all()
    return bool((x != 1).any()), made is not x


def check(T):
    wrong = {(n, s) for s in SHAPES for n, f in COPIES.items() if shared(T, f, s) != (False, True)}
    wrong |= {(n, s) for s in SHAPES for n, f in VIEWS.items() if shared(T, f, s) != (True, True)}
    assert not wrong


def test_memory_of_results():
    check(jtorch)


@pytest.mark.filterwarnings("ignore")
def test_memory_of_results_is_pytorchs():
    check(pytest.importorskip("torch"))


def test_memory_of_results_that_are_compiled():
    def all_of(x):
        for name, function in COPIES.items():
            made = function(jtorch, x)
            made.fill_(5.0)
            assert made is not x, name
        shown = VIEWS["einsum"](jtorch, x)
        shown.mul_(3.0)
        return x * 2

    compiled = jtorch.compile(all_of)
    for shape in SHAPES:
        for _ in range(3):
            x = jtorch.ones(shape)
            assert (compiled(x) == 6).all() and (x == 3).all(), shape


def test_gradients_of_what_was_copied():
    for name in COPIES.keys() - {"amax"}:  # which saves its result
        function = COPIES[name]
        x = jtorch.ones(2, 3).requires_grad_()
        made = function(jtorch, x)
        assert made.grad_fn is not None and x.grad_fn is None, name
        made.mul_(2.0)  # a write to a view of a leaf would be an error
        made.sum().backward()
        assert (x.grad.remainder(2) == 0).all(), name
