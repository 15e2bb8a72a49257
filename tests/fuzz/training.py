"""Statements of training: modules, scopes, state, gradients, optimizers."""

from __future__ import annotations

from tests.fuzz.programs import Value, Writer

_LAYERS = (
    ("nn.Linear({n}, 3)", 3),
    ("nn.Linear({n}, {n}, bias=False)", None),
    ("nn.LayerNorm({n})", None),
    ("nn.Sequential(nn.Linear({n}, 4), nn.Tanh(), nn.Linear(4, {n}))", None),
    ("nn.BatchNorm1d({n})", None),
    ("nn.Dropout(0.5)", None),
    ("nn.GRUCell({n}, 3)", 3),
    ("nn.RNNCell({n}, {n})", None),
    ("nn.LSTMCell({n}, 3)", 3),
    ("nn.PReLU()", None),
    ("nn.Sequential(nn.Linear({n}, 3), nn.ReLU(), nn.LayerNorm(3))", 3),
    ("nn.RMSNorm({n})", None),
)


def module(w: Writer) -> None:
    x = w.a_float(
        lambda v: len(v.shape) == 2 and v.shape[0] > 1 and v.shape[1] > 0 and v.dtype in ("F32", "F64")
    )
    if x is None:
        return
    text, out = w.one(_LAYERS)
    n = x.shape[1]
    m = w.fresh_name(
        "m", f"filled({w.number(0, 999)}, {text.format(n=n)})" + (".double()" if x.dtype == "F64" else "")
    )
    w.modules.append(m)
    if "Dropout" not in text:
        w.parameters.append(f"*{m}.parameters()")
    w.let(f"{m}({x.name})" + ("[0]" if "LSTM" in text else ""), x.dtype, (x.shape[0], out or n), True)


def embedding(w: Writer) -> None:
    i = w.pick(lambda v: v.dtype == "I64" and len(v.shape) in (1, 2))
    if i is None:
        return
    m = w.fresh_name("m", f"filled({w.number(0, 999)}, nn.Embedding(8, 3{w.one(('', ', padding_idx=0'))}))")
    w.modules.append(m)
    w.parameters.append(f"*{m}.parameters()")
    w.let(f"{m}({i.name} % 8)", "F32", (*i.shape, 3), True)


def convolution(w: Writer) -> None:
    x = w.a_float(lambda v: len(v.shape) == 3 and v.dtype == "F32" and 0 not in v.shape)
    if x is None:
        return
    b, c, n = x.shape
    m = w.fresh_name("m", f"filled({w.number(0, 999)}, nn.Conv1d({c}, 2, 3, padding=1))")
    w.modules.append(m)
    w.parameters.append(f"*{m}.parameters()")
    w.let(f"{m}({x.name})", "F32", (b, 2, n), True)


def loss(w: Writer) -> None:
    x = w.a_float(lambda v: len(v.shape) == 2 and 0 not in v.shape)
    if x is None:
        return
    b, c = x.shape
    i = w.fresh_name("i", f"ints({w.number(0, 999)}, {c}, ({b},))")
    y = w.a_float(lambda v: v.shape == x.shape and v.dtype == x.dtype) or x
    texts = [
        f"F.cross_entropy({x.name}, {i})",
        f"F.nll_loss(F.log_softmax({x.name}, 1), {i})",
        f"F.mse_loss({x.name}, {y.name}.detach())",
        f"F.smooth_l1_loss({x.name}, {y.name})",
        f"F.binary_cross_entropy_with_logits({x.name}, ({y.name} > 0).to({x.dtype}))",
        f"F.huber_loss({x.name}, {y.name}.detach(), delta=abs({w.real()}) + 0.1)",
        f"F.cross_entropy({x.name}, {i}, label_smoothing=0.1)",
        f"F.kl_div(F.log_softmax({x.name}, 1), F.softmax({y.name}.detach(), 1), reduction='batchmean')",
    ]
    w.let(w.one(texts), x.dtype, (), x.grad or y.grad)


