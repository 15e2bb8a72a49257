"""Disabled functions get the very tensors that the user knows: parameters, arguments, others from outside."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError

disable = jtorch.compiler.disable


@dataclasses.dataclass
class Holder:
    held: list


KEPT: list = []
OUTSIDE = jtorch.zeros(2)
WEIGHT = jtorch.nn.Parameter(jtorch.ones(2))
WEIGHT.tag = 3.0


def _uses(p):
    p.uses = getattr(p, "uses", 0) + 1
    return float(p.uses)


FOLLOWED = {
    "what is known of a parameter": (
        lambda p: 1.0 * ({WEIGHT: 5.0}.get(p, -1.0) + isinstance(p, jtorch.nn.Parameter) + p.tag),
        lambda h, x: x * h(WEIGHT),
    ),
    "an argument is a tensor from outside": (lambda p: float(p is OUTSIDE), lambda h, x: x * h(x)),
    "one tensor twice": (lambda a, b: float(a is b), lambda h, x: x * h(y := x * 2, y) + h(x, x) + h(x, y)),
    "one that was changed before, twice": (
        lambda a, b: a.sum().item() + (a is b),
        lambda h, x: OUTSIDE.add_(x).sum() * h(OUTSIDE, OUTSIDE),
    ),
    "a tuple that it keeps": (lambda t: KEPT.append(t), lambda h, x: (h((1, "a")), x)[1]),
    "attributes of a parameter": (_uses, lambda h, x: x * h(WEIGHT)),
    "attributes of an argument": (_uses, lambda h, x: x * h(x)),
    "a tensor that it keeps": (lambda p: KEPT.append(p), lambda h, x: (h(OUTSIDE), OUTSIDE.add_(x) * 1)[1]),
    "its memory": (
        lambda p: KEPT.append(p.numpy()),
        lambda h, x: (h(OUTSIDE), OUTSIDE.add_(x) * 1)[1],
    ),
    "one that was changed before": (
        lambda p: p.sum().item() + (p is OUTSIDE),
        lambda h, x: OUTSIDE.add_(x).sum() * h(OUTSIDE),
    ),
    "an argument that was changed before": (
        lambda p: p.sum().item(),
        lambda h, x: x.add_(1).sum() * h(x),
    ),
    "one of a graph inside that it keeps": (lambda p: KEPT.append(p), lambda h, x: (h(x * 2), x * 3)[1]),
}
EAGER = {
    "a tensor from outside": (lambda: OUTSIDE, lambda h, x: (h(), OUTSIDE.add_(x))[0] * 1),
    "a view of a tensor from outside": (lambda: OUTSIDE.detach(), lambda h, x: (h(), OUTSIDE.add_(x))[0] * 1),
    "a tensor that is kept": (lambda p: KEPT.append(p.clone()) or KEPT[-1], lambda h, x: h(x) + 1),
    "columns first": (lambda p: jtorch.stack([p, p + 1]).t(), lambda h, x: h(x)),
    "a dict that is kept": (lambda d: KEPT.append(d), lambda h, x: (h({"k": [1]}), x)[1]),
    "an empty list that is kept": (lambda a: KEPT.append(a), lambda h, x: (h(a := []), a.append(1), x)[2]),
    "a dataclass that is kept": (
        lambda d: KEPT.append(d),
        lambda h, x: (h(d := Holder([1])), d.held.append(2), x)[2],
    ),
    "an ordered dict that is kept": (
        lambda d: KEPT.append(d),
        lambda h, x: (h(d := OrderedDict(a=1)), d.update(b=2), x)[2],
    ),
    "a tuple of a list that is kept": (
        lambda t: KEPT.append(t),
        lambda h, x: (h((a := [1],)), a.append(2), x)[2],
    ),
    "a list that it returns": (lambda a: a, lambda h, x: (h(a := [1]).append(2), x * len(a))[1]),
    "a mode": (lambda: jtorch.set_grad_enabled(False), lambda h, x: (h(), WEIGHT * x)[1]),
    "NumPy writes to its argument": (
        lambda p: float(np.add(p.numpy(), 1, out=p.numpy()).sum()),
        lambda h, x: x * h(x * 2),
    ),
    "attributes of what was computed": (_uses, lambda h, x: x * h(x * 2)),
}


def _calls(f) -> list:
    KEPT.clear()
    found = []
    with jtorch.no_grad():
        OUTSIDE.zero_()
    vars(OUTSIDE).clear()
    WEIGHT.uses = 0
    for x in (jtorch.ones(2), OUTSIDE, jtorch.ones(2) * 2, OUTSIDE, jtorch.ones(2)):
        jtorch.set_grad_enabled(True)
        y = f(x)
        found.append((y.tolist(), y.stride(), y.requires_grad, jtorch.is_grad_enabled(), vars(x).copy()))
        jtorch.set_grad_enabled(True)
        for kept in KEPT:
            if isinstance(kept, jtorch.Tensor) and kept is not OUTSIDE:
                kept.add_(1)
    kept = [
        (np.asarray(k).tolist(), k is OUTSIDE) if isinstance(k, (jtorch.Tensor, np.ndarray)) else k
        for k in KEPT
    ]
    return [found, copy.deepcopy(kept), WEIGHT.uses, OUTSIDE.tolist()]


def _both(name: str, cases: dict, **options) -> None:
    body, caller = cases[name]
    helper = disable(body)
    plain = _calls(lambda x: caller(body, x))
    assert _calls(jtorch.compile(lambda x: caller(helper, x), **options)) == plain


@pytest.mark.parametrize("name", FOLLOWED)
def test_it_gets_the_object(name):
    _both(name, FOLLOWED, fullgraph=True)


@pytest.mark.parametrize("name", EAGER)
def test_where_it_ties_objects_together_calls_are_eager(name, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _both(name, EAGER)
    assert "run eagerly" in str(told[0].message) and "disabled for compiling" in str(told[0].message)


@pytest.mark.parametrize("name", EAGER)
def test_with_a_whole_graph_it_is_an_error(name):
    body, caller = EAGER[name]
    helper = disable(body)
    f = jtorch.compile(lambda x: caller(helper, x), fullgraph=True)
    with jtorch.no_grad():
        OUTSIDE.zero_()
    with pytest.raises(CompileError, match="disabled for compiling"):
        for _ in range(2):
            f(jtorch.ones(2))
    assert jtorch.is_grad_enabled()
    assert OUTSIDE.tolist() in ([0, 0], [1, 1])
