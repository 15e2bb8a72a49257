"""The contract: in forty-four ways in which compiled code could differ from eager it does not, or says so.

Correct means what eager mode gives. The cases are those of ``python -m benchmarks soundness``.
"""

import functools
import re
import warnings

import pytest

import jtorch
from benchmarks.soundness import cases  # noqa: F401 - declares the cases
from benchmarks.soundness.table import CASES, Verdict, judge, plainly
from jtorch.compile.observe import observer
from jtorch.errors import EagerWarning

MAY_REFUSE = {4, 5, 20, 36, 41, 42, 43, 44}


def as_lambda(f):
    return jtorch.compile(lambda *args, **kwargs: f(*args, **kwargs))


def as_method(f):
    class Holder:
        def __init__(self):
            self.f = f

        def run(self, *args, **kwargs):
            return self.f(*args, **kwargs)

    return jtorch.compile(Holder().run)


def as_partial(f):
    return jtorch.compile(functools.partial(f))


def as_module(f):
    class Holder(jtorch.nn.Module):
        def forward(self, *args, **kwargs):
            return f(*args, **kwargs)

    return jtorch.compile(Holder())


FORMS = {
    "function": jtorch.compile, "lambda": as_lambda, "method": as_method, "partial": as_partial,
    "module": as_module,
}  # fmt: skip

# (case, form) -> why it fails today
FAILING: dict[tuple[str, str], str] = {}


def forms_of(k, case):
    """Each case as a function and in one more form, in turns."""
    others = [form for form in FORMS if form != "function"]
    return ["function"] if case.own_way else ["function", others[k % len(others)]]


def parameters():
    for k, case in enumerate(CASES):
        for form in forms_of(k, case):
            reason = FAILING.get((case.name, form)) or FAILING.get((case.name, "all"))
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            yield pytest.param(case, form, id=f"{case.name}-{form}", marks=marks)


def line_of(case):
    """What names a line of the file that the case is in."""
    return re.compile(re.escape(case.program.__code__.co_filename) + r":\d+")


@pytest.mark.parametrize(("case", "form"), list(parameters()))
def test_contract(case, form):
    observer._WARNED.clear()  # each place is told once a process
    verdict = judge(case.program, jtorch, FORMS[form])
    if verdict.kind == "correct":
        assert not verdict.told or case.number in (41, 42), f"eager mode itself: {verdict.told}"
        return
    assert case.may_refuse, f"{case.title}: {verdict}"
    assert verdict.kind in ("loud error", "warned"), f"{case.title}: {verdict}"
    if verdict.kind == "loud error":
        assert verdict.told.startswith("CompileError: "), verdict.told
        assert line_of(case).search(verdict.told), f"no line of the user: {verdict.told}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_is_refused_where_calls_may_run_eagerly(case, monkeypatch):
    """As users run it: what cannot be recorded is eager mode's. A later error of another kind is an error."""
    monkeypatch.delenv("JTORCH_FULLGRAPH", raising=False)
    observer._WARNED.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EagerWarning)
        verdict = judge(case.program, jtorch, jtorch.compile)
    assert verdict.kind == "correct", f"{case.title}: {verdict}"


def test_the_forty_four_are_all_here():
    assert sorted({case.number for case in CASES}) == list(range(1, 45))
    assert {case.number for case in CASES if case.may_refuse} == MAY_REFUSE
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("number", [41, 42])
def test_errors_of_the_elements_name_the_line(number):
    """What eager mode refuses, too: the compiled function says where in the program it was written."""
    for case in CASES:
        if case.number == number:
            verdict = judge(case.program, jtorch, jtorch.compile)
            assert line_of(case).search(verdict.told), f"{case.name}: {verdict}"


def test_the_judge_sees_a_difference():
    def program(library, wrap):
        return 1.0 if wrap is plainly else 2.0

    assert judge(program, jtorch, jtorch.compile) == Verdict("SILENT", "result: eager 1.0, compiled 2.0")
    assert judge(program, jtorch, plainly).kind == "correct"


def test_the_judge_sees_a_missing_error():
    def program(library, wrap):
        if wrap is plainly:
            raise ValueError("no")
        return 1.0

    assert judge(program, jtorch, jtorch.compile).kind == "SILENT"
