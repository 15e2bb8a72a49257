"""Functions whose faces make arrays of their own: with tensors on the tests' device they give what the CPU
gives, there."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.nn import functional as F
from tests.cuda.marks import compiles
from tests.each import each

pytestmark = [pytest.mark.usefixtures("cuda"), pytest.mark.slow, compiles]


def made(x, value, **options):
    return jtorch.tensor(value, device=x.device, **options)


def ctc(x):
    scores = x.reshape(9, 4, 4)[:, :2].log_softmax(2)
    return F.ctc_loss(scores, made(x, [[1, 2], [2, 3]]), (9, 8), (2, 2))


def ctc_in_a_row(x):
    scores = x.reshape(9, 4, 4)[:, :2].log_softmax(2)
    return F.ctc_loss(scores, made(x, [1, 2, 2]), made(x, [9, 8]), made(x, [2, 1]))


def sampled(x):
    theta = jtorch.eye(2, 3).expand(2, 2, 3).to(x.device)
    return F.grid_sample(x, F.affine_grid(theta, (2, 2, 3, 3), align_corners=False), align_corners=False)


LAYERS = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest odd": lambda x: F.interpolate(x, size=(5, 4)),
    "bicubic": lambda x: F.interpolate(x, size=(4, 5), mode="bicubic", antialias=True),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 4),
    "indices of pooling": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x, 2, output_size=3),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "grid_sample": sampled,
    "fold": lambda x: F.fold(F.unfold(x, 2), (6, 6), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "instance_norm": F.instance_norm,
    "local_response_norm": lambda x: F.local_response_norm(x, 2),
    "reflect": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, jtorch.ones(2, 3, 2, 2, device=x.device)),
    "embedding_bag": lambda x: F.embedding_bag(made(x, [[0, 1], [2, 3]]), x[0, 0]),
    "a masked attention": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=jtorch.ones(6, 6, device=x.device).tril().bool()
    ),
}
LOSSES = {
    "ctc_loss": ctc,
    "ctc_loss of targets in a row": ctc_in_a_row,
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x[0, 0], x[0, 1], x[1, 0]),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x[0, 0], jtorch.arange(6, device=x.device)),
    "multilabel_margin_loss": lambda x: F.multilabel_margin_loss(x[0, 0], (x[0, 0] * 0).long()),
    "cosine_embedding_loss": lambda x: F.cosine_embedding_loss(x[0, 0], x[0, 1], x[0, 0, 0] * 0 + 1),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x * 2, x.abs()),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, x.abs()),
}
DRAWS = {
    "gumbel_softmax": F.gumbel_softmax,
    "rrelu": lambda x: F.rrelu(x, training=True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.2, True),
    "dropout2d": lambda x: F.dropout2d(x, 0.3),
    "normal": lambda x: jtorch.normal(x, x.abs()),
    "poisson": lambda x: jtorch.poisson(x.abs()),
    "binomial": lambda x: jtorch.binomial(x.abs().ceil(), x * 0 + 0.5),
    "exponential_": lambda x: x.clone().exponential_(),
    "random_": lambda x: x.clone().random_(5),
    "randperm": lambda x: x[jtorch.randperm(2, device=x.device)],
}
COUNTS = {
    "nonzero": lambda x: (x > 0).nonzero(),
    "argwhere": lambda x: (x > 0).argwhere(),
    "where": lambda x: jtorch.where(x > 0)[1],
    "unique": lambda x: x.round().unique(),
    "counts of unique": lambda x: x.round().unique(return_counts=True)[1],
    "unique along a dim": lambda x: x.round().unique(dim=0),
    "unique_consecutive": lambda x: x.round().unique_consecutive(),
    "bincount": lambda x: (x[0, 0, 0].abs() * 3).long().bincount(),
    "histc": lambda x: x.histc(5),
    "masked_select": lambda x: x.masked_select(x > 0),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 2),
    "repeat_interleave": lambda x: x.repeat_interleave(made(x, [1, 2]), 0),
    "quantile": lambda x: x.quantile(0.3),
    "quantiles": lambda x: x.nanquantile(made(x, [0.1, 0.5]), 1),
    "median": lambda x: x.median(),
    "kthvalue": lambda x: x.kthvalue(2).values,
    "searchsorted": lambda x: jtorch.searchsorted(jtorch.arange(5.0, device=x.device), x),
    "put_": lambda x: x.clone().put_(made(x, [1]), x[0, 0, 0, :1]),
    "take": lambda x: x.take(made(x, [1])),
    "one_hot": lambda x: F.one_hot(made(x, [1, 0, 2])),
    "pad_sequence": lambda x: jtorch.nn.utils.rnn.pad_sequence([x[0, 0], x[0, 1, :3]]),
    "cov": lambda x: x[0, 0].cov(),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "heaviside": lambda x: jtorch.heaviside(x, x),
}
FUNCTIONS = LAYERS | LOSSES | DRAWS | COUNTS


@each("name", FUNCTIONS, parts=4)
def test_functions_are_those_of_the_cpu(name):
    jtorch.manual_seed(0)
    x, found = jtorch.randn(2, 2, 6, 6), []
    for t in (x, x.cuda()):
        jtorch.manual_seed(1)
        found.append(FUNCTIONS[name](t))
    expected, there = found
    assert there.is_cuda and there.dtype is expected.dtype
    jtorch.testing.assert_close(there.cpu(), expected, rtol=2e-5, atol=2e-5, equal_nan=True)


def test_a_step_through_what_was_made_there():
    found = []
    for place in ("cpu", "cuda"):
        jtorch.manual_seed(0)
        x = jtorch.randn(1, 1, 6, 6).to(place).requires_grad_()
        F.adaptive_avg_pool2d(F.interpolate(x, scale_factor=2, mode="bilinear"), 5).square().sum().backward()
        found.append(x.grad)
    jtorch.testing.assert_close(found[1].cpu(), found[0], rtol=1e-5, atol=1e-5)
