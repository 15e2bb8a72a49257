"""Statements that work element by element: functions, numbers, dtypes, masks."""

from __future__ import annotations

from tests.fuzz.programs import Writer, broadcast, together

_UNARY = (
    "T.tanh({x})",
    "T.sigmoid({x})",
    "F.relu({x})",
    "F.gelu({x})",
    "F.silu({x})",
    "T.sin({x})",
    "{x}.cos()",
    "{x}.abs()",
    "({x} * 0.25).exp()",
    "F.softplus({x})",
    "({x}.abs() + 1).sqrt()",
    "T.log1p({x}.abs())",
    "{x}.square()",
    "-{x}",
    "T.rsqrt({x} * {x} + 1)",
    "T.erf({x})",
    "F.leaky_relu({x})",
    "F.elu({x})",
    "{x}.clone()",
    "{x}.contiguous()",
    "{x}.detach()",
    "F.hardtanh({x})",
    "T.sign({x})",
    "{x}.clamp(min=-1, max=1)",
    "F.logsigmoid({x})",
    "{x}.atan()",
    "1 / ({x} * {x} + 1)",
    "T.nan_to_num({x})",
    "{x}.expm1().tanh()",
    "F.softsign({x})",
    "F.mish({x})",
    "F.hardswish({x})",
    "{x}.sinh().clamp(-9, 9)",
    "T.zeros_like({x}) + {x}",
)
_BINARY = (
    "{a} + {b}",
    "{a} - {b}",
    "{a} * {b}",
    "{a} / ({b} * {b} + 1)",
    "T.maximum({a}, {b})",
    "T.minimum({a}, {b})",
    "T.where({a} > {b}, {a}, {b})",
    "T.hypot({a}, {b})",
    "T.atan2({a}, {b} * {b} + 1)",
    "T.lerp({a}, {b}, 0.25)",
    "T.add({a}, {b}, alpha=2)",
    "({a}.abs() + 0.5) ** {b}",
    "T.sub({a}, {b}, alpha=0.5)",
    "T.logaddexp({a}, {b})",
    "F.mse_loss({a}.expand_as({a} + {b}), {b}.expand_as({a} + {b}), reduction='none')",
    "T.addcmul({a}, {a}, {b}, value=0.5)",
)


def unary(w: Writer) -> None:
    if x := w.a_float():
        text = w.one(_UNARY)
        w.let(text.format(x=x.name), x.dtype, x.shape, x.grad and "detach" not in text, "contig" not in text)


def binary(w: Writer) -> None:
    a = w.a_float()
    b = w.pick(lambda v: a is not None and broadcast(v.shape, a.shape) is not None)
    if a is None or b is None or b.dtype == "BOOL":
        return
    texts = _BINARY if b.dtype == a.dtype else _BINARY[:3]
    a, b = (b, a) if w.chance(0.5) and b.is_float else (a, b)
    text = w.one(texts).format(a=a.name, b=b.name)
    w.let(text, together(a, b), broadcast(a.shape, b.shape) or (), a.grad or b.grad)


def number(w: Writer) -> None:
    """A Python number beside a tensor, on either side."""
    x = w.pick(lambda v: v.dtype != "BOOL")
    if x is None:
        return
    real = w.chance(0.7)
    s = w.real() if real else w.whole()
    texts = ["{x} * {s}", "{s} * {x}", "{x} + {s}", "{s} - {x}", "{x} - {s}"]
    if x.is_float:
        texts += [
            "{x} / {s}",
            "{s} / ({x} * {x} + 1)",
            "({x}.abs() + 1) ** {s}",
            "(abs({s}) + 0.5) ** {x}",
            "{x} ** 2",
            "{x}.clamp(max={s})",
            "{x}.clamp_min({s})",
            "T.where({x} > {s}, {x}, {s})",
            "T.add({x}, {x}, alpha={s})",
            "F.leaky_relu({x}, {s})",
            "T.lerp({x}, {x} * 2, {s})",
            "{x}.masked_fill({x} > 0, {s})",
            "T.full_like({x}, {s}) * {x}",
            "F.softplus({x}, beta=abs({s}) + 1)",
            "{x} * T.tensor({s})",
        ]
    elif real:
        texts = texts[:2]
    dtype = x.dtype if x.is_float or not real else "F32"
    w.let(w.one(texts).format(x=x.name, s=s), dtype, x.shape, x.grad)


def cast(w: Writer) -> None:
    if x := w.pick():
        to = w.one((*w.floats, "F32", "F64", *(() if x.is_float else ("I64",))))
        text = w.one(("{x}.to({to})", "{x}.to(dtype={to})", "{x}.type({to})")).format(x=x.name, to=to)
        w.let(text, to, x.shape, x.grad, fresh=to != x.dtype)


def mask(w: Writer) -> None:
    if x := w.a_float():
        texts = [
            "{x} > 0",
            "{x} <= 0.5",
            "({x} > 0) & ({x} < 1)",
            "~({x} > 0.25)",
            "{x} != 0",
            "({x} > 0) | ({x} < -1)",
        ]
        if w.reals:
            texts += [f"{{x}} > {w.real()}", f"{w.real()} >= {{x}}"]
        w.let(w.one(texts).format(x=x.name), "BOOL", x.shape, False)


def masked(w: Writer) -> None:
    m = w.pick(lambda v: v.dtype == "BOOL")
    x = w.a_float(lambda v: m is not None and v.shape == m.shape)
    if m is None or x is None:
        return
    y = w.a_float(lambda v: v.shape == x.shape and v.dtype == x.dtype) or x
    texts = [
        f"T.where({m.name}, {x.name}, {w.real()})",
        f"{x.name}.masked_fill({m.name}, {w.real()})",
        f"{x.name} * {m.name}",
        f"T.where({m.name}, {x.name}, {y.name})",
        f"{x.name} * {m.name}.to({x.dtype})",
        f"T.where(~{m.name}, {w.real()}, {x.name})",
    ]
    if w.chance(0.25):
        w.let(f"{x.name}[{m.name}].sum()", x.dtype, (), x.grad)
        return
    w.let(w.one(texts), x.dtype, x.shape, x.grad)
