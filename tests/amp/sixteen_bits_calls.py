"""Calls of the functions that people use, over enough elements to see how results in 16 bits are rounded.

Each is ``call(L, c)``, as in ``autocast_calls``: those with random numbers in it or parameters of modules are
left out there or said anew here, with all that they compute with given by ``c``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.amp.autocast_calls import CALLS, ON_DEVICE

Call = Callable[[Any, Any], Any]


def _function(name: str, low: float = -3.0, high: float = 3.0, *rest: Any, **options: Any) -> Call:
    """``name`` of torch, or else of nn.functional, of 261 numbers between ``low`` and ``high``."""

    def call(L: Any, c: Any) -> Any:
        function = getattr(L, name, None) or getattr(L.nn.functional, name)
        return function(c(L.rand(261) * (high - low) + low), *rest, **options)

    return call


def _pair(name: str, low: float = -3.0, high: float = 3.0, *rest: Any) -> Call:
    def call(L: Any, c: Any) -> Any:
        x, y = (c(L.rand(261) * (high - low) + low) for _ in range(2))
        return getattr(L, name)(x, y, *rest)

    return call


def _of_rows(name: str, *rest: Any, **options: Any) -> Call:
    """``name`` of (7, 65) numbers."""

    def call(L: Any, c: Any) -> Any:
        function = getattr(L, name, None) or getattr(L.nn.functional, name)
        found = function(c(L.randn(7, 65)), *rest, **options)
        return found[0] if isinstance(found, tuple) else found

    return call


def _loss(name: str, *rest: Any, probabilities: bool = False) -> Call:
    def call(L: Any, c: Any) -> Any:
        x, y = c(L.rand(33, 5) if probabilities else L.randn(33, 5)), L.rand(33, 5)
        return getattr(L.nn.functional, name)(x, y.to(x.dtype), *rest)

    return call


def _module(make: Callable[[Any], Any], *shape: int, times: int = 1) -> Call:
    """A module with parameters that are given, of ``times`` times one argument."""

    def call(L: Any, c: Any) -> Any:
        module = make(L)
        values = {name: c(L.randn(*p.shape) * 0.3) for name, p in module.named_parameters()}
        found = L.func.functional_call(module, values, (c(L.randn(*shape)),) * times)
        return found[0] if isinstance(found, tuple) else found

    return call


UNARY = {name: _function(name) for name in (
    "abs", "neg", "exp", "exp2", "expm1", "square", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh",
    "asinh", "sigmoid", "erf", "erfc", "floor", "ceil", "round", "trunc", "frac", "sign", "sinc", "relu",
    "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish",
    "hardsigmoid", "hardshrink", "softshrink", "tanhshrink", "softplus", "softsign", "logsigmoid",
)}  # fmt: skip
UNARY |= {name: _function(name, 0.05, 4.0) for name in (
    "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma",
)}  # fmt: skip
UNARY |= {name: _function(name, -0.95, 0.95) for name in ("asin", "acos", "atanh", "erfinv")}
UNARY |= {
    "acosh": _function("acosh", 1.1, 4.0), "logit": _function("logit", 0.05, 0.95),
    "gelu tanh": _function("gelu", approximate="tanh"), "clamp": _function("clamp", -3.0, 3.0, -1.0, 1.5),
    "add a number": _function("add", -3.0, 3.0, 0.1), "mul by a number": _function("mul", -3.0, 3.0, 0.1),
    "div by a number": _function("div", -3.0, 3.0, 0.7),
    "add alpha": _function("add", -3.0, 3.0, 0.1, alpha=3),
    "pow 2": _function("pow", -3.0, 3.0, 2), "pow 3": _function("pow", -3.0, 3.0, 3),
    "pow 2.5": _function("pow", 0.05, 3.0, 2.5), "pow -0.5": _function("pow", 0.05, 3.0, -0.5),
    "threshold": _function("threshold", -3.0, 3.0, 0.1, 0.5), "glu": _of_rows("glu", 0),
}  # fmt: skip
UNARY["glu"] = lambda L, c: L.nn.functional.glu(c(L.randn(7, 64)))
BINARY = {name: _pair(name) for name in (
    "add", "sub", "mul", "div", "atan2", "hypot", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod",
    "floor_divide", "logaddexp", "logaddexp2", "copysign",
)}  # fmt: skip
BINARY |= {
    "pow": _pair("pow", 0.05, 3.0), "xlogy": _pair("xlogy", 0.05, 3.0), "lerp": _pair("lerp", -3.0, 3.0, 0.3),
    "addcmul": lambda L, c: L.addcmul(*(c(L.randn(261)) for _ in range(3)), value=0.3),
    "addcdiv": lambda L, c: L.addcdiv(*(c(L.rand(261) + 0.5) for _ in range(3)), value=0.3),
    "where": lambda L, c: L.where(L.arange(261) % 2 == 0, c(L.randn(261)), c(L.randn(261))),
}  # fmt: skip
REDUCTIONS = {name: _of_rows(name, 1) for name in (
    "sum", "mean", "std", "var", "amax", "amin", "max", "median", "logsumexp", "cumsum", "logcumsumexp",
    "var_mean", "nansum", "nanmean", "softmax", "log_softmax", "softmin", "normalize",
)}  # fmt: skip
REDUCTIONS |= {
    "prod": lambda L, c: L.prod(c(L.rand(7, 65) + 0.5), 1),
    "cumprod": lambda L, c: L.cumprod(c(L.rand(7, 9) + 0.5), 1),
    "norm": _of_rows("norm", 2, 1), "sum of all": _of_rows("sum"), "mean of all": _of_rows("mean"),
    "vector_norm 1": lambda L, c: L.linalg.vector_norm(c(L.randn(7, 65)), 1, 1),
    "vector_norm inf": lambda L, c: L.linalg.vector_norm(c(L.randn(7, 65)), float("inf"), 1),
}  # fmt: skip
NORMS = {
    "layer_norm": lambda L, c: L.nn.functional.layer_norm(
        c(L.randn(7, 65)), (65,), c(L.randn(65)), c(L.randn(65))
    ),
    "rms_norm": lambda L, c: L.nn.functional.rms_norm(c(L.randn(7, 65)), (65,), c(L.randn(65))),
    "group_norm": lambda L, c: L.nn.functional.group_norm(
        c(L.randn(3, 8, 9)), 2, c(L.randn(8)), c(L.randn(8))
    ),
    "instance_norm": lambda L, c: L.nn.functional.instance_norm(c(L.randn(3, 4, 9))),
    "batch_norm": lambda L, c: L.nn.functional.batch_norm(
        c(L.randn(9, 8)), None, None, c(L.randn(8)), c(L.randn(8)), training=True
    ),
    "batch_norm evaluated": lambda L, c: L.nn.functional.batch_norm(
        c(L.randn(9, 8)), c(L.zeros(8)).detach(), c(L.ones(8)).detach(), c(L.randn(8)), c(L.randn(8))
    ),
    "local_response_norm": lambda L, c: L.nn.functional.local_response_norm(c(L.rand(2, 6, 3, 3)), 2),
    "cosine_similarity": lambda L, c: L.nn.functional.cosine_similarity(c(L.randn(7, 65)), c(L.randn(7, 65))),
    "pairwise_distance": lambda L, c: L.nn.functional.pairwise_distance(c(L.randn(7, 65)), c(L.randn(7, 65))),
}
LOSSES = {name: _loss(name) for name in (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "soft_margin_loss",
    "binary_cross_entropy_with_logits", "hinge_embedding_loss", "multilabel_soft_margin_loss",
)}  # fmt: skip
LOSSES |= {
    "binary_cross_entropy": _loss("binary_cross_entropy", probabilities=True),
    "cross_entropy": lambda L, c: L.nn.functional.cross_entropy(c(L.randn(33, 9)), L.arange(33) % 9),
    "nll_loss": lambda L, c: L.nn.functional.nll_loss(c(L.randn(33, 9)), L.arange(33) % 9),
    "multi_margin_loss": lambda L, c: L.nn.functional.multi_margin_loss(c(L.randn(33, 9)), L.arange(33) % 9),
}
PRODUCTS = {
    "mm": lambda L, c: L.mm(c(L.randn(17, 65)), c(L.randn(65, 9))),
    "bmm": lambda L, c: L.bmm(c(L.randn(3, 7, 33)), c(L.randn(3, 33, 5))),
    "addmm": lambda L, c: L.addmm(c(L.randn(17, 9)), c(L.randn(17, 65)), c(L.randn(65, 9))),
    "linear": lambda L, c: L.nn.functional.linear(c(L.randn(17, 65)), c(L.randn(9, 65)), c(L.randn(9))),
    "matmul": lambda L, c: L.matmul(c(L.randn(3, 7, 33)), c(L.randn(33, 5))),
    "dot": lambda L, c: L.dot(c(L.randn(65)), c(L.randn(65))),
    "mv": lambda L, c: L.mv(c(L.randn(17, 65)), c(L.randn(65))),
    "conv1d": lambda L, c: L.nn.functional.conv1d(c(L.randn(2, 5, 12)), c(L.randn(4, 5, 3)), c(L.randn(4))),
    "conv2d": lambda L, c: L.nn.functional.conv2d(
        c(L.randn(2, 5, 8, 8)), c(L.randn(4, 5, 3, 3)), c(L.randn(4)), padding=1
    ),
    "scaled_dot_product_attention": lambda L, c: L.nn.functional.scaled_dot_product_attention(
        *(c(L.randn(2, 3, 9, 8)) for _ in range(3))
    ),
    "causal attention": lambda L, c: L.nn.functional.scaled_dot_product_attention(
        *(c(L.randn(2, 3, 9, 8)) for _ in range(3)), is_causal=True
    ),
}
PLACES = {
    "gather": lambda L, c: c(L.randn(7, 9)).gather(1, L.arange(63).reshape(7, 9) % 9 // 2),
    "index_select": lambda L, c: c(L.randn(7, 9)).index_select(0, L.tensor([0, 3, 3, 6, 3])),
    "index_add": lambda L, c: c(L.randn(3, 9)).index_add(0, L.arange(33) % 3, c(L.randn(33, 9))),
    "scatter_add": lambda L, c: c(L.randn(3, 9)).scatter_add(
        0, L.arange(297).reshape(33, 9) % 3, c(L.randn(33, 9))
    ),
    "embedding": lambda L, c: L.nn.functional.embedding(L.arange(33) % 4, c(L.randn(5, 6))),
    "embedding_bag": lambda L, c: L.nn.functional.embedding_bag(
        (L.arange(33) % 4).reshape(3, 11), c(L.randn(5, 6))
    ),
    "cat": lambda L, c: L.cat([c(L.randn(9)), c(L.randn(9))]),
    "sort": lambda L, c: c(L.randn(7, 9)).sort(1)[0],
    "topk": lambda L, c: c(L.randn(7, 9)).topk(3, 1)[0],
}
MODULES = {
    "LSTM": _module(lambda L: L.nn.LSTM(3, 4), 5, 2, 3),
    "GRU": _module(lambda L: L.nn.GRU(3, 4), 5, 2, 3),
    "RNN": _module(lambda L: L.nn.RNN(3, 4), 5, 2, 3),
    "LSTMCell": _module(lambda L: L.nn.LSTMCell(3, 4), 2, 3),
    "GRUCell": _module(lambda L: L.nn.GRUCell(3, 4), 2, 3),
    "RNNCell": _module(lambda L: L.nn.RNNCell(3, 4), 2, 3),
    "MultiheadAttention": _module(lambda L: L.nn.MultiheadAttention(4, 2), 3, 2, 4, times=3),
    "TransformerEncoderLayer": _module(lambda L: L.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 3, 2, 4),
}
_LEFT_OUT = ("gumbel_softmax", "view_as_complex")  # draws; there is no complex32
_WITH_DTYPE = (" dtype", "_", " same", " mixed", " of integers", " of two dtypes", " weight")

EVERYDAY: dict[str, Call] = UNARY | BINARY | REDUCTIONS | NORMS | LOSSES | PRODUCTS | PLACES | MODULES
LISTED: dict[str, Call] = CALLS | EVERYDAY
MORE = {k: f for k, f in ON_DEVICE.items() if k not in _LEFT_OUT and not k.endswith(_WITH_DTYPE)}
ALL: dict[str, Call] = MORE | EVERYDAY
