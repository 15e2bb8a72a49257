"""Instructions of random programs: elementwise ops of the whole table, reductions, products, norms, losses.

A family is a function of a ``Writer`` that adds one instruction, or none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jtorch
import jtorch.nn.functional as F
from jtorch.core.op import TABLE, Kind
from jtorch.eager.binding import APPLY
from jtorch.eager.tensor import Tensor, wrap
from tests.compile.programs_core import Writer

# Where a rounding in the argument becomes a jump in the result: for exact arguments only.
JUMPING = frozenset(
    [
        "floor",
        "ceil",
        "round",
        "trunc",
        "sign",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "heaviside",
        "floor_divide",
        "remainder",
        "fmod",
        "divide_and_floor",
        "divide_and_trunc",
        "isin",
        "nextafter",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "hardshrink",
        "signbit",
        "copysign",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
    ]
)
EXACT = JUMPING - {"nextafter", "floor_divide", "divide_and_floor"} | frozenset(
    [
        "neg",
        "abs",
        "relu",
        "add",
        "sub",
        "mul",
        "clone",
        "clamp_min",
        "clamp_max",
        "where",
        "lerp",
        "hardtanh",
    ]
)
NOT_HERE = frozenset({"expect", "make_complex", "real_part", "imag_part", "phase", "conj", "embedding"})
NOT_OF_BOOL = frozenset({"pow", "left_shift", "right_shift"})  # PyTorch refuses them


def _of_table(n: int, dtype: str) -> list[str]:
    """The ops of ``n`` arrays that work element by element on ``dtype``: whatever the table has."""
    ones, halves = np.array([[1, 2, 1], [2, 1, 1]]), np.full((2, 3), 0.5)  # not square: no matrices
    probe = wrap((halves if dtype == "float32" else ones).astype(dtype))
    found = []
    for op in TABLE:
        if len(op.arrays) != n or op.kind not in (Kind.ELEMENTWISE, Kind.COMPOSITE) or op.n_outputs != 1:
            continue
        if op.name in NOT_HERE or (op.kind is Kind.COMPOSITE and op.public is None):
            continue
        try:
            out = APPLY[op.name](*[probe] * n)
        except Exception:
            continue
        if isinstance(out, Tensor) and out.shape == probe.shape and out.dtype.is_complex is False:
            found.append(op.name)
    return sorted(found)


UNARY, BINARY, TERNARY = (_of_table(n, "float32") for n in (1, 2, 3))
WHOLE = _of_table(2, "int64")
# into the domain that most functions have in common, and past one
DOMAINS = {
    "": lambda x: x,
    "inside": lambda x: jtorch.tanh(x) * 0.3 + 0.5,
    "above": lambda x: jtorch.sigmoid(x) * 0.5 + 1.2,
}
SMOOTH = frozenset(
    [
        "neg",
        "tanh",
        "sigmoid",
        "sin",
        "cos",
        "erf",
        "relu",
        "abs",
        "silu",
        "mish",
        "softsign",
        "logsigmoid",
        "selu",
        "atan",
        "asinh",
        "hardsigmoid",
        "hardswish",
        "sinc",
        "square",
    ]
)


def unary(w: Writer) -> bool:
    name = w.rng.choice(UNARY)
    function = APPLY[name]
    if name in JUMPING:
        return w.add(name, function, [w.pick(w.floats(exact=True))], exact=name in EXACT)
    domain = "" if name in SMOOTH or name in EXACT else w.rng.choice(["inside", "above"])
    moved = DOMAINS[domain]
    return w.add(f"{name} {domain}".strip(), lambda x: function(moved(x)), [w.any_float()], name in EXACT)


def binary(w: Writer) -> bool:
    name = w.rng.choice([*BINARY, "add", "sub", "mul", "mul", "div", "add", "sub"])
    function = APPLY[name]
    x = w.pick(w.floats(exact=name in JUMPING))
    if x is None:
        return False
    shape = w.values[x].shape
    y = w.pick(w.floats(lambda t: _broadcasts(t.shape, shape), name in JUMPING))
    if name in EXACT:
        return w.add(name, function, [x, y], exact=True)
    inside, above = DOMAINS["inside"], DOMAINS["above"]
    return w.add(name, lambda a, b: function(inside(a), above(b)), [x, y])


def ternary(w: Writer) -> bool:
    x = w.any_float()
    if x is None:
        return False
    fits = w.floats(lambda t: _broadcasts(t.shape, w.values[x].shape))
    y = w.pick(fits)
    kind = w.rng.randrange(3)
    if kind == 0:
        c = w.pick(w.tensors(lambda t: t.dtype == jtorch.bool and _broadcasts(t.shape, w.values[x].shape)))
        return w.add("where", jtorch.where, [c, x, y], exact=True)
    if kind == 1:
        inputs = [x, y, w.pick(fits)]
        return w.add("addcmul", lambda a, b, c: jtorch.addcmul(a, b, c, value=0.5), inputs, True)
    name = w.rng.choice(TERNARY)
    inside = DOMAINS["inside"]
    return w.add(name, lambda a, b: APPLY[name](inside(a), inside(b), 1.0 + inside(a)), [x, y])


def whole_numbers(w: Writer) -> bool:
    """Integers and truth values."""
    kind = w.rng.randrange(3)
    if kind == 0:
        x = w.pick(w.tensors(lambda t: t.dtype in (jtorch.int64, jtorch.int32, jtorch.bool)))
        if x is None:
            return False
        other = w.pick(w.tensors(lambda t: t.dtype == w.values[x].dtype and t.shape == w.values[x].shape))
        name = w.rng.choice([n for n in WHOLE if w.values[x].dtype != jtorch.bool or n not in NOT_OF_BOOL])
        return w.add(name, APPLY[name], [x, other], exact=name in EXACT or "bitwise" in name)
    x = w.pick(w.floats(exact=True))
    if kind == 1:
        return w.add("gt[0]", lambda t: t > 0.0, [x], True)
    return w.add("long", lambda t: (t * 2.0).long(), [x], True)


CASTS = ("float32", "float64", "float32", "float64", "int64", "int32", "int8", "bool")


def cast(w: Writer) -> bool:
    to = w.rng.choice(CASTS)
    exact = not to.startswith("float")
    dtype = getattr(jtorch, to)
    return w.add(f"to[{to}]", lambda t: t.to(dtype), [w.pick(w.tensors(exact=exact))], True)


def number(w: Writer) -> bool:
    """Arithmetic with an argument that is a Python number."""
    forms: list[tuple[str, Any]] = [
        ("x * s", lambda x, s: x * s),
        ("x + s", lambda x, s: x + s),
        ("s - x", lambda x, s: s - x),
        ("s / x", lambda x, s: s / (x * x + 1.0)),
        ("add alpha", lambda x, s: jtorch.add(x, x, alpha=s)),
        ("clamp", lambda x, s: x.clamp(min=-s * s, max=s * s + 1.0)),
        ("lerp", lambda x, s: jtorch.lerp(x, jtorch.tanh(x), s)),
        ("where", lambda x, s: jtorch.where(x == x, x, s)),
        ("full", lambda x, s: x + jtorch.full((x.shape[-1] if x.ndim else 1,), s, dtype=x.dtype)),
        ("s * s + 1", lambda x, s: x * (s * s + 1.0)),
    ]
    text, function = w.rng.choice(forms)
    return w.add(text, function, [w.any_float(), w.pick(w.numbers())], text in ("x + s", "s - x", "x * s"))


def _axes(w: Writer, t: Tensor) -> tuple[int, ...]:
    return tuple(w.rng.sample(range(t.ndim), w.rng.randint(1, t.ndim)))


REDUCTIONS: dict[str, Any] = {
    "sum": lambda x, a, k: x.sum(a, k),
    "mean": lambda x, a, k: x.mean(a, k),
    "amax": lambda x, a, k: x.amax(a, k),
    "amin": lambda x, a, k: x.amin(a, k),
    "var": lambda x, a, k: x.var(a, keepdim=k, correction=0),
    "std": lambda x, a, k: (x * 1.0).var(a, keepdim=k, correction=0).add(0.5).sqrt(),
    "logsumexp": lambda x, a, k: jtorch.logsumexp(x, a, k),
    "norm": lambda x, a, k: (x * x + 0.1).sum(a, k).sqrt(),
    "prod": lambda x, a, k: jtorch.prod(x, a[0], k),
    "argmax": lambda x, a, k: x.argmax(a[0], k),
    "argmin": lambda x, a, k: x.argmin(a[0], k),
    "max": lambda x, a, k: x.max(a[0], k)[0],
    "any": lambda x, a, k: (x > 0.0).any(a[0], k),
    "all": lambda x, a, k: (x > 0.0).all(a[0], k),
    "cumsum": lambda x, a, k: jtorch.cumsum(x, a[0]),
    "softmax": lambda x, a, k: jtorch.softmax(x, a[0]),
    "log_softmax": lambda x, a, k: jtorch.log_softmax(x, a[0]),
    "normalize": lambda x, a, k: F.normalize(x + 0.5, dim=a[0]),
    "total": lambda x, a, k: x.sum(),
    "sort": lambda x, a, k: x.sort(a[0])[0],
}
PICKING = frozenset(["amax", "amin", "argmax", "argmin", "max", "any", "all", "sort"])


def reduction(w: Writer) -> bool:
    name = w.rng.choice(sorted(REDUCTIONS))
    x = w.pick(w.floats(lambda t: t.ndim > 0 and t.numel() > 0, exact=name in PICKING))
    if x is None:
        return False
    axes, keep = _axes(w, w.values[x]), w.rng.random() < 0.5
    if w.rng.random() < 0.3:
        axes = tuple(a - w.values[x].ndim for a in axes)
    function = REDUCTIONS[name]
    exact = name in PICKING or name in ("sum", "total", "cumsum")
    return w.add(f"{name}[{list(axes)}, {keep}]", lambda t: function(t, axes, keep), [x], exact)


def product(w: Writer) -> bool:
    x = w.pick(w.floats(lambda t: t.ndim > 1))
    if x is None:
        return False
    t = w.values[x]
    fits = w.floats(lambda u: u.ndim == 2 and u.shape[0] == t.shape[-1] and u.dtype == t.dtype)
    vectors = w.floats(lambda u: u.shape == t.shape[-1:] and u.dtype == t.dtype)
    transposed = w.floats(lambda u: u.ndim == 2 and u.shape[1] == t.shape[-1] and u.dtype == t.dtype)
    gram = ("gram", lambda a: a @ a.transpose(-1, -2), [x])
    forms: list[tuple[str, Any, list]] = [
        gram,
        ("transposed gram", lambda a: a.transpose(-1, -2) @ a, [x]),
        ("matmul", lambda a, b: a @ b, [x, w.pick(fits)]),
        ("matmul vector", lambda a, b: a @ b, [x, w.pick(vectors)]),
        ("linear", lambda a, b: F.linear(a, b), [x, w.pick(transposed)]),
        ("linear tanh", lambda a, b: jtorch.tanh(F.linear(a, b, b.sum(1))), [x, w.pick(transposed)]),
        ("addmm", lambda a, b: jtorch.addmm(b.sum(0), a, b, beta=0.5, alpha=2.0), [x, w.pick(fits)]),
        ("einsum", lambda a, b: jtorch.einsum("...i,ij->j...", a, b), [x, w.pick(fits)]),
        ("outer", lambda a: jtorch.outer(a.reshape(-1)[:4], a.reshape(-1)[1:4]), [x]),
    ]
    text, function, inputs = w.rng.choice(forms)
    if any(k is None for k in inputs):
        text, function, inputs = gram
    return w.add(text, function, inputs, text != "linear tanh")


def layer(w: Writer) -> bool:
    """Norms, losses, windows: what networks are made of."""
    x = w.pick(w.floats(lambda t: t.ndim > 1 and t.numel() > 0 and t.shape[-1] > 1))
    if x is None:
        return False
    t = w.values[x]
    last, n = t.shape[-1], t.shape[0]
    weights = w.pick(w.floats(lambda u: u.shape == (last,) and u.dtype == t.dtype))
    forms: list[tuple[str, Any, list]] = [
        ("layer_norm", lambda a: F.layer_norm(a, (last,), eps=0.1), [x]),
        ("layer_norm weighted", lambda a, b: F.layer_norm(a, (last,), b, b, eps=0.1), [x, weights]),
        ("rms_norm", lambda a: F.rms_norm(a, (last,), eps=0.1), [x]),
        ("batch_norm", lambda a: F.batch_norm(a, None, None, training=True, eps=0.1), [x]),
        ("cross_entropy", lambda a: F.cross_entropy(a, jtorch.arange(n) % a.shape[1]), [x]),
        ("mse_loss", lambda a: F.mse_loss(a, jtorch.zeros_like(a)), [x]),
        ("smooth_l1", lambda a: F.smooth_l1_loss(a, a * 0.0 + 0.5), [x]),
        ("gelu", lambda a: F.gelu(a), [x]),
        ("glu", lambda a: F.glu(a[..., : last // 2 * 2]), [x]),
        ("max_pool", lambda a: F.max_pool1d(a.reshape(1, -1, last), 2, 1), [x]),
        ("avg_pool", lambda a: F.avg_pool1d(a.reshape(1, -1, last), 2, 1, padding=1), [x]),
        ("conv", lambda a: F.conv1d(a.reshape(-1, 1, last), a.reshape(-1)[:2].reshape(1, 1, 2)), [x]),
        ("conv padded", lambda a: F.conv1d(a.reshape(-1, 1, last), _window(a), padding=1), [x]),
        ("attention", lambda a: F.scaled_dot_product_attention(a, a * 0.5, a), [x]),
        ("gru", lambda a: _gru(a.reshape(-1, last)), [x]),
    ]  # fmt: skip
    text, function, inputs = w.rng.choice(forms)
    if text == "max_pool" and not w.exact[x]:
        return False
    return w.add(text, function, inputs, exact=text == "max_pool")


def _window(t: Tensor) -> Tensor:
    return t.reshape(1, 1, -1)[..., :3]


def _gru(x: Tensor) -> Tensor:
    """Two steps of a gated unit whose weights are made of the input."""
    weight = (x.t() @ x) * 0.05
    h = jtorch.zeros_like(x)
    for step in (x, x.flip(0)):
        r = jtorch.sigmoid(step @ weight + h)
        z = jtorch.sigmoid(step - h @ weight)
        h = (1.0 - z) * jtorch.tanh(step + r * (h @ weight)) + z * h
    return h


def chance(w: Writer) -> bool:
    """Random draws."""
    x = w.any_float()
    if x is None:
        return False
    forms: list[tuple[str, Any]] = [
        ("dropout", lambda t: F.dropout(t, 0.4)),
        ("rand", lambda t: t + jtorch.rand(t.shape, dtype=t.dtype)),
        ("randn", lambda t: t * jtorch.randn_like(t)),
        ("bernoulli", lambda t: t * jtorch.bernoulli(jtorch.full(tuple(t.shape), 0.5, dtype=t.dtype))),
        ("randint", lambda t: t + jtorch.randint(0, 5, tuple(t.shape)).to(t.dtype)),
    ]
    text, function = w.rng.choice(forms)
    return w.add(text, function, [x], text in ("bernoulli", "randint"))


def branch(w: Writer) -> bool:
    """``if`` on the elements of a tensor."""
    c = w.pick(w.floats(lambda t: t.numel() > 0, exact=True))
    x = w.any_float()

    def function(condition: Tensor, t: Tensor) -> Tensor:
        if condition.sum() > 0:
            return t * 2.0
        return t - 1.0

    return w.add("branch", function, [c, x], True)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        return False
    return True
