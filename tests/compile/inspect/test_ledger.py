"""Why a function was recorded again, as its ledger tells it, and what may be done about it."""

import logging
import re
import types
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile.inspect.ledger import Ledger
from jtorch.core.errors import RetraceError, RetraceWarning


def test_a_function_that_was_recorded_once_has_an_empty_ledger():
    f = jtorch.compile(lambda x: x * 2)
    for _ in range(3):
        f(jtorch.ones(3))
    assert f.retraces == [] and str(f.retraces) == "no retraces" and f.calls == 3


def changes(function):
    return [(c.what, c.before, c.after) for c in function.retraces[-1].changes]


def test_a_shape_a_dtype_and_strides():
    f = jtorch.compile(lambda x, batch: x + batch["y"])
    x, y = jtorch.ones(4, 4), jtorch.ones(4)
    f(x, {"y": y})
    f(x[:2], {"y": y})
    assert changes(f) == [("x.shape", "(4, 4)", "(2, 4)")]
    f(x, {"y": y.double()})
    assert changes(f) == [("batch['y'].dtype", "float32", "float64")]
    f(x, {"y": y})
    f(x.t(), {"y": y})
    assert changes(f) == [("x.stride()", "(4, 1)", "(1, 4)")]
    assert [entry.outcome for entry in f.retraces] == ["recorded"] * 3
    assert all(entry.milliseconds > 0 for entry in f.retraces)
    assert f.retraces[0].kernels_compiled == 0  # another size is no other kernel


def test_the_users_line_is_where_the_call_is_written():
    f = jtorch.compile(lambda x: x * 2)
    f(jtorch.ones(1))
    f(jtorch.ones(2))
    where = f.retraces[0].where
    assert where.file == __file__ and where.function == "test_the_users_line_is_where_the_call_is_written"


def test_values_kinds_and_form_of_arguments():
    f = jtorch.compile(lambda x, n: (x[0] if isinstance(x, (list, tuple)) else x) * n)
    x = jtorch.ones(3)
    f(x, 2)
    f(x, 3)
    assert changes(f) == [("n", "2", "3")]
    f(x, 2.0)
    assert ("type(n)", "int", "float") in changes(f)
    f([x], 2)
    assert changes(f) == [("arguments", "tuple(tuple(*, *), dict())", "tuple(tuple(list(*), *), dict())")]


def test_one_tensor_twice():
    f = jtorch.compile(lambda x, y: x + y)
    x, y = jtorch.ones(3), jtorch.ones(3)
    f(x, x)
    f(x, y)
    assert changes(f) == [("memory of y", "that of x", "its own")]


def test_modes():
    layer = nn.Linear(2, 2)
    f = jtorch.compile(lambda x: layer(x))
    x = jtorch.ones(1, 2)
    f(x)
    with jtorch.no_grad():
        f(x)
    assert changes(f) == [("gradients", "on", "off")]
    f(x.requires_grad_())
    assert ("x.requires_grad", "False", "True") in changes(f)


def test_a_modules_mode_is_told_once_and_toggling_costs_nothing():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    f = jtorch.compile(lambda x: model(x))
    f(jtorch.ones(1, 2))
    model.eval()
    f(jtorch.ones(1, 2))
    assert changes(f) == [("model.training", "True", "False")]
    model.train()
    f(jtorch.ones(1, 2))
    model.note = "not read"
    f(jtorch.ones(1, 2))
    assert [entry.outcome for entry in f.retraces] == ["recorded"]


def test_what_may_be_read_and_makes_no_difference_is_confirmed():
    model = nn.Sequential(nn.Linear(2, 2))
    f = jtorch.compile(lambda x: model(x))
    f(jtorch.ones(1, 2))
    model.register_buffer("unused", jtorch.ones(1))
    f(jtorch.ones(1, 2))
    assert [entry.outcome for entry in f.retraces] == ["confirmed"]


def test_a_frozen_parameter_and_one_that_was_replaced():
    model = nn.Sequential(nn.Linear(2, 2))
    f = jtorch.compile(lambda x: model(x).sum())
    f(jtorch.ones(1, 2))
    model[0].weight.requires_grad_(False)
    f(jtorch.ones(1, 2))
    assert changes(f) == [("model.0.weight.requires_grad", "True", "False")]
    model[0].bias = nn.Parameter(jtorch.zeros(2))
    f(jtorch.ones(1, 2))
    assert changes(f) == [("memory of model.0.bias", "one tensor", "another")]