def scope(w: Writer) -> None:
    """Something of another mode, or a function of functions."""
    x = w.a_float(lambda v: 0 not in v.shape)
    if x is None:
        return
    n, s = x.name, w.real()
    texts = [
        (f"checkpoint(lambda x: (x * {s}).tanh() * x, {n}, use_reentrant=False)", x.shape),
        (f"checkpoint(lambda x, y: T.sin(x) * y, {n}, {n} * 2, use_reentrant=False)", x.shape),
        (f"Scaled.apply({n}, {s})", x.shape),
        (f"Scaled.apply(Scaled.apply({n}, 0.5), {s})", x.shape),
        (f"T.func.grad(lambda x: (x ** 3 * {s}).sum())({n})", x.shape),
        (f"T.func.grad(T.func.grad(lambda x: (x.sin() * {s}).sum()))({n}.sum())", ()),
        (f"T.func.vjp(lambda x: x.exp() / (1 + x.exp()) * {s}, {n})[1](T.ones_like({n}))[0]", x.shape),
    ]
    if x.shape:
        texts += [  # of a tensor without dimensions PyTorch's jvp is float64 as soon as there is a number
            (f"T.func.jvp(lambda x: x * x * {s}, ({n},), (T.ones_like({n}),))[1]", x.shape),
            (f"T.func.vmap(lambda r: (r * {s}).sin().sum())({n})", x.shape[:1]),
            (f"T.func.vmap(lambda r: r - r.max())({n})", x.shape),
            (f"T.func.vmap(lambda a, b: a * b + {s}, in_dims=(0, 0))({n}, {n}.detach())", x.shape),
            (f"T.func.vmap(T.func.grad(lambda r: (r * r).sum() * {s}))({n})", x.shape),
        ]
    text, shape = w.one(texts)
    w.let(text, x.dtype, shape, x.grad)


_BLOCKS = (
    "with T.no_grad():\n    {name} = {n} * {s}",
    "with T.enable_grad():\n    {name} = {n}.tanh()",
    "if {s} > 0.3:\n    {name} = {n} * 2\nelse:\n    {name} = {n} - 1",
    "if ({n}.detach() > 0).any():\n    {name} = {n} + 1\nelse:\n    {name} = {n} * 3",
    "{name} = {n}\nfor k in range({k}):\n    {name} = {name} * 0.5 + k",
    "{name} = {n}\nfor r in ({s}, 2):\n    {name} = r * {name}",
    "{name} = sum([{n} * k for k in (1, 2)], {n})",
    "{name} = {n} * {n}.detach().abs().sum().item()",
    "{name} = {n} * 2\nif {name}.dim() > 0:\n    {name}[-1:] = {n}.detach().mean().item()",
    "if {n}.requires_grad:\n    {name} = {n} * 2\nelse:\n    {name} = {n} * 3",
    "if T.is_grad_enabled() and {n}.is_floating_point():\n    {name} = -{n}\nelse:\n    {name} = {n}",
)


def guarded(w: Writer) -> None:
    """A block: no_grad, a condition on a number or a tensor, a loop."""
    x = w.a_float()
    if x is None:
        return
    name = w.name()
    n, s = x.name, w.real()
    blocks = [text.format(name=name, n=n, s=s, k=w.whole()) for text in _BLOCKS]
    k = w.number(0, len(blocks))
    w.say(blocks[k])
    w.values.append(Value(name, x.dtype, x.shape, x.grad and k != 0, False))


