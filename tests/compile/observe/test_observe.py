"""What cannot be observed is refused, and how observing works."""

import dataclasses
import dis
import random
import sys
import time
import weakref

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile.observe import frames, instructions, probe, stepping
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t

RATE = 0.5
TABLE = [1.0, 2.0]

WORLD = {
    "a part of what is drawn": lambda: float(np.sort(np.random.rand(3))[1]),
    "random.shuffle": lambda: random.shuffle([1, 2, 3]) or 1.0,
    "a Random": lambda: random.Random(3).random(),
    "numpy.random.default_rng": lambda: np.random.default_rng(0).standard_normal(),
    "time.localtime": lambda: time.localtime().tm_sec,
    "time.thread_time": lambda: time.thread_time(),
    "open": lambda: len(open(__file__).read()),  # noqa: PTH123, SIM115
    "input": lambda: len(input()),
}


@pytest.mark.parametrize("name", WORLD)
def test_what_differs_at_each_call_is_refused(name):
    function = WORLD[name]
    with pytest.raises(CompileError, match=r"test_observe.py:\d+.*(would keep|outside)"):
        jtorch.compile(lambda x: x * function())(t(1))


def test_an_iterator_from_outside_is_refused():
    batches = iter([t(1), t(2)])
    with pytest.raises(CompileError, match="from outside, which a recording would do once"):
        jtorch.compile(lambda x: x + next(batches))(t(1))
    with pytest.raises(CompileError, match="takes elements from a list_iterator"):
        jtorch.compile(lambda x: [x + b for b in batches])(t(1))
    assert next(batches).tolist() == [1.0]


def test_a_loader_from_outside_is_refused():
    from jtorch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(jtorch.ones(4, 2)), batch_size=2)
    with pytest.raises(CompileError, match="takes elements from a DataLoader"):
        jtorch.compile(lambda x: [x + b[0] for b in loader])(t(1, 1))


def test_elements_of_a_large_array_are_refused_and_the_array_as_an_operand_is_read_anew():
    table = np.zeros(100_000, np.float32)
    with pytest.raises(CompileError, match=r"elements of a NumPy array.*from_numpy"):
        jtorch.compile(lambda x: x * float(table[0]))(t(1))
    for convert in (lambda array: array, jtorch.from_numpy, jtorch.as_tensor):
        compiled = jtorch.compile(lambda x, convert=convert: x + convert(table))
        for value in (1.0, 2.0):
            table[:] = value
            assert compiled(t(1))[0].item() == 1.0 + value
        assert sum(map(len, compiled.plans.values())) == 1


def test_another_trace_function_is_put_back():
    seen = []

    def trace(frame, event, arg):
        seen.append(frame.f_code.co_name)

    f = jtorch.compile(lambda x: x * TABLE[0])
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        f(t(1))
        assert sys.gettrace() is trace
        with pytest.raises(KeyError):
            jtorch.compile(lambda x: {}["missing"])(t(1))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_a_function_that_sets_a_trace_function_is_refused():
    def f(x):
        sys.settrace(None)
        return x

    with pytest.raises(CompileError, match=r"sys\.settrace"):
        jtorch.compile(f)(t(1))


@pytest.mark.parametrize("field", ["code", "function", "shown", "locals"])
def test_frames_laid_out_otherwise_are_an_error(monkeypatch, field):
    assert probe._finds_operands()
    wrong = dataclasses.replace(frames._layout, **{field: getattr(frames._layout, field) + 8})
    monkeypatch.setattr(frames, "_layout", wrong)
    monkeypatch.setattr(frames, "_FUNCTION", wrong.function)
    monkeypatch.setattr(frames, "_LOCALS", wrong.locals)
    assert not probe._finds_operands()


def test_instructions_that_nobody_knows_are_an_error(monkeypatch):
    assert instructions.unknown() == []
    monkeypatch.setattr(dis, "opmap", {**dis.opmap, "LOAD_FROM_ELSEWHERE": 254})
    assert instructions.unknown() == ["LOAD_FROM_ELSEWHERE"]


@pytest.mark.parametrize("name", ["LOAD_GLOBAL", "LOAD_DEREF", "GET_ITER", "CONTAINS_OP", "LOAD_ATTR"])
def test_an_instruction_that_is_not_looked_at_is_an_error(monkeypatch, name):
    """What a Python gives in which it means something else."""
    assert probe._wrong_reads() == ""
    monkeypatch.delitem(instructions.HANDLERS, name)
    monkeypatch.setattr(stepping, "_TABLES", weakref.WeakKeyDictionary())
    assert "too little: " in probe._wrong_reads()


def test_an_unknown_interpreter_is_told_of_when_a_function_is_decorated(monkeypatch):
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    with pytest.raises(NotImplementedError, match=r"3\.11, 3\.12.*JTORCH_COMPILE=0"):
        jtorch.compile(lambda x: x)


def test_reads_are_distinct_and_do_not_grow_with_layers():
    class Layer(nn.Module):
        scale = 2.0

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.flag = True

        def forward(self, x):
            return self.linear(x) * self.scale * RATE if self.flag else x

    def guards(n):
        net = nn.Sequential(*[Layer() for _ in range(n)])
        f = jtorch.compile(lambda x: net(x))
        f(t(1, 2))
        return sum(read.guarded for read in f._newest().capture.plain)

    assert guards(2) == guards(20) < 11


def test_a_long_function_with_many_names():
    """More than 256 names: instructions with extended arguments."""
    names = {f"n{k}": float(k) for k in range(400)}
    text = "def f(x):\n    return x * (" + " + ".join(names) + ")\n"
    exec(text, names)
    f = jtorch.compile(names["f"])
    before = f(t(1)).item()
    names["n333"] += 1.0
    assert f(t(1)).item() == before + 1.0


def test_a_module_first_imported_inside(tmp_path, monkeypatch):
    (tmp_path / "observed_first.py").write_text("COUNT = []\nRATE = 2.0\nCOUNT.append(1)\nCOUNT[0] = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import observed_first

        return x * observed_first.RATE

    compiled = jtorch.compile(f)
    assert compiled(t(1)).tolist() == [2.0]
    monkeypatch.setattr(sys.modules["observed_first"], "RATE", 3.0)
    assert compiled(t(1)).tolist() == [3.0]
    monkeypatch.delitem(sys.modules, "observed_first")


def test_a_bound_method_of_an_array_from_outside():
    """Its owner has no truth value."""
    total = np.arange(3.0).sum
    f = jtorch.compile(lambda x: x * float(total()))
    assert f(t(1)).tolist() == [3.0]


def test_a_float_argument_as_a_key_is_a_number():
    f = jtorch.compile(lambda x, k: {k: x, "in": [{k: 1}]})
    for k in (2.0, 3.5, 2.0):
        made = f(t(1), k)
        assert [type(key) for key in (*made, *made["in"][0])] == [float, str, float] and k in made


@pytest.mark.parametrize("name", ["getrecursionlimit", "getswitchinterval"])
def test_settings_of_the_interpreter_are_guarded(name):
    get, put = getattr(sys, name), getattr(sys, name.replace("get", "set"))
    before = get()
    f = jtorch.compile(lambda x: x * get())
    try:
        f(t(1))
        put(before * 2)
        assert f(t(1)).item() == pytest.approx(get())
    finally:
        put(before)
