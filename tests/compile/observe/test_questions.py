"""Which tensor is which, and what tensors say of themselves: as in eager mode at each call, or an error."""

import collections
import copy
import dataclasses
import itertools
import math
import operator
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t


def outcomes(function, calls):
    """What each of ``calls``, tuples of arguments, gives."""
    return [function(*arguments).tolist() for arguments in calls]


def assert_like_eager(function, calls):
    compiled = jtorch.compile(function)
    assert outcomes(compiled, calls) == outcomes(function, calls)
    return compiled


X, Y = t(1), t(2)


@pytest.mark.parametrize("calls", [[(X, Y), (X, X), (X, Y)], [(X, X), (X, Y), (Y, Y)]], ids=str)
def test_whether_two_arguments_are_one(calls):
    assert_like_eager(lambda q, k: q * 10 if q is k else q + k, calls)
    assert_like_eager(lambda q, k: q * 10 if q is not k else q + k, calls)


def test_calls_of_the_same_form_make_no_new_plan():
    compiled = assert_like_eager(
        lambda q, k: q * 10 if q is k else q + k, [(X, Y), (Y, X), (t(3), t(4)), (X, X), (Y, Y)]
    )
    assert sum(map(len, compiled.plans.values())) == 2


def test_whether_an_argument_is_a_parameter():
    m = nn.Linear(1, 1)
    other = nn.Parameter(jtorch.ones(1, 1))
    assert_like_eager(lambda x: x * 2 if x is m.weight else x * 3, [(other,), (m.weight,), (other,)])
    assert_like_eager(lambda x: x * 2 if m.weight is x else x * 3, [(m.weight,), (other,), (m.weight,)])


@pytest.mark.parametrize("make", [set, frozenset, list, tuple, lambda values: dict.fromkeys(values, 1)])
def test_whether_a_container_has_an_argument(make):
    held = make([X])
    assert_like_eager(lambda q: q * 10 if any(q is h for h in held) else q, [(Y,), (X,), (Y,)])
    if not isinstance(held, (list, tuple)):  # which compare elements
        assert_like_eager(lambda q: q * 10 if q in held else q, [(Y,), (X,), (Y,)])


def test_a_container_that_gets_the_argument_later():
    held = set()
    f = jtorch.compile(lambda q: q * 10 if q in held else q)
    assert f(X).tolist() == [1.0]
    held.add(X)
    assert [f(X).tolist(), f(Y).tolist()] == [[10.0], [2.0]]


def test_what_a_dict_has_under_an_argument():
    table = {X: 5.0}
    assert_like_eager(lambda q: q * table.get(q, 1.0), [(Y,), (X,), (Y,)])

    def f(q):
        return q * table[q] if q in table else q

    assert_like_eager(f, [(X,), (Y,), (X,)])


def test_a_container_made_inside():
    def f(x, y):
        seen = {x}
        return x * (2 if y in seen else 3)

    assert_like_eager(f, [(X, Y), (X, X), (Y, X)])


def test_the_address_of_an_argument_is_an_error():
    for ask in (id, hash):
        with pytest.raises(CompileError, match=r"test_questions.py:\d+.*is another one at each call"):
            jtorch.compile(lambda x, ask=ask: x * ask(x))(X)


ASKED = {
    "id": lambda x, a: x * (id(a) % 7),
    "base": lambda x, a: x * (2 if a.base is None else 3),
    "ctypes": lambda x, a: x * (a.ctypes.data % 7),
    "a view that is returned": lambda x, a: (x * 2, a[1:]),
}


