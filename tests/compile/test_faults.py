"""Faults of the compiler reach users with their line and the way round; what is theirs is let through."""

from __future__ import annotations

import dataclasses
import importlib
import types
from pathlib import Path

import pytest

import jtorch
from jtorch.compile import pipeline
from jtorch.compile.graph import finalise, passes
from jtorch.compile.plan import fuse, memory
from jtorch.compile.record import capture, closing, trace
from jtorch.compile.run import caller, targets
from jtorch.compile.run.backward import Backward
from jtorch.errors import CompileError, InternalError

COMPILER = Path(importlib.import_module("jtorch.compile.api").__file__).parent


def program(x):
    y = x * 1.5
    return (y + y.exp()).sum(dim=0)


LINES = [f"{__file__}:{program.__code__.co_firstlineno + k} in program" for k in (1, 2)]
# stage -> (owner, name of what fails there, whether the line of an equation is known)
STAGES = {
    "the operands of an op": (trace, "check_operands", True),
    "an equation": (trace.Tracer, "emit", True),
    "results": (capture, "results_of", False),
    "the way back": (capture, "differentiate_whole", False),
    "closing": (closing, "check_tape", False),
    "passes": (passes, "_rewritten", False),
    "a rewrite": (passes, "_as_literal", True),
    "copies": (finalise, "finalise", False),
    "fusing": (pipeline, "fuse", False),
    "whether two fuse": (fuse, "obstacle", True),
    "planning": (pipeline, "plan_memory", False),
    "a nest": (memory, "build_nest", True),
    "the cut": (Backward, "_cut", False),
    "the caller": (caller, "_Caller", False),
}
ERRORS = (AssertionError("it cannot be"), KeyError("a"), TypeError, AttributeError)


def _planted(error):
    """A function of the compiler's that fails: with ``error``, or by itself with one of that class."""
    bodies = {TypeError: "return None + 1", AttributeError: "return (1).gone"}
    text = f"def planted(*args, **kwargs): {bodies.get(error, 'raise error')}"
    names = {"error": error}
    exec(compile(text, str(COMPILER / "planted.py"), "exec"), names)
    return names["planted"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_names_the_line_and_the_way_round(stage, monkeypatch):
    owner, name, is_known = STAGES[stage]
    for error in ERRORS:
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, _planted(error))
            with pytest.raises(InternalError) as caught:
                jtorch.compile(program)(jtorch.ones(2, 3, requires_grad=True))
        said = str(caught.value)
        assert "'program'" in said
        assert "JTORCH_COMPILE=0" in said
        assert "jtorch.compiler.disable" in said
        assert f"{__file__}:" in said
        assert not is_known or any(line in said for line in LINES), said
        assert type(caught.value.__cause__) is (error if isinstance(error, type) else type(error))
        assert isinstance(caught.value, CompileError)


def test_a_fault_that_the_function_catches(monkeypatch):
    def catching(x):
        try:
            return x * 2
        except Exception:
            return x

    monkeypatch.setattr(trace, "check_operands", _planted(KeyError("a")))
    with pytest.raises(InternalError, match="'catching'"):
        jtorch.compile(catching)(jtorch.ones(2))


def test_writing_and_loading_kernels(monkeypatch):
    target = targets.chosen()
    for name in ("emit", "load"):
        failing = dataclasses.replace(target, **{name: _planted(KeyError("a"))})
        with monkeypatch.context() as patched:
            patched.setattr(targets, "chosen", lambda *_, failing=failing: failing)
            with pytest.raises(InternalError, match=r"'program'.*JTORCH_COMPILE=0") as caught:
                jtorch.compile(program)(jtorch.ones(2, 3))
        assert type(caught.value.__cause__) is KeyError


def test_a_backward_pass_that_is_compiled_later(monkeypatch):
    y = jtorch.compile(program)(jtorch.ones(2, 3, requires_grad=True))
    monkeypatch.setattr(pipeline, "fuse", _planted(AssertionError("it cannot be")))
    with pytest.raises(InternalError, match=r"'program, its backward pass'.*it cannot be"):
        y.sum().backward()


def test_a_replay(monkeypatch):
    compiled = jtorch.compile(program)
    x = jtorch.ones(2, 3)
    compiled(x)
    monkeypatch.setattr(compiled._latest, "call", _planted(AttributeError))
    with pytest.raises(InternalError, match="'program'"):
        compiled(x)


def test_a_fault_takes_back_what_was_done(monkeypatch):
    counter = types.SimpleNamespace(n=0)
    buffer = jtorch.zeros(2)

    def counting(x):
        counter.n += 1
        buffer.add_(1)
        return x.exp()

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "fuse", _planted(KeyError("a")))
        with pytest.raises(InternalError):
            jtorch.compile(counting)(jtorch.ones(2))
    assert counter.n == 0
    assert buffer.tolist() == [0, 0]


USERS = {
    AssertionError: lambda x: (_ for _ in ()).throw(AssertionError("mine")),
    KeyError: lambda x: {}["mine"],
    NameError: lambda x: mine,  # noqa: F821
    AttributeError: lambda x: x.mine,
    TypeError: lambda x: x + object(),
    IndexError: lambda x: x[7],
    RuntimeError: lambda x: x.view(7),
    ZeroDivisionError: lambda x: x * (1 / 0),
    OSError: lambda x: (_ for _ in ()).throw(OSError("mine")),
    KeyboardInterrupt: lambda x: (_ for _ in ()).throw(KeyboardInterrupt),
    MemoryError: lambda x: (_ for _ in ()).throw(MemoryError),
}


def test_what_is_the_users_is_let_through():
    for kind, f in USERS.items():
        for wrap in (lambda f: f, jtorch.compile):
            with pytest.raises(kind) as caught:
                wrap(f)(jtorch.ones(2))
            assert not isinstance(caught.value, InternalError), kind


def test_lack_of_memory_and_interrupts_are_let_through(monkeypatch):
    for kind in (MemoryError, KeyboardInterrupt):
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "fuse", _planted(kind()))
            with pytest.raises(kind):
                jtorch.compile(program)(jtorch.ones(2, 3))