def test_a_flag_of_an_optimizer():
    p = jtorch.ones(3, requires_grad=True)
    optimizer = jtorch.optim.SGD([p], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    step = jtorch.compile(step)
    step(jtorch.ones(3))
    optimizer.param_groups[0]["lr"] = 0.01
    step(jtorch.ones(3))
    assert step.retraces == []
    optimizer.param_groups[0]["maximize"] = True
    step(jtorch.ones(3))
    assert "maximize" in changes(step)[0][0] and changes(step)[0][1:] == ("False", "True")


RATE = 2


def test_a_global_number(monkeypatch):
    f = jtorch.compile(lambda x: x * RATE)
    f(jtorch.ones(3))
    monkeypatch.setitem(globals(), "RATE", 3)
    f(jtorch.ones(3))
    ((what, before, after),) = changes(f)
    assert "RATE" in what and (before, after) == ("2", "3")


def test_a_branch_on_a_float():
    f = jtorch.compile(lambda x, t: x * t if t > 1.0 else x)
    line = f.function.__code__.co_firstlineno
    f(jtorch.ones(3), 2.0)
    f(jtorch.ones(3), 0.5)
    assert changes(f) == [(f"t > 1.0 holds no longer, asked at test_ledger.py:{line}", "", "")]


def test_where_many_branches_are_some_lines_are_named():
    @jtorch.compile
    def f(x):
        if x[0] > 0:
            x = x + 1
        if x[1] > 0:
            x = x + 2
        if x[2] > 0:
            x = x + 4
        if x[3] > 0:
            x = x + 8
        return x

    f(jtorch.ones(4))
    assert f(-jtorch.ones(4)).tolist() == [-1.0] * 4
    line = f.function.__code__.co_firstlineno
    lines = ", ".join(f"test_ledger.py:{line + k}" for k in (2, 4, 6))
    assert changes(f)[0][0] == f"a data-dependent branch, asked at {lines} or 1 more"


def test_a_branch_on_a_tensor():
    f = jtorch.compile(lambda x: x * 2 if x.sum() > 0 else x * 3)
    assert f(jtorch.ones(3)).tolist() == [2.0] * 3
    assert f(-jtorch.ones(3)).tolist() == [-3.0] * 3
    asked = f", asked at test_ledger.py:{f.function.__code__.co_firstlineno}"
    assert changes(f) == [(f"a data-dependent branch{asked}", "the ways recorded", "another way")]
    for sign in (1, -1, 1):
        f(sign * jtorch.ones(3))
    assert len(f.retraces) == 1


def test_the_ledger_prints_as_a_table():
    f = jtorch.compile(lambda x: x * 2, dynamic=False)
    for n in (1, 2, 3):
        f(jtorch.ones(n))
    head, change, *advice = str(f.retraces).splitlines()
    assert re.fullmatch(r"#1 to #2 recorded in \d+\.\d ms together, test_ledger.py:\d+", head)
    assert change == "    x.shape: (1,) -> ... -> (3,)" and "few" in " ".join(advice)
    assert str(Ledger()) == "no retraces"


def test_changes_of_one_kind_are_told_together_within_80_columns():
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(14)))

    @jtorch.compile
    def step(x):
        model(x).sum().backward()

    step(jtorch.ones(1, 2))
    step(jtorch.ones(1, 2))
    assert len(step.retraces[0].changes) == 28
    text = str(step.retraces)
    assert "    28 parameters' .grad: None -> a tensor\n" in text
    assert "28 parameters' .grad: None -> a tensor. with gradients" in str(step.retraces[0])
    assert len(text.splitlines()) < 8 and max(map(len, text.splitlines())) <= 80
    step(jtorch.ones(700, 2))
    assert max(map(len, str(step.retraces).splitlines())) <= 80


def advice(function):
    return function.retraces[-1].changes[0].advice


