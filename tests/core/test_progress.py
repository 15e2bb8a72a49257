"""The line that a terminal shows while a first call takes long."""

import io
import os
import pty
import re
import subprocess
import sys

import pytest

from jtorch.core import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """Standard error as a terminal that is watched. To be called in a test: pytest sets its variable then."""
    for name in ("CI", "PYTEST_CURRENT_TEST", "RANK", "TERM", "JTORCH_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_the_line_has_name_kernels_and_time_left_and_goes_at_the_end(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    clock = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    with progress.of("step"):
        for done, now in enumerate([0.5, 1.0, 1.5]):  # half a second each, of 67
            clock[0] = now
            progress.tell(done, 67, True)
        assert terminal.getvalue() == (
            "\r\x1b[Kjtorch: compiling step, 1/67 kernels, about 33 s left (kept for next time)"
            "\r\x1b[Kjtorch: compiling step, 2/67 kernels, about 32 s left (kept for next time)"
        )
        clock[0] = 1.55  # too soon for another line
        progress.tell(3, 67, True)
        assert terminal.getvalue().count("jtorch") == 2
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_short_call_and_one_that_loads_say_nothing(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    clock = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    with progress.of("step"):
        for done in range(4):
            clock[0] += 0.3
            progress.tell(done, 4, True)
    progress.tell(1, 4, True)  # of no call: an op of eager mode
    assert terminal.getvalue() == ""


def test_the_line_fits_the_terminal_and_says_where_nothing_is_kept(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    with progress.of("a_function_of_a_long_name"):
        progress.tell(0, 67, False)
    line = terminal.getvalue().split("\r\x1b[K")[1]
    assert len(line) == 39 and "kept" not in line


@pytest.mark.parametrize(
    ("name", "value"),
    [("CI", "true"), ("PYTEST_CURRENT_TEST", "x"), ("TERM", "dumb"), ("RANK", "1"), ("JTORCH_LOG", "quiet")],
)
def test_who_is_not_watched_writes_nothing(monkeypatch, name, value):
    on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    assert not progress.is_wanted()


def test_files_and_no_stream_at_all_get_nothing(monkeypatch):
    on_a_terminal(monkeypatch)
    assert progress.is_wanted()
    closed = io.StringIO()
    closed.close()
    for stream in (io.StringIO(), closed, None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert not progress.is_wanted()


SCRIPT = """
import jtorch
from jtorch.core import progress
progress._PATIENCE = 0.0
step = jtorch.compile(lambda x: (x * 2).sum(0) @ x)
print(step(jtorch.ones(3, 3)).tolist())
step(jtorch.ones(3, 3))
"""


@pytest.mark.slow
def test_a_terminal_shows_it_and_a_pipe_does_not(tmp_path):
    surroundings = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_CURRENT_TEST", "RANK")}
    surroundings |= {"TERM": "xterm", "JTORCH_CACHE": str(tmp_path), "COLUMNS": "100"}
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], env=surroundings, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert run.communicate()[0] == b"[18.0, 18.0, 18.0]\n" and run.returncode == 0
    lines = shown.decode().split("\r\x1b[K")
    assert re.match(r"jtorch: compiling <lambda>, 0/\d kernels \(kept for next time\)", lines[1])
    assert lines[0] == lines[-1] == ""
    piped = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=surroundings | {"JTORCH_CACHE": "0"},
        capture_output=True,
        text=True,
    )
    assert (piped.stdout, piped.stderr) == ("[18.0, 18.0, 18.0]\n", "")
