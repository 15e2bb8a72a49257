"""How decimals are computed: the context of ``decimal`` counts."""

import decimal
import functools
import operator
from decimal import Decimal

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, t
from tests.each import each

THIRD = [Decimal(1), Decimal(3)]


def _sevenths():
    """A loop."""
    total = Decimal(0)
    for k in (1, 2, 3):
        total += Decimal(k) / Decimal(7)
    return total


USES = {
    "made inside": lambda x: x * float(Decimal(1) / Decimal(3)),
    "from outside": lambda x: x * float(THIRD[0] / THIRD[1]),
    "a loop": lambda x: x * float(_sevenths()),
    "a method": lambda x: x * float(Decimal(2).sqrt()),
    "unary plus": lambda x: x * float(+Decimal("1.23456")),
    "sum": lambda x: x * float(sum([Decimal("1.23456"), Decimal("1.0001")])),
    "map": lambda x: x * float(next(map(operator.truediv, [Decimal(1)], [Decimal(3)]))),
    "reduce": lambda x: x * float(functools.reduce(operator.truediv, THIRD)),
    "round": lambda x: x * float(str(abs(Decimal("1.23456")))),
    "power": lambda x: x * float(Decimal(2) ** Decimal("0.5")),
    "prec": lambda x: x * decimal.getcontext().prec,
    "getattr": lambda x: x * getattr(decimal.getcontext(), "prec"),  # noqa: B009
    "a method of the context": lambda x: x * float(decimal.getcontext().divide(Decimal(1), Decimal(3))),
    "a local one": lambda x: x * _in_a_local_one(),
    "an item of a tensor": lambda x: x + jtorch.tensor([float(Decimal(2) / Decimal(3))]),
}


def _in_a_local_one():
    with decimal.localcontext() as local:
        local.rounding = decimal.ROUND_UP
        return float(Decimal(1) / Decimal(3))


def _with_precision(f):
    def change():
        before = decimal.getcontext().prec
        decimal.getcontext().prec = 3
        return functools.partial(setattr, decimal.getcontext(), "prec", before)

    return f, change


@each("name", USES)
def test_a_change_of_precision_is_noticed(name):
    assert_noticed(lambda: _with_precision(USES[name]))


def test_it_is_code_and_is_told():
    @jtorch.compile
    def f(x):
        return x * float(Decimal(1) / Decimal(3))

    f(t(1))
    with decimal.localcontext(prec=2):
        assert f(t(1)).item() == pytest.approx(0.33)
    assert "the context of decimal" in str(f.retraces[-1])
    assert "prec 28 -> prec 2" in str(f.retraces[-1])
    assert all(".holds()" in plan.source for plans in f.plans.values() for plan in plans)
    assert "the context of decimal" in str(f.explain())


def test_what_happens_in_a_context_of_its_own_depends_on_no_other():
    mine = decimal.Context(prec=4)

    @jtorch.compile
    def f(x):
        with decimal.localcontext(mine):
            return x * float(Decimal(1) / Decimal(3))

    for _ in range(3):
        assert f(t(1)).item() == pytest.approx(0.3333)
    assert sum(map(len, f.plans.values())) == 1


SETS = {
    "setcontext": lambda x: [decimal.setcontext(decimal.Context(prec=5)), x][1],
    "an attribute": lambda x: [setattr(decimal.getcontext(), "prec", 5), x][1],
}


@each("name", SETS)
def test_what_stays_is_refused(name):
    before = decimal.getcontext()
    prec = before.prec
    try:
        with pytest.raises(CompileError, match=r"decimal|Context"):
            jtorch.compile(SETS[name], fullgraph=True)(t(1))
        assert (decimal.getcontext() is before, before.prec) == (True, prec)
    finally:
        decimal.setcontext(before)
        before.prec = prec


def test_nothing_is_read_where_no_decimal_is():
    f = jtorch.compile(lambda x: x * 2)
    f(t(1))
    assert "the context of decimal" not in str(f.explain())