def test_the_advice_fits_the_cause():
    f = jtorch.compile(lambda x, n=None: x * (n if isinstance(n, int) else 2), dynamic=False)
    f(jtorch.ones(8, 3))
    f(jtorch.ones(5, 3))
    assert "last partial batch" in advice(f)
    f(jtorch.ones(4, 3))  # which is no last batch: another one came before
    assert "few" in advice(f) and "partial" not in advice(f)
    f(jtorch.ones(8, 3, 1))
    assert "number of dimensions" in advice(f)
    f(jtorch.ones(8, 3).double())
    assert "convert before the call" in advice(f)
    grown = jtorch.compile(lambda x: x * 2, dynamic=False)
    for n in (4, 5):
        grown(jtorch.ones(2, n))
    assert "pad to one of a few lengths" in advice(grown) and "partial" not in advice(grown)
    f(jtorch.ones(8, 3), 1)
    f(jtorch.ones(8, 3), 2)
    assert f.retraces[-1].changes[0][:3] == ("n", "1", "2") and "float(n)" in advice(f)
    f(jtorch.ones(8, 3), "one")
    f(jtorch.ones(8, 3), "two")
    assert "recorded once" in advice(f) and "float" not in advice(f)


def test_what_was_told_is_named():
    """Where no fact and no read tells more, what made the plan look again is named."""
    layer = nn.Linear(2, 2)
    f = jtorch.compile(lambda x: layer(x))
    f(jtorch.ones(1, 2))
    (plans,) = f.plans.values()
    plans[0].subscription.expire("the clock")
    f(jtorch.ones(1, 2))
    (entry,) = f.retraces
    assert entry.outcome == "confirmed" and [c.what for c in entry.changes] == ["the clock"]
    assert "its plan stays" in entry.changes[0].advice


def test_the_nearest_plan_is_compared():
    f = jtorch.compile(lambda x, n: x * n, dynamic=False)
    f(jtorch.ones(3), 1)
    f(jtorch.ones(4).double(), 2)
    f(jtorch.ones(4).double(), 3)
    assert changes(f) == [("n", "2", "3")]


# -- what to do about it -----------------------------------------------------------------------------------


