"""Instructions of random programs that move elements: views, writes through them, indexing, joining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jtorch
from jtorch.eager.tensor import Tensor
from tests.compile.programs_core import Writer

ViewOf = tuple[str, Callable[[Tensor], Tensor]]


def draw_view(w: Writer, t: Tensor, writable: bool = False) -> ViewOf | None:
    """A view of ``t``, and how it prints; ``writable`` ones have no element twice."""
    rng, shape, n = w.rng, tuple(t.shape), t.ndim
    kinds = ["permute", "flatten", "unsqueeze", "squeeze", "slice", "select", "narrow", "diagonal", "chunk"]
    if not writable:
        kinds += ["flip", "expand", "roll", "tril", "unfold", "repeat", "movedim"]
    kind = rng.choice(kinds)
    if kind == "permute":
        axes = tuple(rng.sample(range(n), n))
        return f"permute{list(axes)}", lambda x: x.permute(axes)
    if kind == "flatten":
        return ("flatten", lambda x: x.reshape(-1)) if not writable else ("view", lambda x: x.view(-1))
    if kind == "unsqueeze":
        axis = rng.randint(-n - 1, n)
        return f"unsqueeze[{axis}]", lambda x: x.unsqueeze(axis)
    if kind == "squeeze":
        return "squeeze", lambda x: x.squeeze()
    if kind == "expand":
        return "expand", lambda x: x.expand(2, *x.shape)
    if not n or 0 in shape:
        return None
    axis = rng.randrange(n)
    size = shape[axis]
    if kind in ("flip", "roll", "tril", "repeat", "movedim", "diagonal"):
        return _simple(kind, axis, n)
    if kind == "select":
        place = rng.randrange(-size, size)
        return f"select[{axis}, {place}]", lambda x: x.select(axis, place)
    if kind == "narrow":
        start = rng.randrange(size)
        length = rng.randint(1, size - start)
        return f"narrow[{axis}, {start}, {length}]", lambda x: x.narrow(axis, start, length)
    if kind == "unfold":
        length, step = rng.randint(1, size), rng.randint(1, 2)
        return f"unfold[{axis}, {length}, {step}]", lambda x: x.unfold(axis, length, step)
    if kind == "chunk":
        return f"chunk[{axis}]", lambda x: x.chunk(2, axis)[-1]
    start, step = rng.randrange(size), rng.randint(1, 2)
    key = (slice(None),) * axis + (slice(start, None, step),)
    return f"slice[{axis}, {start}, {step}]", lambda x: x[key]


def _simple(kind: str, axis: int, n: int) -> ViewOf | None:
    if kind == "flip":
        return f"flip[{axis}]", lambda x: x.flip(axis)
    if kind == "roll":
        return f"roll[{axis}]", lambda x: x.roll(1, axis)
    if kind == "repeat":
        return f"repeat[{axis}]", lambda x: x.repeat_interleave(2, axis)
    if n < 2:
        return None
    if kind == "tril":
        return "tril", lambda x: x.tril(-1) if axis else x.triu()
    if kind == "movedim":
        return f"movedim[{axis}]", lambda x: x.movedim(axis, -1)
    other = (axis + 1) % n
    return f"diagonal[{axis}, {other}]", lambda x: x.diagonal(0, axis, other)


def view(w: Writer) -> bool:
    x = w.pick(w.tensors())
    found = None if x is None else draw_view(w, w.values[x])
    return found is not None and w.add(*found, [x], exact=True)


CHANGES: dict[str, Any] = {
    "mul_": lambda t, s: t.mul_(2.0),
    "add_": lambda t, s: t.add_(s),
    "copy_": lambda t, s: t.copy_(s),
    "sub_": lambda t, s: t.sub_(s, alpha=0.5),
    "zero_": lambda t, s: t.zero_(),
    "clamp_": lambda t, s: t.clamp_(-1.0, 1.0),
    "neg_": lambda t, s: t.neg_(),
    "fill_": lambda t, s: t.fill_(1.5),
    "tanh_": lambda t, s: t.tanh_(),
}


def write(w: Writer) -> bool:
    """Change a value in place, or a copy of it, often through a view or two."""
    x = w.pick(w.floats(lambda t: t.numel() > 0))
    if x is None:
        return False
    fresh = not w.mutate or w.rng.random() < 0.4
    chain: list[ViewOf] = []
    target = w.values[x].detach()
    for _ in range(w.rng.randint(0, 2)):
        found = draw_view(w, target, writable=True)
        if found is None:
            continue
        try:
            target = found[1](target)
        except RuntimeError:
            return False
        chain.append(found)
    if target.numel() == 0:
        return False
    source = w.pick(w.floats(lambda t: _expands(t.shape, target.shape) and t.dtype == target.dtype))
    if source is None:
        return False
    name = w.rng.choice(sorted(CHANGES))
    change, steps = CHANGES[name], [f for _, f in chain]

    def function(value: Tensor, other: Tensor) -> Tensor:
        whole = value.clone() if fresh else value
        part = whole
        for step in steps:
            part = step(part)
        change(part, other)
        return whole

    text = ".".join(["clone"] * fresh + [t for t, _ in chain] + [name])
    before = w.values[x]._data.copy()
    if w.add(text, function, [x, source], exact=name != "tanh_"):
        if not fresh:
            w.changed(x, w.exact[-1])
        return True
    if not fresh and w.values[x]._data.flags.writeable:
        w.values[x]._data[...] = before  # it raised half-way, or its result was not taken
    return False


def _expands(shape: Any, to: Any) -> bool:
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(tuple(shape)), reversed(tuple(to)), strict=False))


def join(w: Writer) -> bool:
    x = w.pick(w.tensors())
    if x is None:
        return False
    t = w.values[x]
    shape = tuple(t.shape)
    if w.rng.random() < 0.3:
        axis = w.rng.randint(-t.ndim - 1, t.ndim)
        y = w.pick(w.tensors(lambda u: tuple(u.shape) == shape and u.dtype == t.dtype))
        return w.add(f"stack[{axis}]", lambda a, b: jtorch.stack((a, b, a), axis), [x, y], True)
    if not t.ndim:
        return False
    axis = w.rng.randrange(t.ndim)

    def fits(u: Tensor) -> bool:
        own = [n for k, n in enumerate(u.shape) if k != axis]
        return u.ndim == t.ndim and own == [n for k, n in enumerate(shape) if k != axis]

    return w.add(f"cat[{axis}]", lambda a, b: jtorch.cat((a, b), axis), [x, w.pick(w.tensors(fits))], True)


def gather(w: Writer) -> bool:
    """Reads and writes at computed places."""
    x = w.pick(w.floats(lambda t: t.ndim > 0 and t.numel() > 0))
    if x is None:
        return False
    t = w.values[x]
    axis = w.rng.randrange(t.ndim)
    size = t.shape[axis]
    ids = [w.rng.randrange(-size, size) for _ in range(w.rng.randint(1, 4))]
    places = [k % size for k in ids]
    lead = (slice(None),) * axis
    mask = w.pick(w.tensors(lambda u: u.dtype == jtorch.bool and u.shape == t.shape))
    forms: list[tuple[str, Callable[..., Any], list]] = [
        (f"index{ids}", lambda a: a[(*lead, jtorch.tensor(ids))], [x]),
        (f"index_select{places}", lambda a: a.index_select(axis, jtorch.tensor(places)), [x]),
        ("gather", lambda a: a.gather(axis, (jtorch.ones_like(a).cumsum(axis) * 3.0).long() % size), [x]),
        ("scatter_add", lambda a: jtorch.zeros_like(a).scatter_add(axis, _spread(a, size), a), [x]),
        (f"index_add{places}", lambda a: _index_add(a, axis, places), [x]),
        (f"put{ids}", lambda a: _put(a, (*lead, jtorch.tensor(ids))), [x]),
        ("put slice", lambda a: _put(a, (*lead, slice(0, None, 2))), [x]),
        ("masked_fill", lambda a, m: a.masked_fill(m, 0.5), [x, mask]),
        ("put masked", lambda a, m: _put(a, m), [x, mask]),
        ("pad", lambda a: jtorch.nn.functional.pad(a, (1, 2), value=0.25), [x]),
        ("pad zeros", _padded, [x]),
        ("take_along_dim", lambda a: jtorch.take_along_dim(a, a.argmax(axis, True), axis), [x]),
    ]
    text, function, inputs = w.rng.choice(forms)
    if text == "take_along_dim" and not w.exact[x]:
        return False
    return w.add(text, function, inputs, True)


def _spread(t: Tensor, size: int) -> Tensor:
    return (jtorch.arange(t.numel()).reshape(t.shape) * 7) % size


def _index_add(t: Tensor, axis: int, places: list[int]) -> Tensor:
    return t.clone().index_add(axis, jtorch.tensor(places), t.index_select(axis, jtorch.tensor(places)))


def _put(t: Tensor, key: Any) -> Tensor:
    out = t.clone()
    out[key] = 0.75
    return out + t


def _padded(t: Tensor) -> Tensor:
    zeros = jtorch.zeros((1, *t.shape[1:]), dtype=t.dtype)
    return jtorch.cat((zeros, t, zeros))
