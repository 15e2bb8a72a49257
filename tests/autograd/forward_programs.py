"""Programs of a module and tensors that are made dual: the same for jtorch and for PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Program(NamedTuple):
    """``function(torch, *tensors)`` of float64 tensors of these shapes; ``positive`` ones where it asks."""

    function: Callable
    shapes: tuple[tuple[int, ...], ...]
    positive: bool = False

    def arrays(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """(the values, their tangents)"""
        rng = np.random.default_rng(7)
        values = [rng.standard_normal(s) for s in self.shapes]
        return [abs(v) + 0.3 if self.positive else v for v in values], [
            rng.standard_normal(s) for s in self.shapes
        ]


PROGRAMS: dict[str, Program] = {}


def program(*shapes: tuple[int, ...], positive: bool = False) -> Callable:
    def decorate(function: Callable) -> Callable:
        PROGRAMS[function.__name__] = Program(function, shapes, positive)
        return function

    return decorate


def _row(name: str, function: Callable, *shapes: tuple[int, ...], positive: bool = False) -> None:
    PROGRAMS[name] = Program(function, shapes, positive)


def _named(names: str, *shapes: tuple[int, ...], positive: bool = False, of: str = "") -> None:
    for name in names.split():

        def function(T: Any, *xs: Any, name: str = name) -> Any:
            where = T
            for part in of.split(".") if of else ():
                where = getattr(where, part)
            return getattr(where, name)(*xs)

        _row(name, function, *shapes, positive=positive)


_named("exp sin tanh sigmoid square abs relu floor sign erf asinh expm1", (3, 4))
_named("log sqrt rsqrt lgamma reciprocal log1p", (3, 4), positive=True)
_named("add mul div maximum atan2 hypot fmod xlogy pow", (3, 4), (4,), positive=True)
_named("gelu silu softplus hardswish elu logsigmoid", (3, 4), of="nn.functional")
_named("matmul mm", (3, 4), (4, 2))
_named("inv", (3, 3), of="linalg")
_named("bmm", (2, 3, 4), (2, 4, 2))
_named("addmm", (3, 2), (3, 4), (4, 2))
_named("lerp addcmul", (3,), (3,), (3,))
_named("trace diagonal det matrix_exp", (3, 3))
_row("sum", lambda T, x: x.sum(1), (3, 4))
_row("mean", lambda T, x: x.mean(), (3, 4))
_row("var", lambda T, x: x.var(1), (3, 4))
_row("prod", lambda T, x: x.prod(1), (3, 4))
_row("amax", lambda T, x: x.amax(1), (3, 4))
_row("max", lambda T, x: x.max(1).values, (3, 4))
_row("sort", lambda T, x: x.sort(1).values, (3, 5))
_row("norm", lambda T, x: T.linalg.vector_norm(x, 3), (3, 4))
_row("logsumexp", lambda T, x: x.logsumexp(1), (3, 4))
_row("cumsum", lambda T, x: x.cumsum(1), (3, 4))
_row("cumprod", lambda T, x: x.cumprod(1), (3, 4))
_row("softmax", lambda T, x: x.softmax(1), (3, 4))
_row("power of a number", lambda T, x: 2**x + 1 / x - x**3, (3,), positive=True)
_row("einsum", lambda T, x, y: T.einsum("ij,kj->ik", x, y), (3, 4), (2, 4))
_row("permute", lambda T, x: x.permute(2, 0, 1).sin(), (2, 3, 4))
_row("reshape", lambda T, x: x.t().reshape(-1) ** 2, (3, 4))
_row("slices", lambda T, x: x[1:, ::2] * x[:-1, ::2], (3, 4))
_row("index", lambda T, x: x[T.tensor([0, 0, 2])], (3, 4))
_row("mask", lambda T, x: x[x > 0], (3, 4))
_row("gather", lambda T, x: x.gather(1, T.tensor([[0, 1], [2, 2], [3, 0]])), (3, 4))
_row("scatter_add", lambda T, x, y: x.scatter_add(1, T.tensor([[0, 1], [2, 2], [3, 0]]), y), (3, 4), (3, 2))
_row("cat", lambda T, x, y: T.cat([x, T.ones(1, 4), y]), (3, 4), (2, 4))
_row("stack", lambda T, x, y: T.stack([x, y], 1), (3,), (3,))
_row("where", lambda T, x, y: T.where(x > y, x, y), (3, 4), (4,))
_row("as_strided", lambda T, x: x.as_strided((2, 2), (1, 2)) * 2, (6,))
_row("pad", lambda T, x: T.nn.functional.pad(x, (1, 2), value=3.0), (3, 4))
_row("expand", lambda T, x: x.expand(3, 4).cos(), (4,))
_row("split", lambda T, x: T.split(x, 2)[1] * T.unbind(x)[0], (4,))
_row("clamp", lambda T, x: x.clamp(-0.5, 0.5), (3, 4))
_row("dtypes", lambda T, x: (x.float() * 2).to(T.float64), (3,))
_row("numbers", lambda T, x: 3 * x + True - T.arange(3), (3,))
_row("detach", lambda T, x: x * x.detach(), (3,))
_row("layer_norm", lambda T, x, w, b: T.nn.functional.layer_norm(x, (4,), w, b), (3, 4), (4,), (4,))
_row("batch_norm", lambda T, x: T.nn.functional.batch_norm(x, None, None, training=True), (5, 3))
_row("linear", lambda T, x, w, b: T.nn.functional.linear(x, w, b), (3, 4), (2, 4), (2,))
_row("a bias alone", lambda T, b: T.nn.functional.linear(T.ones(3, 4), T.ones(2, 4), b), (2,))
_row("conv1d", lambda T, x, w, b: T.nn.functional.conv1d(x, w, b, padding=1), (2, 3, 5), (4, 3, 3), (4,))
_row("conv2d", lambda T, x, w: T.nn.functional.conv2d(x, w, stride=2), (1, 2, 5, 5), (3, 2, 3, 3))
_row("conv_transpose2d", lambda T, x, w: T.nn.functional.conv_transpose2d(x, w), (1, 2, 3, 3), (2, 3, 2, 2))
_row("max_pool2d", lambda T, x: T.nn.functional.max_pool2d(x, 2), (1, 2, 4, 4))
_row("avg_pool2d", lambda T, x: T.nn.functional.avg_pool2d(x, 2), (1, 2, 4, 4))
_row("embedding", lambda T, w: T.nn.functional.embedding(T.tensor([0, 2, 0]), w), (3, 4))
_row("cross_entropy", lambda T, x: T.nn.functional.cross_entropy(x, T.tensor([0, 2, 1])), (3, 4))
_row("mse_loss", lambda T, x, y: T.nn.functional.mse_loss(x, y), (3,), (3,))
_row("normalize", lambda T, x: T.nn.functional.normalize(x), (3, 4))
_row("cholesky", lambda T, x: T.linalg.cholesky(x @ x.T + T.eye(3)), (3, 3))
_row("solve", lambda T, x, b: T.linalg.solve(x + 3 * T.eye(3), b), (3, 3), (3, 2))
_row("eigh", lambda T, x: T.linalg.eigh(x + x.T)[0], (3, 3))
_row("fft", lambda T, x: T.fft.rfft(x).abs(), (6,))
_row("complex", lambda T, x, y: T.view_as_real(T.complex(x, y).exp() * T.complex(y, x)), (3,), (3,))
_row("angle", lambda T, x, y: T.complex(x, y).angle() + T.polar(x, y).imag, (3,), (3,), positive=True)


@program((4, 3))
def loop(T, x):
    h = T.zeros(3)
    for row in x:
        h = T.tanh(h * 0.5 + row)
    return h


@program((3, 4))
def written_in_place(T, x):
    y = x * 1
    y.mul_(2).add_(y).sin_()
    y[0] = y[1] * 3
    y[:, 1] = 0
    return y


@program((3,))
def written_to_a_buffer(T, x):
    buffer = T.zeros(4, 3)
    before = buffer[1]
    buffer[0] = x
    before.copy_(x * 2)
    buffer[2, :2] += x[:2]
    return buffer * buffer


@program((3, 4))
def written_through_views(T, x):
    y = x * 1
    y.view(-1)[2:5].mul_(3)
    y.t()[0].exp_()
    return y * 1


@program((3, 4))
def written_where_masks_hold(T, x):
    y = x * 1
    y[y > 0] = 0.5
    y.masked_fill_(y < -1, 2.0)
    y[T.tensor([0, 1])] = x[T.tensor([1, 2])] * 2
    y.index_add_(0, T.tensor([0]), x[:1])
    return y.clamp_(-1, 1).fill_diagonal_(0.0)


@program((3,))
def forgotten(T, x):
    y = x * 1
    y.zero_()
    y.add_(3)
    return y


@program((1, 3))
def reshaped_in_place(T, x):
    return (x * 1).t_().squeeze_().unsqueeze_(0) * 2
