"""Public functions against PyTorch: values, dtypes, gradients, and the names of nodes."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn import functional as ours_functional
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

pytestmark = needs_torch
if HAS_TORCH:
    import torch
    import torch.nn.functional as torch_functional


def _rng():
    return np.random.default_rng(0)


A = _rng().standard_normal((3, 4)).astype(np.float32)
B = _rng().uniform(0.5, 2.0, (3, 4)).astype(np.float32)
ROW = _rng().standard_normal(4).astype(np.float32)
COLUMN = _rng().standard_normal((3, 1)).astype(np.float32)
CUBE = _rng().standard_normal((2, 3, 4)).astype(np.float32)
SCALAR = np.array(1.5, np.float32)
EMPTY = np.zeros((0, 4), np.float32)
INTS = _rng().integers(-5, 6, (3, 4))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -2.5, 3.0], np.float32)
IMAGES = _rng().standard_normal((2, 4, 8, 7)).astype(np.float32)
LABELS = np.array([1, 0, 3])

# (how it is called on the library L, arrays); gradients are compared for the floating-point ones
CALLS = {
    "add": (lambda L, x, y: x + y, [A, ROW]),
    "sub": (lambda L, x, y: x - y, [A, COLUMN]),
    "rsub": (lambda L, x: 2 - x, [A]),
    "mul": (lambda L, x, y: x * y, [COLUMN, ROW]),
    "div": (lambda L, x, y: x / y, [A, B]),
    "rdiv": (lambda L, x: 1 / x, [B]),
    "floor_divide": (lambda L, x, y: x // y, [A, B]),
    "remainder": (lambda L, x, y: x % y, [A, B]),
    "pow number": (lambda L, x: x**3, [A]),
    "pow zero": (lambda L, x: x**0, [A]),
    "pow half": (lambda L, x: x**0.5, [B]),
    "pow tensor": (lambda L, x, y: x**y, [B, A]),
    "rpow": (lambda L, x: 2.0**x, [A]),
    "neg": (lambda L, x: -x, [A]),
    "abs": (lambda L, x: x.abs(), [A]),
    "maximum": (lambda L, x, y: L.maximum(x, y), [A, B]),
    "minimum tie": (lambda L, x, y: L.minimum(x, y), [A, A]),
    "clamp": (lambda L, x: x.clamp(-0.5, 0.5), [A]),
    "clamp min": (lambda L, x: x.clamp(min=0.1), [A]),
    "relu": (lambda L, x: x.relu(), [A]),
    "where": (lambda L, x, y: L.where(x > 0, x, y), [A, ROW]),
    "where number": (lambda L, x: L.where(x > 0, x, 0.0), [A]),
    "matmul 2 2": (lambda L, x, y: x @ y, [A, A.T.copy()]),
    "matmul 1 1": (lambda L, x, y: x @ y, [ROW, ROW]),
    "matmul 2 1": (lambda L, x, y: x @ y, [A, ROW]),
    "matmul 1 2": (lambda L, x, y: x @ y, [ROW, A.T.copy()]),
    "matmul 3 2": (lambda L, x, y: x @ y, [CUBE, A.T.copy()]),
    "matmul 3 3": (lambda L, x, y: x @ y, [CUBE, CUBE.transpose(0, 2, 1).copy()]),
    "matmul 3 broadcast": (lambda L, x, y: x @ y, [CUBE[:1], CUBE.transpose(0, 2, 1).copy()]),
    "matmul empty": (lambda L, x, y: x @ y, [EMPTY, A.T.copy()]),
    "addmm": (
        lambda L, b, x, y: L.addmm(b, x, y, beta=0.5, alpha=2),
        [A[:, :3].copy(), A, A.T.copy()],
    ),
    "sum": (lambda L, x: x.sum(), [CUBE]),
    "sum dim": (lambda L, x: x.sum(1), [CUBE]),
    "sum dims keep": (lambda L, x: x.sum((0, -1), keepdim=True), [CUBE]),
    "sum empty": (lambda L, x: x.sum(0), [EMPTY]),
    "sum ints": (lambda L, x: x.sum(), [INTS]),
    "sum bools": (lambda L, x: (x > 0).sum(), [A]),
    "mean": (lambda L, x: x.mean(), [A]),
    "mean dim": (lambda L, x: x.mean(-1, keepdim=True), [CUBE]),
    "mean empty": (lambda L, x: x.mean(), [EMPTY]),
    "var": (lambda L, x: x.var(), [A]),
    "var dim": (lambda L, x: x.var(1, unbiased=False), [A]),
    "std": (lambda L, x: x.std(0), [A]),
    "prod": (lambda L, x: x.prod(), [A]),
    "prod dim": (lambda L, x: x.prod(1), [A]),
    "amax": (lambda L, x: x.amax(1), [A]),
    "amax first dim": (lambda L, x: x.amax(0, keepdim=True), [A]),
    "amin all": (lambda L, x: x.amin(), [A]),
    "max": (lambda L, x: x.max(), [A]),
    "max dim": (lambda L, x: x.max(1).values, [A]),
    "max indices": (lambda L, x: x.max(0).indices, [A]),
    "min dim": (lambda L, x: x.min(1, keepdim=True)[0], [A]),
    "argmax": (lambda L, x: x.argmax(), [A]),
    "argmin dim": (lambda L, x: x.argmin(1, keepdim=True), [A]),
    "all": (lambda L, x: (x > -9).all(), [A]),
    "any dim": (lambda L, x: (x > 0).any(1), [A]),
    "reshape": (lambda L, x: x.reshape(2, -1), [A]),
    "view": (lambda L, x: x.view(-1), [A]),
    "flatten": (lambda L, x: x.flatten(1), [CUBE]),
    "transpose": (lambda L, x: x.transpose(0, -1), [CUBE]),
    "permute": (lambda L, x: x.permute(2, 0, 1), [CUBE]),
    "t": (lambda L, x: x.t(), [A]),
    "T": (lambda L, x: x.T, [A]),
    "squeeze": (lambda L, x: x.squeeze(), [COLUMN]),
    "squeeze dim": (lambda L, x: x.squeeze(0), [COLUMN]),
    "unsqueeze": (lambda L, x: x.unsqueeze(-1), [A]),
    "expand": (lambda L, x: x.expand(2, 3, 5), [COLUMN]),
    "flip": (lambda L, x: x.flip(0, 1), [A]),
    "cat": (lambda L, x, y: L.cat([x, y], 1), [A, COLUMN]),
    "stack": (lambda L, x, y: L.stack([x, y], -1), [A, B]),
    "split": (lambda L, x: x.split(3, 1)[1], [A]),
    "chunk": (lambda L, x: x.chunk(3, -1)[1], [A]),
    "narrow": (lambda L, x: x.narrow(1, 1, 2), [A]),
    "to double": (lambda L, x: x.to(L.float64), [A]),
    "bool": (lambda L, x: x.bool(), [A]),
    "int": (lambda L, x: (x * 10).int(), [A]),
    "int div": (lambda L, x: x / 2, [INTS]),
    "int floor div": (lambda L, x: x // 3, [INTS]),
    "int remainder": (lambda L, x: x % 3, [INTS]),
    "int mean": (lambda L, x: x.float().mean(), [INTS]),
    "int times float": (lambda L, x: x * 1.5, [INTS]),
    "softmax": (lambda L, x: x.softmax(1), [A]),
    "log_softmax": (lambda L, x: x.log_softmax(0), [A]),
    "gather": (lambda L, x: x.gather(1, L.tensor([[0, 3], [1, 1], [2, 0]])), [A]),
    "index_select": (lambda L, x: L.index_select(x, 1, L.tensor([3, 0, 0])), [A]),
    "masked_fill": (lambda L, x: x.masked_fill(x > 0, -1.0), [A]),
    "masked_select": (lambda L, x: L.masked_select(x, x > 0), [A]),
    "tril": (lambda L, x: x.tril(-1), [CUBE]),
    "triu": (lambda L, x: L.triu(x, 1), [CUBE]),
    "sort": (lambda L, x: x.sort(1)[0], [A]),
    "sort down": (lambda L, x: x.sort(0, descending=True)[1], [A]),
    "argsort ties": (lambda L, x: L.argsort(x // 2, stable=True, descending=True), [INTS]),
    "topk": (lambda L, x: x.topk(2).values, [A]),
    "topk small": (lambda L, x: x.topk(2, 0, largest=False)[1], [A]),
    "unbind": (lambda L, x: x.unbind(1)[2], [CUBE]),
    "repeat": (lambda L, x: x.repeat(2, 1, 3), [A]),
    "dot": (lambda L, x, y: x.dot(y), [ROW, ROW]),
    "mv": (lambda L, x, y: L.mv(x, y), [A, ROW]),
    "outer": (lambda L, x, y: L.outer(x, y), [ROW, ROW]),
    "norm": (lambda L, x: x.norm(), [A]),
    "norm 3": (lambda L, x: x.norm(3, 1), [A]),
    "norm inf": (lambda L, x: x.norm(float("inf"), dim=0), [A]),
    "norm 1": (lambda L, x: x.norm(1, dim=0, keepdim=True), [A]),
    "logsumexp": (lambda L, x: x.logsumexp(1), [A * 100]),
    "logsumexp infinite": (lambda L, x: L.logsumexp(x, 0), [np.full((3, 2), -np.inf, np.float32)]),
    "isinf": (lambda L, x: L.isinf(x), [SPECIAL]),
    "reciprocal": (lambda L, x: x.reciprocal(), [B]),
    "log2": (lambda L, x: x.log2(), [B]),
    "log10": (lambda L, x: L.log10(x), [B]),
    "lerp": (lambda L, x, y: L.lerp(x, y, 0.3), [A, B]),
    "addcmul": (lambda L, x, y: x.addcmul(x, y, value=0.5), [A, B]),
    "addcdiv": (lambda L, x, y: x.addcdiv(x, y), [A, B]),
    "isclose": (lambda L, x, y: L.isclose(x, y), [SPECIAL, SPECIAL]),
    "isclose nan": (lambda L, x, y: L.isclose(x, y, equal_nan=True), [SPECIAL[:, None], SPECIAL]),
    "masked": (lambda L, x: x[x > 0], [A]),
    "gather rows": (lambda L, x: x[L.tensor([0, 2, 2])], [A]),
}
UNARY = (
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "square",
    "isnan",
    "isfinite",
    "clone",
)
for _name in UNARY:
    CALLS[_name] = (lambda L, x, n=_name: getattr(L, n)(x), [B])
    CALLS[f"{_name} special"] = (lambda L, x, n=_name: getattr(L, n)(x), [SPECIAL])
for _name in ("relu", "abs", "neg", "sigmoid"):
    CALLS[f"{_name} 0-d"] = (lambda L, x, n=_name: getattr(L, n)(x), [SCALAR])
for _name in ("maximum", "minimum", "add", "mul", "eq", "lt"):
    CALLS[f"{_name} special"] = (
        lambda L, x, y, n=_name: getattr(L, n)(x, y),
        [SPECIAL[:, None], SPECIAL],
    )
FUNCTIONAL_CALLS = {
    "linear": (lambda F, x, w, b: F.linear(x, w, b), [A, A, ROW[:3].copy()]),
    "linear vector": (lambda F, x, w: F.linear(x, w), [ROW, A]),
    "linear cube": (lambda F, x, w, b: F.linear(x, w, b), [CUBE, A, ROW[:3].copy()]),
    "gelu": (lambda F, x: F.gelu(x), [A]),
    "gelu tanh": (lambda F, x: F.gelu(x, approximate="tanh"), [A]),
    "silu": (lambda F, x: F.silu(x), [A]),
    "elu": (lambda F, x: F.elu(x, 0.7), [A]),
    "leaky_relu": (lambda F, x: F.leaky_relu(x, 0.2), [A]),
    "softplus": (lambda F, x: F.softplus(x, beta=2), [A]),
    "logsigmoid": (lambda F, x: F.logsigmoid(x), [A]),
    "hardtanh": (lambda F, x: F.hardtanh(x, -0.5, 0.5), [A]),
    "relu6": (lambda F, x: F.relu6(x * 5), [A]),
    "normalize": (lambda F, x: F.normalize(x), [A]),
    "layer_norm": (lambda F, x, w, b: F.layer_norm(x, (4,), w, b), [A, ROW, ROW]),
    "layer_norm plain": (lambda F, x: F.layer_norm(x, (3, 4)), [CUBE]),
    "conv2d": (
        lambda F, x, w, b: F.conv2d(x, w, b),
        [IMAGES, IMAGES[:, :, :3, :3].copy(), ROW[:2].copy()],
    ),
    "conv2d many": (
        lambda F, x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(2, 1)),
        [IMAGES, IMAGES[:, :, :3, :2].copy()],
    ),
    "conv2d groups": (
        lambda F, x, w: F.conv2d(x, w, groups=2, padding=1),
        [IMAGES, IMAGES[:, :2, :3, :3].copy()],
    ),
    "conv2d same": (
        lambda F, x, w: F.conv2d(x, w, padding="same"),
        [IMAGES, IMAGES[:, :, :3, :2].copy()],
    ),
    "conv2d image": (lambda F, x, w: F.conv2d(x, w), [IMAGES[0], IMAGES[:, :, :3, :3].copy()]),
    "max_pool2d": (lambda F, x: F.max_pool2d(x, 2), [IMAGES]),
    "max_pool2d tiled": (lambda F, x: F.max_pool2d(x, (2, 7)), [IMAGES]),
    "max_pool2d border": (lambda F, x: F.max_pool2d(x, 3, 2, 1), [IMAGES]),
    "max_pool2d overlap": (lambda F, x: F.max_pool2d(x, (2, 3), 1, dilation=2), [IMAGES]),
    "max_pool2d ties": (lambda F, x: F.max_pool2d(x, 2), [np.zeros((1, 1, 4, 4), np.float32)]),
    "avg_pool2d": (lambda F, x: F.avg_pool2d(x, 2), [IMAGES]),
    "avg_pool2d border": (lambda F, x: F.avg_pool2d(x, 3, 2, 1), [IMAGES]),
    "avg_pool2d inside": (lambda F, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), [IMAGES]),
    "avg_pool2d large": (lambda F, x: F.avg_pool2d(x, (8, 7)), [IMAGES]),
    "cross_entropy": (lambda F, x: F.cross_entropy(x, _labels(F)), [A]),
    "cross_entropy sum": (lambda F, x: F.cross_entropy(x, _labels(F), reduction="sum"), [A]),
    "cross_entropy none": (lambda F, x: F.cross_entropy(x, _labels(F), reduction="none"), [A]),
    "cross_entropy ignore": (lambda F, x: F.cross_entropy(x, _labels(F), ignore_index=3), [A]),
    "cross_entropy weight": (lambda F, x, w: F.cross_entropy(x, _labels(F), w.detach()), [A, B[0]]),
    "cross_entropy smooth": (lambda F, x: F.cross_entropy(x, _labels(F), label_smoothing=0.1), [A]),
    "cross_entropy all": (
        lambda F, x, w: F.cross_entropy(x, _labels(F), w.detach(), ignore_index=3, label_smoothing=0.2),
        [A, B[0]],
    ),
    "cross_entropy all none": (
        lambda F, x, w: F.cross_entropy(
            x, _labels(F), w.detach(), ignore_index=3, label_smoothing=0.2, reduction="none"
        ),
        [A, B[0]],
    ),
    "cross_entropy images": (lambda F, x: F.cross_entropy(x, _pixels(F)), [IMAGES]),
    "cross_entropy images none": (
        lambda F, x: F.cross_entropy(x, _pixels(F), reduction="none"),
        [IMAGES],
    ),
    "cross_entropy probabilities": (
        lambda F, x, p: F.cross_entropy(x, p, label_smoothing=0.1),
        [A, B],
    ),
    "cross_entropy vector": (lambda F, x: F.cross_entropy(x, _labels(F)[0]), [ROW]),
    "nll_loss": (lambda F, x: F.nll_loss(x, _labels(F)), [A]),
    "nll_loss weight": (
        lambda F, x, w: F.nll_loss(x, _labels(F), w.detach(), reduction="sum"),
        [A, B[0]],
    ),
    "mse_loss": (lambda F, x, y: F.mse_loss(x, y), [A, B]),
    "mse_loss none": (lambda F, x, y: F.mse_loss(x, y, reduction="none"), [A, B]),
    "l1_loss": (lambda F, x, y: F.l1_loss(x, y), [A, B]),
    "smooth_l1_loss": (lambda F, x, y: F.smooth_l1_loss(x, y, beta=0.5), [A, B]),
    "huber_loss": (lambda F, x, y: F.huber_loss(x, y, delta=0.5), [A, B]),
    "bce": (lambda F, x, y: F.binary_cross_entropy(x, y), [B / 3, B / 2.5]),
    "bce limits": (
        lambda F, x: F.binary_cross_entropy(x, (x * 0).detach()),
        [np.array([0.0, 1.0, 0.5], np.float32)],
    ),
    "bce logits": (lambda F, x, y: F.binary_cross_entropy_with_logits(x, y), [A * 50, B]),
    "bce logits weight": (
        lambda F, x, y, w: F.binary_cross_entropy_with_logits(x, y, pos_weight=w.detach()),
        [A, B, B[0]],
    ),
    "kl_div": (lambda F, x, y: F.kl_div(x, y, reduction="batchmean"), [A, B]),
    "kl_div log": (lambda F, x, y: F.kl_div(x, y, reduction="sum", log_target=True), [A, B]),
}


def _labels(F):
    return jtorch.tensor(LABELS) if F is ours_functional else torch.tensor(LABELS)


def _pixels(F):
    labels = np.random.default_rng(1).integers(0, 4, (2, 8, 7))
    return jtorch.tensor(labels) if F is ours_functional else torch.tensor(labels)


# nodes of several steps are one node here, and the other way round
OTHER_NAMES = {
    "square",
    "square special",
    "clamp",
    "clamp min",
    "remainder",
    "floor_divide",
    "max",
    "flatten",
    "max dim",
    "min dim",
    "std",
    "stack",
    "view",
    "matmul 1 1",
    "matmul 2 1",
    "matmul 1 2",
    "matmul 3 2",
    "matmul 3 broadcast",
    "matmul 3 3",
    "matmul empty",
    "split",
    "chunk",
    "narrow",
    "squeeze",
    "squeeze dim",
    "masked",
    "gather rows",
    "pow tensor",
    "rpow",
    "where number",
    "rsub",
    "rdiv",
    "sum dim",
    "sum dims keep",
    "sum empty",
    "mean dim",
    "prod dim",
    "T",
    "var dim",
    "gather",
    "index_select",
    "masked_fill",
    "masked_select",
    "tril",
    "triu",
    "sort",
    "topk",
    "unbind",
    "repeat",
    "dot",
    "mv",
    "outer",
    "norm",
    "norm 3",
    "norm inf",
    "norm 1",
    "logsumexp",
    "logsumexp infinite",
    "reciprocal",
    "log2",
    "log10",
    "lerp",
    "addcmul",
    "addcdiv",
    "pow number",
    "pow zero",
    "pow half",
    "reshape",
}


@pytest.mark.parametrize("name", CALLS)
def test_equals_pytorch(name):
    call, arrays = CALLS[name]
    compare(call, jtorch, torch, arrays, names=name not in OTHER_NAMES, requires=name != "floor_divide")


@pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning")  # PyTorch's, about its own speed
@pytest.mark.parametrize("name", FUNCTIONAL_CALLS)
def test_functional_equals_pytorch(name):
    call, arrays = FUNCTIONAL_CALLS[name]
    compare(call, ours_functional, torch_functional, arrays, names=False)