def test_on_retrace_warn():
    f = jtorch.compile(lambda x: x * 2, on_retrace="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(jtorch.ones(2))
        f(jtorch.zeros(2))
    with pytest.warns(RetraceWarning, match=r"x.shape: \(2,\) -> \(3,\)"):
        assert f(jtorch.ones(3)).tolist() == [2.0] * 3


def test_on_retrace_raise_leaves_the_function_usable():
    f = jtorch.compile(lambda x: x * 2, on_retrace="raise")
    f(jtorch.ones(2))
    for _ in range(2):
        with pytest.raises(RetraceError, match=r"x.dtype: float32 -> float64.*convert before the call"):
            f(jtorch.ones(2).double())
    assert f(jtorch.ones(2)).tolist() == [2.0, 2.0]
    assert [entry.outcome for entry in f.retraces] == ["raised", "raised"]


def test_on_retrace_raise_takes_what_only_has_to_be_confirmed():
    model = nn.Linear(2, 2)
    f = jtorch.compile(lambda x: model(x), on_retrace="raise")
    f(jtorch.ones(1, 2))
    nn.Linear(3, 3)  # elsewhere, where it is not even heard of
    f(jtorch.ones(1, 2))
    assert not f.retraces
    model.register_buffer("unused", None)
    f(jtorch.ones(1, 2))
    assert [entry.outcome for entry in f.retraces] == ["confirmed"]
    model.register_forward_hook(lambda module, args, out: out * 2)
    with pytest.raises(RetraceError, match="hooks of model"):
        f(jtorch.ones(1, 2))


def test_on_retrace_eager():
    seen = []

    def f(x):
        seen.append(jtorch.compiler.is_compiling())
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the append
        f = jtorch.compile(f, on_retrace="eager")
        f(jtorch.ones(2))
        for _ in range(2):
            assert f(jtorch.ones(3)).tolist() == [2.0] * 3
    assert seen == [True, False, False]
    assert [entry.outcome for entry in f.retraces] == ["eager", "eager"]
    assert sum(map(len, f.plans.values())) == 1


def test_the_log(monkeypatch, caplog):
    f = jtorch.compile(lambda x: x * 2, dynamic=False)
    with caplog.at_level(logging.INFO, "jtorch.compile"):
        f(jtorch.ones(2))
        (record,) = caplog.records  # one line at the first compilation
        assert record.levelno == logging.INFO and "1 ops as 1 kernels" in record.getMessage()
        f(jtorch.ones(3))
        assert len(caplog.records) == 1
        monkeypatch.setenv("JTORCH_LOG", "retrace")
        f(jtorch.ones(4))
    assert "x.shape" in caplog.records[-1].getMessage()


# -- jtorch.testing -----------------------------------------------------------------------------------------


def test_assert_no_retrace():
    f, g = jtorch.compile(lambda x: x * 2), jtorch.compile(lambda x: x * 3)
    f(jtorch.ones(2))
    with jtorch.testing.assert_no_retrace():
        f(jtorch.zeros(2))
        g(jtorch.zeros(2))  # its first recording
    sentence = r"recorded again: '<lambda>'\n(?s:.*)x\.shape"
    with pytest.raises(AssertionError, match=sentence), jtorch.testing.assert_no_retrace():
        f(jtorch.ones(3))
    with jtorch.testing.assert_no_retrace(g):
        f(jtorch.ones(4))
    with pytest.raises(AssertionError, match=r"x\.shape"), jtorch.testing.assert_no_retrace(g):
        g(jtorch.ones(5))


def test_assert_no_retrace_lets_errors_through_and_knows_compiled_functions():
    with pytest.raises(KeyError), jtorch.testing.assert_no_retrace():
        raise KeyError("mine")
    with (
        pytest.raises(TypeError, match="takes a compiled function"),
        jtorch.testing.assert_no_retrace(len),
    ):
        pass


@pytest.mark.filterwarnings("default:.*has been recorded")
def test_many_recordings_are_told_once_with_what_they_took():
    f = jtorch.compile(lambda x: x * 2, dynamic=False)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(1, 12):
            f(jtorch.ones(n))
    (warning,) = seen
    assert issubclass(warning.category, RetraceWarning)
    assert re.search(r"recorded 6 times, which took \d+\.\d\d s; .*shape.*on_retrace", str(warning.message))
    assert warning.filename == __file__


def _array_change(change, function=lambda table, x: x * table[0, 0]):
    """What the ledger says of a NumPy array from outside that changes between two calls."""
    table = np.array([[np.nan, 0.0, 2.0], [1.0, 1.0, 1.0]])
    f = jtorch.compile(lambda x: function(table, x))
    f(jtorch.ones(2))
    change(table)
    f(jtorch.ones(2))
    (found,) = f.retraces[-1].changes
    return found


def test_an_array_that_changed_shows_which_element():
    change = _array_change(lambda table: table.__setitem__((1, 2), 5.0))
    assert (change.before, change.after) == ("[1, 2]: 1.0", "[1, 2]: 5.0")
    assert "jtorch.from_numpy(array)" in change.advice


def test_an_element_counts_by_its_bytes():
    change = _array_change(lambda table: table.__setitem__((0, 1), -0.0))
    assert (change.before, change.after) == ("[0, 1]: 0.0", "[0, 1]: -0.0")


def test_an_array_that_lies_otherwise_shows_how():
    change = _array_change(lambda table: table.setflags(write=False))
    assert (change.before, change.after) == ("writeable True", "writeable False")
    assert "from_numpy" not in change.advice


def test_flags_that_changed_show_which():
    change = _array_change(
        lambda table: table.setflags(write=False), lambda table, x: x * (2 if table.flags.writeable else 1)
    )
    assert change.what.startswith("the flags of an array of shape (2, 3)")
    assert (change.before, change.after) == ("WRITEABLE True", "WRITEABLE False")


@pytest.mark.filterwarnings("ignore")
def test_numbers_of_one_name_are_told_together():
    objects = [types.SimpleNamespace(t=1) for _ in range(4)]
    f = jtorch.compile(lambda x: sum(x * (o.t if o.t != 3 else 2) for o in objects))
    for k in range(8):
        for o in objects:
            o.t = k + 2
        f(jtorch.ones(2))
    assert "4 times 't', read at test_ledger.py" in str(f.retraces)
