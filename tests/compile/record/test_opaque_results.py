"""Results that are no trees of tensors and numbers, and what they hold."""

from __future__ import annotations

import datetime
import types
import warnings
from collections import OrderedDict

import pytest

import jtorch


def _held_by_a_text(x, k):
    text = _Text("a")
    text.held = x * 2
    return text


class _Text(str):
    pass


def _held_by_a_property(x, k):
    y = x * 2
    return property(lambda self: y)


HOLDERS = {  # what C's own objects hold; each with what shows it
    "values": (lambda x, k: {"a": x * 2, "b": x + 1}.values(), list),
    "items": (lambda x, k: {"a": x * 2}.items(), list),
    "items of an ordered one": (lambda x, k: OrderedDict(a=x * 2).items(), list),
    "a size among items": (lambda x, k: {"a": x.shape[0]}.items(), list),
    "slice": (lambda x, k: slice(k), lambda s: s.stop),
    "slice of a tensor": (lambda x, k: slice(x * 2), lambda s: s.stop),
    "slice in a dict": (lambda x, k: {"s": slice(0, k), "x": x}, lambda d: (d["s"].stop, d["x"])),
    "slice of a count": (lambda x, k: slice((x > 0).sum().item()), lambda s: s.stop),
    "proxy": (lambda x, k: types.MappingProxyType({"a": x * 2, "k": k}), dict),
    "error": (lambda x, k: ValueError(x * 2, k), lambda e: e.args),
    "end of an iterator": (lambda x, k: StopIteration(x * 2), lambda e: e.value),
    "cell": (lambda x, k: types.CellType(x * 2), lambda c: c.cell_contents),
    "static method": (lambda x, k: staticmethod(lambda v=x * 2: v), lambda f: f()),
    "class": (lambda x, k: type("Made", (), {"v": x * 2}), lambda c: c.v),
    "property": (_held_by_a_property, lambda p: p.fget(None)),
    "text": (_held_by_a_text, lambda t: t.held),
    "time": (lambda x, k: datetime.timedelta(1) * x.sum().item(), lambda t: t),
    "time divided": (lambda x, k: datetime.timedelta(1) / x.sum().item(), lambda t: t),
    "plain ones": (lambda x, k: (x, slice(1, 2), ValueError("a"), ...), lambda r: (r[1].stop, r[2].args)),
}  # fmt: skip


def _plainly(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plainly(v) for key, v in value.items()}
    return [_plainly(v) for v in value] if isinstance(value, (tuple, list)) else value


@pytest.mark.parametrize("name", HOLDERS)
def test_what_holds_a_result_holds_no_stand_in(name, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    f, show = HOLDERS[name]
    compiled = jtorch.compile(f)
    for n, k in ((3, 3), (3, 4), (4, 5), (5, 7)):
        x = jtorch.ones(n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jtorch.errors.EagerWarning)
            found = compiled(x, k)
        assert _plainly(show(found)) == _plainly(show(f(x, k)))
