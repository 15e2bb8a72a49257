"""Many cases of one test as a loop: to collect a test costs more than most of these cases take to run."""

from __future__ import annotations

import functools
import inspect

import pytest

QUICK = 16  # cases of one test in the quick part
_SHOWN = 300  # characters of a failure in the list of all


def spread(count):
    """Which of many are in the quick part: the first and others at equal distances."""
    return {k * count // QUICK for k in range(QUICK)} if count > QUICK else set(range(count))


def each(names, cases, *, ids=None, parts=1):
    """As ``pytest.mark.parametrize``, but the cases run one after the other in one test, or in two: ``some``
    is in the quick part, ``others`` have the mark ``slow`` (in ``parts``, where they take long: processes
    share them out). All cases run, whatever fails; the failure names all that do, with the traceback of the
    first. ``--case TEXT`` on pytest's command line runs those alone that have the text in their name.

    Above another ``each`` it makes all pairs. Fixtures are set up once for all cases: what a case changes is
    put back by the case. A case that is skipped says nothing, unless all of them are.
    """
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    given = [_case(names, case, ids, k) for k, case in enumerate(cases)]

    def decorate(test):
        inner, function, shares = getattr(test, "each", ([("", {}, False)], test, 1))
        pairs = [
            (f"{before}-{name}".strip("-"), {**outer, **values}, slow or is_slow)
            for name, outer, slow in given
            for before, values, is_slow in inner
        ]
        marks = [m for m in getattr(test, "pytestmark", []) if "_cases" not in m.args]
        return _test_of(pairs, function, max(parts, shares), marks)

    return decorate


def _case(names, case, ids, k):
    """(its name, its arguments, whether it is slow)"""
    marks = getattr(case, "marks", ())
    assert all(mark.name == "slow" for mark in marks), f"a loop has no place for {marks}"
    if hasattr(case, "marks"):
        values, name = case.values, case.id
    else:
        values, name = (case if len(names) > 1 else (case,)), None
    if name is None:
        named = ids[k] if isinstance(ids, (list, tuple)) else None
        name = named or "-".join(str((ids and ids(v)) or getattr(v, "__name__", v)) for v in values)
    return name, dict(zip(names, values, strict=True)), bool(marks)


def _test_of(cases, function, parts, marks):
    quick = spread(len(cases))
    some = [case for k, case in enumerate(cases) if k in quick and not case[2]]
    names = {case[0] for case in some}
    others = [case for case in cases if case[0] not in names]
    assert len({case[0] for case in cases}) == len(cases), "two cases have one name"
    shares = [pytest.param(some, id="some")] if some else []
    for part in range(min(parts, len(others))):
        name = "others" if parts == 1 else f"others {part + 1} of {parts}"
        shares.append(pytest.param(others[part::parts], id=name, marks=pytest.mark.slow))
    asked = [name for name in inspect.signature(function).parameters if name not in cases[0][1]]

    @functools.wraps(function)
    def run(request, _cases, **fixtures):
        _run(function, _wanted(request.config, _cases), {name: fixtures[name] for name in asked})

    run.__signature__ = _signature("request", "_cases", *asked)
    run.pytestmark = [*marks, pytest.mark.parametrize("_cases", shares).mark]
    run.each = cases, function, parts
    return run


def _signature(*names):
    return inspect.Signature(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names)


def _wanted(config, cases):
    text = config.getoption("--case", None)
    return [case for case in cases if text in case[0]] if text else cases


def has_case(item, text):
    """Whether ``--case`` wants a test: one of its cases, or the test itself, has the text in its name."""
    loop = getattr(item, "callspec", None) and item.callspec.params.get("_cases")
    return any(text in name for name, *_ in loop) if loop else text in item.nodeid


def _run(function, cases, fixtures):
    failures, skipped = [], []
    for name, values, _ in cases:
        try:
            function(**values, **fixtures)
        except pytest.skip.Exception as why:
            skipped.append(why)
        except (Exception, pytest.fail.Exception) as error:
            failures.append((name, error))
    if failures:
        raise AssertionError(_text(failures, len(cases))) from failures[0][1]
    if skipped and len(skipped) == len(cases):
        raise skipped[0]


def _text(failures, count):
    lines = [f"{len(failures)} of {count} cases fail (one alone: --case NAME); above is the first of"]
    for name, error in failures:
        said = " ".join(str(error).split())
        lines.append(f"    {name}: {type(error).__name__}: {said[:_SHOWN]}")
    return "\n".join(lines)
