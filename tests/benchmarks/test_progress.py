"""Progress is for terminals, and Ctrl-C within it ends the measuring alone."""

import io

import pytest

from benchmarks.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_written_over():
    stream = Terminal()
    with Progress(stream) as progress:
        progress.say("lenet")
        progress.line("lenet 3 ms")
        progress.say("x" * 1000)
    assert stream.getvalue().startswith("\r\x1b[Klenet\r\x1b[Klenet 3 ms\n\r\x1b[Kxxx")
    assert stream.getvalue().endswith("x\r\x1b[K")
    assert "x" * 500 not in stream.getvalue()  # a terminal would wrap it


def test_elsewhere_it_is_silent():
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.say("lenet")
        progress.line("lenet 3 ms")
    assert stream.getvalue() == ""
    assert (progress.status(failed=False), progress.status(failed=True)) == (0, 1)


def test_ctrl_c_is_noted(capsys):
    with Progress(io.StringIO()) as progress:
        raise KeyboardInterrupt
    assert progress.interrupted and progress.status(failed=True) == 130
    assert "interrupted" in capsys.readouterr().err
    with pytest.raises(ValueError, match="a fault"), Progress(io.StringIO()):
        raise ValueError("a fault")
