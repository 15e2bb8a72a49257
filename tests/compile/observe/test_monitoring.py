"""Observing by ``sys.monitoring``: other tools, other threads and later calls notice nothing of it."""

import os
import sys
import threading

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t

if sys.version_info < (3, 12):
    pytest.skip("sys.monitoring came with Python 3.12", allow_module_level=True)

monitoring = sys.monitoring
SCALES = [2.0, 3.0]
SMALL = [0.5]


def scaled(x):
    for scale in SCALES:
        x = x * scale
    return x


def test_nothing_is_left_behind():
    before = [monitoring.get_tool(k) for k in range(6)]
    f = jtorch.compile(scaled)
    assert f(t(1)).tolist() == [6.0]
    assert [monitoring.get_tool(k) for k in range(6)] == before
    for k in range(6):
        if before[k] is None:
            monitoring.use_tool_id(k, "test")
            assert monitoring.get_events(k) == 0
            assert monitoring.get_local_events(k, scaled.__code__) == 0
            monitoring.free_tool_id(k)


def test_nothing_is_left_behind_by_a_recording_that_fails():
    def fails(x):
        return x * {}["missing"]

    before = [monitoring.get_tool(k) for k in range(6)]
    with pytest.raises(KeyError):
        jtorch.compile(fails)(t(1))
    assert [monitoring.get_tool(k) for k in range(6)] == before


@pytest.fixture
def line_tool():
    """A tool that is told of lines, and disables those it has seen, as coverage does."""
    tool, lines = next(k for k in range(6) if monitoring.get_tool(k) is None), []

    def line(code, number):
        if code is scaled.__code__:
            lines.append(number)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "lines")
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    yield tool, lines
    monitoring.set_events(tool, 0)
    monitoring.set_local_events(tool, scaled.__code__, 0)
    monitoring.free_tool_id(tool)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="there the two are kept apart, see the next test")
def test_another_tool_goes_on(line_tool):
    tool, lines = line_tool
    monitoring.set_events(tool, monitoring.events.LINE)
    f = jtorch.compile(scaled)
    assert f(t(1)).tolist() == [6.0]
    first = scaled.__code__.co_firstlineno
    assert sorted(set(lines)) == [first + 1, first + 2, first + 3]
    assert monitoring.get_events(tool) == monitoring.events.LINE
    SCALES.append(2.0)
    try:
        assert f(t(1)).tolist() == [12.0]
    finally:
        SCALES.pop()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="instructions are no longer hidden")
@pytest.mark.parametrize("local", [False, True])
def test_a_tool_that_hides_instructions_is_an_error(line_tool, local):
    """Before 3.14 the event of a line's first instruction is lost when the line's own is disabled."""
    tool, _ = line_tool
    if local:
        monitoring.set_local_events(tool, scaled.__code__, monitoring.events.LINE)
    else:
        monitoring.set_events(tool, monitoring.events.LINE)
    with pytest.raises(CompileError, match=r"lines watches its lines.*COVERAGE_CORE=ctrace"):
        jtorch.compile(scaled)(t(1))
    monitoring.set_events(tool, 0)
    monitoring.set_local_events(tool, scaled.__code__, 0)
    assert jtorch.compile(scaled)(t(1)).tolist() == [6.0]


def test_a_debugger_steps_through_what_is_recorded():
    lines = []

    def trace(frame, event, arg):
        if frame.f_code is scaled.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        f = jtorch.compile(scaled)
        assert f(t(1)).tolist() == [6.0]
    finally:
        sys.settrace(before)
    assert len(lines) == 6  # twice through the loop
    SCALES.append(2.0)
    try:
        assert f(t(1)).tolist() == [12.0]
    finally:
        SCALES.pop()


def test_without_a_free_tool_number():
    taken = [k for k in range(6) if monitoring.get_tool(k) is None]
    for k in taken:
        monitoring.use_tool_id(k, f"tool {k}")
    try:
        with pytest.raises(CompileError, match=rf"sys\.monitoring.*tool {taken[0]}"):
            jtorch.compile(scaled)(t(1))
    finally:
        for k in taken:
            monitoring.free_tool_id(k)
    assert jtorch.compile(scaled)(t(1)).tolist() == [6.0]


def test_the_same_code_in_another_thread_is_not_part_of_it():
    """It runs, unobserved, while the recording waits in the middle of a call."""
    entered, finished, seen = threading.Event(), threading.Event(), []

    def shared(x, table):
        return x * table[0]

    def elsewhere():
        entered.wait(10)
        seen.append(shared(10.0, SMALL))
        finished.set()

    def f(x):
        y = shared(x, SCALES)
        hand_over()
        return shared(y, SCALES)

    @jtorch.compiler.disable
    def hand_over():
        entered.set()
        finished.wait(10)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    compiled = jtorch.compile(f)
    assert compiled(t(1)).tolist() == [4.0]
    thread.join()
    assert seen == [5.0]
    assert not any(read.container is SMALL for read in compiled._newest().capture.plain)


@pytest.mark.filterwarnings("ignore:.*is multi-threaded:DeprecationWarning")
def test_a_child_forked_by_another_thread_has_no_recording():
    entered, finished, status = threading.Event(), threading.Event(), []

    def fork():
        entered.wait(10)
        child = os.fork()
        if not child:
            free = [k for k in range(6) if monitoring.get_tool(k) == "jtorch.compile"]
            right = jtorch.compile(scaled)(t(1)).tolist() == [6.0]
            os._exit(0 if right and not free else 1)
        status.append(os.waitpid(child, 0)[1])
        finished.set()

    @jtorch.compiler.disable
    def hand_over():
        entered.set()
        finished.wait(30)

    def f(x):
        hand_over()
        return x * SCALES[0]

    thread = threading.Thread(target=fork)
    thread.start()
    assert jtorch.compile(f)(t(1)).tolist() == [2.0]
    thread.join()
    assert status == [0]