def state(w: Writer) -> None:
    """Something that outlives the call is read or changed."""
    x = w.a_float(lambda v: 0 not in v.shape)
    if x is None:
        return
    which = w.number(0, 8)
    if which == 0:
        w.say(
            w.one(
                (
                    "st.n += 1",
                    "st.s *= 0.5",
                    "st.s = st.s + 0.25",
                    "st.seen.append(st.n)",
                    "st.flag = not st.flag",
                )
            )
        )
    elif which == 1:
        texts = (
            "st.log.append({x}.detach().sum().item())",
            "st.last = {x}.detach()",
            "st.best = max(st.best, {x}.detach().amax().item())",
        )
        w.say(w.one(texts).format(x=x.name))
    elif which == 2:
        name = w.name()
        w.say(f"{name} = {x.name} * st.n if st.flag else {x.name} * st.s")
        w.values.append(Value(name, x.dtype, x.shape, x.grad))
    elif which < 6:
        buffer = w.fresh_name("b", f"data({w.number(0, 999)}, {x.shape}, {x.dtype})")
        texts = (
            "{b}.mul_(0.9).add_({x}.detach() * 0.1)",
            "{b}.copy_({x}.detach())",
            "{b}.add_({x}.detach())",
            "{b}.lerp_({x}.detach(), 0.5)",
            "{b}.add_({x}.detach(), alpha={s})",
            "{b}.view(-1)[0] = {s}",
            "{b}.view(-1)[0] = {x}.detach().sum().item()",
            "{b}.view(-1)[:2].fill_({x}.detach().amax().item())",
            "{b}.clamp_({x}.detach() - 1, {x}.detach() + 1)",
        )
        w.values.append(Value(buffer, x.dtype, x.shape, False))
        early = w.let(f"{buffer} * {x.name}", x.dtype, x.shape, x.grad) if w.chance(0.3) else None
        w.say(w.one(texts).format(b=buffer, x=x.name, s=w.real()))
        if early is None or w.chance(0.5):
            w.let(f"{buffer} - {x.name}", x.dtype, x.shape, x.grad)
    else:
        p = w.fresh_name("p", f"nn.Parameter(data({w.number(0, 999)}, {x.shape}, {x.dtype}))")
        w.parameters.append(p)
        w.values.append(Value(p, x.dtype, x.shape, True, fresh=False))


def gradient(w: Writer) -> None:
    """autograd.grad in the middle, or a backward of a part."""
    x = w.a_float(lambda v: v.grad and v.shape != ())
    y = w.a_float(lambda v: v.grad)
    if x is None or y is None:
        return
    text = w.one(
        (
            "T.autograd.grad(({y} * {y}).sum() + {x}.sum(), {x}, create_graph=True)[0]",
            "T.autograd.grad(({x} ** 3 * {s}).sum(), {x}, create_graph=True)[0]",
            "T.autograd.grad(({x} * {x}).mean(), {x}, retain_graph=True)[0]",
        )
    ).format(x=x.name, y=y.name, s=w.real())
    w.let(text, x.dtype, x.shape, "create" in text)


_OPTIMIZERS = (
    "optim.SGD({p}, lr=0.1)",
    "optim.SGD({p}, lr=0.05, momentum=0.9)",
    "optim.SGD({p}, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)",
    "optim.Adam({p}, lr=0.01)",
    "optim.AdamW({p}, lr=0.01, weight_decay=0.1)",
    "optim.RMSprop({p}, lr=0.01)",
    "optim.Adam({p}, lr=0.01, amsgrad=True)",
    "optim.Adagrad({p}, lr=0.05)",
    "optim.RMSprop({p}, lr=0.01, momentum=0.5, centered=True)",
)


def trained(w: Writer) -> str | None:
    """The end of a step: backward, clipping, an optimizer; its name."""
    live = [v.name for v in w.values if v.grad and v.is_float][-3:]
    if not live:
        return None
    opt = None
    parameters = f"[{', '.join(w.parameters)}]"
    if w.parameters and w.chance(0.8):
        opt = w.fresh_name("opt", w.one(_OPTIMIZERS).format(p=parameters))
        w.say(f"{opt}.zero_grad({w.one(('', '', 'set_to_none=False'))})")
    name = w.name("loss")
    w.say(f"{name} = total({', '.join(live)})")
    w.say(f"{name}.backward()")
    if opt and w.chance(0.3):
        clip = w.one(("nn.utils.clip_grad_norm_({p}, 0.5)", "nn.utils.clip_grad_value_({p}, 0.1)"))
        # of no gradient at all PyTorch's clip_grad_value_ raises an error of its own making
        known = " or ".join(f"{name}.grad is not None" for name in w.parameters)
        w.say(f"if {known}: {clip.format(p=parameters)}")
    if opt:
        w.say(f"{opt}.step()")
    w.values.append(Value(f"{name}.detach()", "F64", (), False))
    return opt
