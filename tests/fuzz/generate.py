"""``program(seed)``: the random program of a number, the same on every machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.fuzz import arrays, elements, training
from tests.fuzz.programs import FLOATS, Program, Value, Writer

FAMILIES = (
    (elements.unary, 5),
    (elements.binary, 6),
    (elements.number, 6),
    (elements.cast, 2),
    (arrays.view, 5),
    (elements.mask, 2),
    (elements.masked, 2),
    (arrays.index, 3),
    (arrays.reduction, 4),
    (arrays.product, 2),
    (arrays.write, 4),
    (training.module, 3),
    (training.embedding, 1),
    (training.convolution, 1),
    (training.loss, 1),
    (training.scope, 2),
    (training.guarded, 2),
    (training.state, 3),
    (training.gradient, 1),
)
SHAPES = ((4, 3), (4, 3), (4, 3), (3,), (3, 1), (1, 3), (), (1,), (2, 4, 3), (3, 3), (5,), (2, 3))
_FLOATS = (("F32",), ("F32", "F64"), ("F32", "F64", "F16"), ("F32", "F16"), ("F32", "F64", "F16", "BF16"))
STATE = (
    "st = State()",
    "st.n, st.s, st.flag, st.best = 1, 0.5, True, 0.0",
    "st.seen, st.log, st.last = [], [], None",
)


def program(seed: int) -> Program:
    rng = np.random.Generator(np.random.Philox(seed))
    w = Writer(rng)
    w.floats = w.one(_FLOATS)
    w.setup += STATE
    arguments = _arguments(w)
    signature = ", ".join([*arguments, "s=0.5", "n=2"])
    w.reals += ["s", "st.s", "s"]
    w.wholes += ["n", "st.n"]
    families, weights = zip(*FAMILIES, strict=True)
    shares = np.array(weights) / sum(weights)
    goal = w.number(5, 41) if w.chance(0.3) else w.number(5, 16)
    while len(w.body) < goal:
        families[int(rng.choice(len(families), p=shares))](w)
    inside = w.chance(0.5)
    opt = training.trained(w) if inside else None
    w.say(f"return {', '.join(_results(w, inside))}")
    outside = 0.1 if inside else 0.6
    calls = tuple(_call(w, arguments, opt, k, outside) for k in range(w.number(2, 6)))
    return Program(seed, tuple(w.setup), signature, tuple(w.body), calls)


BREAKS = (
    "st.log.append(float({0}.detach().double().sum()))", "st.log.append({0}.detach().double().tolist())",
    "st.log.append(f'{{{0}.detach().double().sum().item():.2f}}')", "print(end='')",
    "st.seen.append({0}.detach().float().numpy().shape)", "st.log.append(next(iter([1, 2])))",
)  # fmt: skip
"""Lines that cannot be recorded, but for the last, of an argument."""


def with_break(p: Program) -> Program:
    """The program with such a line somewhere."""
    rng = np.random.Generator(np.random.Philox(p.seed + 1))
    line = BREAKS[int(rng.integers(len(BREAKS)))].format("a0")
    place = int(rng.integers(len(p.body)))
    return replace(p, body=(*p.body[:place], line, *p.body[place:]))


def _arguments(w: Writer) -> dict[str, str]:
    """The arguments' names, and the text that makes each but for its seed."""
    made = {}
    for k in range(w.number(1, 4)):
        dtype = w.one((*w.floats, "F32", *(("I64", "BOOL", "I32") if k else ())))
        shape, grad = w.one(SHAPES), w.chance(0.5) and dtype in FLOATS
        w.values.append(Value(f"a{k}", dtype, shape, grad, fresh=not grad))
        if dtype == "BOOL":
            made[f"a{k}"] = f"data({{seed}}, {shape}) > 0"
        elif dtype in ("I64", "I32"):
            made[f"a{k}"] = f"ints({{seed}}, 5, {shape}, {dtype})"
        else:
            made[f"a{k}"] = f"data({{seed}}, {shape}, {dtype}{', grad=True' if grad else ''})"
    return made


def _results(w: Writer, detached: bool) -> list[str]:
    """What is returned: the last values, views or arguments among them; after a backward mostly detached."""
    names = [f"{v.name}.detach()" if detached and v.grad and w.chance(0.9) else v.name for v in w.values]
    chosen = [names[-1], *(w.one(names) for _ in range(w.number(1, 3)))]
    return list(dict.fromkeys(chosen)) if len(set(chosen)) > 1 else [*set(chosen), f"{names[0]}"]


def _call(w: Writer, arguments: dict[str, str], opt: str | None, k: int, outside: float) -> tuple[str, ...]:
    """Fresh arguments, what happens before the call, the call, a backward outside."""
    lines = [f"{a} = {text.format(seed=w.number(0, 9999))}" for a, text in arguments.items()]
    if k and w.chance(0.5):
        lines += [event] if (event := _event(w, list(arguments), opt)) else []
    numbers = (
        ""
        if w.chance(0.3)
        else f", {w.one(('0.5', '-0.75', '2.0', '1.5', '0.25'))}, {w.one(('2', '2', '3'))}"
    )
    lines.append(f"out = step({', '.join(arguments)}{numbers})")
    if w.chance(outside):
        lines.append("total(*out).backward()")
    return (*lines, "show(out)")


def _event(w: Writer, arguments: list[str], opt: str | None) -> str:
    a0, *others = arguments
    options = ["st.s = 0.75", "st.n = 3", "st.flag = False"]
    options += [f"{a0}.requires_grad_(not {a0}.requires_grad)"]
    options += [f"{m}.eval()" for m in w.modules[:2]]
    options += [f"{m}.train(not {m}.training)" for m in w.modules[:1]]
    options += [f"{m}.requires_grad_(False)" for m in w.modules[:1]]
    if opt:
        rate = f"{opt}.param_groups[0]['lr']"
        options += [f"{rate} = 0.02", f"{opt}.zero_grad()", f"{rate} *= 0.5"]
    if others:
        options += [f"{others[0]} = {a0}", f"{others[0]} = {a0}.detach()[...]"]
    options += [f"{p}.grad = None" for p in w.parameters[:1] if "*" not in p]
    buffers = [line.split(" = ")[0] for line in w.setup if line.startswith("b")]
    options += [f"{b}.mul_(0.5)" for b in buffers[:2]]
    return w.one(options)