@pytest.mark.parametrize("name", ASKED)
def test_arrays_that_are_arguments_are_asked_in_eager_mode(name, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    whole = np.arange(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jtorch.compile(ASKED[name])
        for array in (np.arange(1.0, 4.0), whole, whole[1:], np.arange(1.0, 4.0)):
            assert repr(compiled(X, array)) == repr(ASKED[name](X, array))
            if name == "a view that is returned":
                assert np.shares_memory(compiled(X, array)[1], array)
    assert not any(compiled.plans.values())


@pytest.mark.parametrize("ask", [lambda x, r: x * float.__add__(2.0, r), lambda x, r: x * (3.0).__mul__(r)])
def test_methods_that_look_at_the_class_of_a_number(ask, monkeypatch):
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = jtorch.compile(ask)
        for number in (np.float64(1), np.float64(2), 1.5, 2.5):
            assert compiled(X, number).tolist() == ask(X, number).tolist()


def _leaf():
    return jtorch.ones(2, requires_grad=True)


def keyed(make):
    """How many entries ``make(a, b)`` has, as a factor."""
    return lambda a, b: a * len(make(a, b))


def _added(a, b):
    made = set()
    made.add(a)
    made.add(b)
    return made


def _assigned(a, b):
    made = collections.defaultdict(list)
    made[a].append(1)
    made[b].append(2)
    return made


def _replaced(a, b):
    made = {a: 1}
    made[b] = 2
    made.setdefault(a, 3)
    return made


def _updated(a, b):
    made = {a}
    made.update([b])
    return made


KEYED = {
    "{a, b}": keyed(lambda a, b: {a, b}),
    "set": keyed(lambda a, b: set([a, b])),  # noqa: C405
    "frozenset": keyed(lambda a, b: frozenset((a, b))),
    "set of a generator": keyed(lambda a, b: set(x for x in (a, b))),  # noqa: C401
    "a comprehension": keyed(lambda a, b: {x for x in (a, b)}),  # noqa: C416
    "set of map": keyed(lambda a, b: set(map(lambda x: x, [a, b]))),  # noqa: C417
    "chain": keyed(lambda a, b: set(itertools.chain([a], [b]))),
    "unpacked": keyed(lambda a, b: {*[a], *[b]}),
    "{a: 1, b: 2}": lambda a, b: sum(x * k for x, k in {a: 1, b: 2}.items()),
    "a dict comprehension": lambda a, b: sum(x * k for x, k in {x: k for k, x in enumerate([a, b])}.items()),
    "dict of zip": keyed(lambda a, b: dict(zip([a, b], "xy", strict=True))),
    "fromkeys": keyed(lambda a, b: dict.fromkeys([a, b])),
    "Counter": keyed(lambda a, b: collections.Counter([a, b])),
    "add": keyed(_added),
    "update": keyed(_updated),
    "defaultdict": keyed(_assigned),
    "items": lambda a, b: a * sum(_replaced(a, b).values()),
    "|": keyed(lambda a, b: {a} | {b}),
    "&": lambda a, b: a * (1 + len({a} & {b})),
    "&, of keys": lambda a, b: a * (1 + len({a: 1}.keys() & {b: 1}.keys())),
    "==": lambda a, b: a * (1 + ({a} == {b})),
    "isdisjoint": lambda a, b: a * (1 + {a}.isdisjoint([b])),
    "in": lambda a, b: a * (2 if a in {b} else 3),
    "contains": lambda a, b: a * (1 + operator.contains({a}, b)),
    "get": lambda a, b: a * {a: 5}.get(b, 7),
    "tuples": keyed(lambda a, b: {(a, 1), (b, 1)}),
}


@pytest.mark.slow
def test_arguments_that_become_keys_or_members():
    for name, f in KEYED.items():
        for listed in (False, True):
            g = (lambda pair, f=f: f(*pair)) if listed else f
            compiled = jtorch.compile(g)
            for pair in ((X, Y), (X, X), (Y, X), (Y, Y), (X, Y)):
                arguments = ([*pair],) if listed else pair
                assert compiled(*arguments).tolist() == g(*arguments).tolist(), name
            assert sum(map(len, compiled.plans.values())) == 2, name


def test_an_argument_and_a_captured_tensor_as_members():
    w, v = t(3), t(4)
    assert_like_eager(lambda x: x * len({x, w, v}), [(X,), (w,), (v,), (X,)])
    assert_like_eager(lambda x, y: x * len({x, y, w}), [(X, Y), (X, X), (X, w), (w, w), (Y, X)])


def test_captured_tensors_as_members_ask_nothing():
    parameters = [t(3), t(4)]
    compiled = assert_like_eager(lambda x, y: x * len({id(p) for p in parameters}) * y, [(X, Y), (X, X)])
    assert not any(plan.capture.questions for plans in compiled.plans.values() for plan in plans)


@dataclasses.dataclass(frozen=True)
class Holder:
    tensor: object


def test_addresses_of_arguments_by_other_ways_are_an_error():
    for f in (
        lambda a, b: a * len({id(a), id(b)}),
        lambda a, b: a * len(set(map(id, [a, b]))),
        lambda a, b: a * len(set(map(hash, (a, b)))),
        lambda a, b: sorted([a, b], key=id)[0] * 1,
        lambda a, b: a * (hash((a, 1)) == hash((b, 1))),
        lambda a, b: a * (a.__hash__() == b.__hash__()),
        lambda a, b: a * len({Holder(a), Holder(b)}),
    ):
        with pytest.raises(CompileError, match=r"test_questions.py.* asks for the id\(\) or hash\(\)"):
            jtorch.compile(f)(X, Y)


def test_whether_an_argument_is_a_leaf():
    assert_like_eager(lambda v: v * (2 if v.is_leaf else 3), [(t(1, 2),), (_leaf(),)])
    for ask in ("is_leaf", "grad_fn"):
        with pytest.raises(CompileError, match=f"asks {ask} of an argument that was computed outside"):
            jtorch.compile(lambda v, ask=ask: v * (2 if getattr(v, ask) else 3))(_leaf() * 1)


def test_the_version_of_an_argument():
    x = t(1)
    f = jtorch.compile(lambda x: x * (x._version + 1))
    for _ in range(3):
        assert f(x).tolist() == (x * (x._version + 1)).tolist()
        x.mul_(2)


CHANGES = {
    "requires_grad": (lambda p: p.requires_grad, lambda p: p.requires_grad_(True)),
    "is_leaf": (lambda p: not p.is_leaf, lambda p: p.mul_(_leaf())),
    "shape": (lambda p: p.shape[0] > 2, lambda p: setattr(p, "data", jtorch.ones(5))),
    "len": (lambda p: len(p) > 2, lambda p: setattr(p, "data", jtorch.ones(5))),
    "size()": (lambda p: p.size(0) > 2, lambda p: setattr(p, "data", jtorch.ones(5))),
    "numel()": (lambda p: p.numel() > 2, lambda p: setattr(p, "data", jtorch.ones(5))),
    "jtorch.numel()": (lambda p: jtorch.numel(p) > 2, lambda p: setattr(p, "data", jtorch.ones(5))),
    "ndim": (lambda p: p.ndim > 1, lambda p: setattr(p, "data", jtorch.ones(2, 2))),
    "stride()": (lambda p: p.stride(0) > 1, lambda p: setattr(p, "data", jtorch.ones(2, 3)[:, 0])),
    "dtype": (lambda p: p.dtype is jtorch.float64, lambda p: setattr(p, "data", p.data.double())),
    "is_floating_point()": (lambda p: not p.is_floating_point(), lambda p: setattr(p, "data", p.data.long())),
    "_version": (lambda p: p._version > 0, lambda p: p.add_(1)),
    "getattr": (lambda p: getattr(p, "requires_grad"), lambda p: p.requires_grad_(True)),  # noqa: B009
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_captured_tensor_that_is_only_asked(name):
    ask, change = CHANGES[name]
    p = jtorch.ones(2)
    f = jtorch.compile(lambda x: x * 2 if ask(p) else x)
    assert f(X).tolist() == f(X).tolist() == [1.0]
    assert sum(map(len, f.plans.values())) == 1
    change(p)
    assert ask(p)
    assert f(X).tolist() == [2.0]


def test_strides_that_count_from_the_start_of_the_memory():
    base = jtorch.arange(20.0)
    f = jtorch.compile(lambda v: jtorch.as_strided(v, (3,), (1,), 2) * 1)
    assert f(jtorch.arange(10.0)).tolist() == [2.0, 3.0, 4.0]
    assert f(base[10:]).tolist() == jtorch.as_strided(base[10:], (3,), (1,), 2).tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("part", [lambda x: x[3:].detach(), lambda x: x[3:].view(-1).detach()])
def test_strides_of_what_has_no_base_are_refused_before_its_begin(part):
    f = jtorch.compile(lambda v: jtorch.as_strided(v, (3,), (1,), 2) * 1)
    assert f(jtorch.arange(10.0)).tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(jtorch.errors.CompileError):
        f(part(jtorch.arange(10.0)))
    inside = jtorch.compile(lambda v: part(v).as_strided((3,), (1,), 2) * 1)
    with pytest.raises(jtorch.errors.CompileError, match="as_strided"):
        inside(jtorch.arange(10.0))


def _hung(**facts):
    x = jtorch.ones(1)
    x.__dict__.update(facts)
    return x


HANGING = {
    "an item of a list": (lambda x: x * x.s[0], {"s": [2]}, lambda x: x.s.__setitem__(0, 3), 3.0),
    "a list's length": (lambda x: x * len(x.s), {"s": [2]}, lambda x: x.s.append(3), 2.0),
    "a list's sum": (lambda x: x * sum(x.s), {"s": [2]}, lambda x: x.s.append(3), 5.0),
    "an entry of a dict": (lambda x: x * x.s["k"], {"s": {"k": 2}}, lambda x: x.s.update(k=4), 4.0),
    "an attribute of an object": (
        lambda x: x * x.s.k, {"s": types.SimpleNamespace(k=2)}, lambda x: setattr(x.s, "k", 4), 4.0,
    ),
    "a nested list": (lambda x: x * x.s[0][0], {"s": [[2]]}, lambda x: x.s[0].__setitem__(0, 5), 5.0),
    "a name that comes": (lambda x: x * (3 if hasattr(x, "k") else 1), {}, lambda x: setattr(x, "k", 1), 3.0),
    "a zero's sign": (lambda x: x * math.copysign(2, x.s), {"s": 0.0}, lambda x: setattr(x, "s", -0.0), -2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", HANGING)
@pytest.mark.parametrize("where", ["argument", "captured"])
def test_what_lies_in_something_that_hangs_on_a_tensor(name, where):
    ask, facts, change, expected = HANGING[name]
    x = _hung(**copy.deepcopy(facts))
    f = jtorch.compile(ask if where == "argument" else lambda y: y * ask(x))
    given = x if where == "argument" else X
    assert f(given).tolist() == f(given).tolist() == ask(x).tolist()
    change(x)
    assert f(given).tolist() == ask(x).tolist() == [expected]


ALL_THAT_HANGS = {
    "vars": lambda x: len(vars(x)),
    "__dict__": lambda x: len(x.__dict__),
    "in __dict__": lambda x: 1 if "k" in x.__dict__ else 0,
    "dir": lambda x: 1 if "k" in dir(x) else 0,
    "items of vars": lambda x: sum(v for _, v in vars(x).items()),
}


@pytest.mark.parametrize("name", ALL_THAT_HANGS)
def test_all_that_hangs_on_a_captured_tensor_is_followed(name):
    ask, q = ALL_THAT_HANGS[name], jtorch.ones(1)
    f = jtorch.compile(lambda x: x * ask(q))
    assert f(X).tolist() == f(X).tolist() == [0.0]
    q.k = 1
    assert f(X).tolist() == [1.0]


@pytest.mark.parametrize("name", ALL_THAT_HANGS)
def test_all_that_hangs_on_an_argument_is_refused(name):
    ask = ALL_THAT_HANGS[name]
    f = jtorch.compile(lambda x: x * ask(x))
    with pytest.raises(CompileError, match=r"all attributes of an argument at once.*by name"):
        f(_hung(k=1))
