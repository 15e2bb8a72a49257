"""Statements of whole arrays: views, indices, sums, products, writes."""

from __future__ import annotations

from tests.fuzz.programs import Value, Writer, broadcast, promoted


def view(w: Writer) -> None:
    x = w.pick(lambda v: len(v.shape) > 0)
    if x is None:
        return
    s, n = x.shape, x.name
    flat = 1
    for k in s:
        flat *= k
    made = [
        (f"{n}[0]", s[1:]),
        (f"{n}[-1]", s[1:]),
        (f"{n}[1:]", (max(s[0] - 1, 0), *s[1:])),
        (f"{n}[None]", (1, *s)),
        (f"{n}.reshape(-1)", (flat,)),
        (f"{n}.flatten()", (flat,)),
        (f"{n}.unsqueeze(-1)", (*s, 1)),
        (f"{n}[::2]", ((s[0] + 1) // 2, *s[1:])),
        (f"{n}[..., :1]", (*s[:-1], min(s[-1], 1))),
        (f"{n}.transpose(0, -1)", (s[-1], *s[1:-1], s[0]) if len(s) > 1 else s),
        (f"{n}.squeeze(0)", s[1:] if s[0] == 1 else s),
        (f"{n}.narrow(0, 0, 1)", (1, *s[1:])),
        (f"{n}.chunk(2)[0]", ((s[0] + 1) // 2, *s[1:])),
        (f"{n}.expand(2, *{n}.shape)", (2, *s)),
        (f"{n}.movedim(0, -1)", (*s[1:], s[0])),
        (f"{n}.mT", (*s[:-2], s[-1], s[-2])) if len(s) > 1 else (f"{n}.view({n}.shape)", s),
        (f"{n}.unfold(-1, 1, 1)[..., 0]", s),
        (f"{n}.unbind(0)[0]", s[1:]),
        (f"{n}.flip(0)", s),
        (f"{n}.roll(1, 0)", s),
        (f"{n}.view(-1)" if w.chance(0.3) else f"{n}.ravel()", (flat,)),
        (f"T.atleast_2d({n})", s if len(s) > 1 else (1, *s)),
    ]
    text, shape = w.one(made)
    if s[0] and len(shape) < 5:
        w.let(text, x.dtype, shape, x.grad, x.fresh and "expand" not in text)


def index(w: Writer) -> None:
    x = w.pick(lambda v: len(v.shape) > 0 and v.shape[0] > 0)
    if x is None:
        return
    n, s = x.name, x.shape
    k = w.number(1, 4)
    i = w.fresh_name("i", f"ints({w.number(0, 999)}, {s[0]}, ({k},))")
    made = [
        (f"{n}[{i}]", (k, *s[1:])),
        (f"{n}.index_select(0, {i})", (k, *s[1:])),
        (f"{n}[[0, -1]]", (2, *s[1:])),
        (f"T.cat([{n}, {n}[{i}]])", (s[0] + k, *s[1:])),
        (f"T.stack([{n}, {n} * 2], -1)", (*s, 2)),
        (f"{n}[{i}[0]]", s[1:]),
        (f"{n}[{i}.tolist()]" if w.chance(0.2) else f"{n}[{i}, ...]", (k, *s[1:])),
        (f"T.take_along_dim({n}, {n}.argsort(0), 0)", s),
        (f"{n}.sort(0)[0]", s),
        (f"{n}.sort(-1, descending=True).values", s),
        (f"{n}.topk(1, 0)[0]", (1, *s[1:])),
        (f"{n}.repeat_interleave(2, 0)", (2 * s[0], *s[1:])),
        (f"F.pad({n}, (1, 1))", (*s[:-1], s[-1] + 2)),
        (f"T.gather({n}, 0, {n}.argmax(0, keepdim=True))", (1, *s[1:])),
    ]
    if len(s) > 1:
        made += [(f"{n}[:, {i} % {s[1]}]" if s[1] else f"{n}[:, 0]", (s[0], k, *s[2:])), (f"T.tril({n})", s)]
        made += [(f"{n}[{i}, {i} % {max(s[1], 1)}]", (k, *s[2:]))]
    if len(s) == 2:
        made += [(f"{n}.tile(2, 1)", (2 * s[0], s[1]))]
    text, shape = w.one(made)
    if x.dtype == "BOOL" and any(k in text for k in ("arg", "sort", "topk", "* 2", "pad")):
        return
    w.let(text, x.dtype, shape, x.grad)


def reduction(w: Writer) -> None:
    if (x := w.a_float(lambda v: 0 not in v.shape)) is None:
        return
    n, s = x.name, x.shape
    whole = [
        "sum()",
        "mean()",
        "max()",
        "logsumexp(0)" if len(s) == 1 else "amin()",
        "norm()",
        "prod()",
        "var()",
    ]
    if len(s) == 0 or w.chance(0.2):
        text = w.one(whole[:5] if 1 in s or not s else whole)
        w.let(f"{n}.{text}", x.dtype, (), x.grad)
        return
    axis = w.number(0, len(s))
    rest = (*s[:axis], *s[axis + 1 :])
    kept = (*s[:axis], 1, *s[axis + 1 :])
    made = [
        (f"{n}.sum({axis})", rest),
        (f"{n}.mean({axis}, keepdim=True)", kept),
        (f"{n}.amax({axis})", rest),
        (f"{n}.max({axis})[0]", rest),
        (f"{n}.logsumexp({axis})", rest),
        (f"F.softmax({n}, {axis})", s),
        (f"F.log_softmax({n}, {axis})", s),
        (f"{n}.cumsum({axis})", s),
        (f"{n}.min({axis}, keepdim=True).values", kept),
        (f"{n}.norm(dim={axis})", rest),
        (f"{n}.prod({axis})", rest),
        (f"F.normalize({n}, dim={axis})", s),
        (f"{n}.median({axis}).values", rest),
        (f"T.var({n}, {axis}, correction=0)", rest),
        (f"{n}.sum({axis}, dtype=F64)", rest),
        (f"{n}.cumprod({axis})", s),
        (f"{n}.aminmax(dim={axis})[1]", rest),
        (f"F.layer_norm({n}, ({s[-1]},))", s),
    ]
    text, shape = w.one(made)
    w.let(text, "F64" if "dtype=F64" in text else x.dtype, shape, x.grad)


def product(w: Writer) -> None:
    x = w.a_float(lambda v: len(v.shape) == 2 and 0 not in v.shape)
    if x is None:
        return
    a, b = x.shape
    y = w.a_float(lambda v: len(v.shape) in (1, 2) and v.shape[0] == b and v.dtype == x.dtype)
    if y is None or w.chance(0.3):
        text = w.one(
            ("{x} @ {x}.T", "T.mm({x}, {x}.t())", "T.einsum('ij,kj->ik', {x}, {x})", "F.linear({x}, {x})")
        )
        w.let(text.format(x=x.name), x.dtype, (a, a), x.grad)
        return
    texts = ["{x} @ {y}", "T.matmul({x}, {y})", "T.einsum('ij,j...->i...', {x}, {y})"]
    if len(y.shape) == 2:
        texts += ["T.bmm({x}[None], {y}[None])[0]", "T.addmm(({x} @ {y}), {x}, {y}, beta=0.5, alpha=2)"]
    grad = x.grad or y.grad
    w.let(w.one(texts).format(x=x.name, y=y.name), promoted(x.dtype, y.dtype), (a, *y.shape[1:]), grad)


def writable(w: Writer) -> Value | None:
    """A value to change in place; often a copy made for it."""
    x = w.a_float(lambda v: 0 not in v.shape)
    if x is not None and (not x.fresh or w.chance(0.5)):
        return w.let(f"{x.name} * 1", x.dtype, x.shape, x.grad)
    return x


def write(w: Writer) -> None:
    if (x := writable(w)) is None:
        return
    y = w.a_float(lambda v: broadcast(v.shape, x.shape) == x.shape) or x
    n, o = x.name, y.name
    texts = [
        f"{n} += {w.real()}",
        f"{n}.mul_({w.real()})",
        f"{n}.add_({o})",
        f"{n}.mul_({o})",
        f"{n}.clamp_(-2, 2)",
        f"{n}.copy_({o})",
        f"{n}.zero_()",
        f"{n}.masked_fill_({n} > 0, {w.real()})",
        f"{n}.sub_({o}, alpha=0.5)",
        f"{n} *= {o}",
        f"{n}.tanh_()",
        f"{n}[{n} > 0.5] = {w.real()}",
        f"{n}[{n} < 0] *= {w.real()}",
        f"{n}.fill_({w.real()})",
        f"{n}.neg_()",
        f"{n}.relu_()",
    ]
    if x.shape:
        i = w.fresh_name("i", f"ints({w.number(0, 999)}, {x.shape[0]}, (2,))")
        texts += [
            f"{n}[0] = {w.real()}",
            f"{n}[0] = 0.0",
            f"{n}[{i}] = {w.real()}",
            f"{n}[1:] *= {w.real()}",
            f"{n}[-1].add_({w.real()})",
            f"{n}[..., 0] = {n}[..., -1]",
            f"{n}.index_add_(0, {i}, {n}[{i}].detach())",
            f"{n}[{i}] += 1",
            f"{n}[::2].neg_()",
            f"{n}.index_fill_(0, {i}, {w.real()})",
            f"{n}.index_copy_(0, {i}[:1], {n}[:1].detach() * 2)",
            f"{n}[[0]] = {n}[[-1]]",
            f"{n}.view(-1)[0] = {w.real()}",
            f"{n}.scatter_(0, {n}.argmax(0, keepdim=True), {w.one(('0.5', '-1.0'))})",
        ]
    w.say(w.one(texts))
    x.grad = x.grad or y.grad
