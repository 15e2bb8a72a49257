"""How command lines of ours end: one line where something outside is wrong, no traceback."""

import os
import signal
import subprocess
import sys

import pytest

from jtorch.core.command import run


def _raising(error):
    def main():
        raise error

    return main


def test_statuses_and_lines(capsys):
    cases = (
        (lambda: None, 0, ""),
        (lambda: 3, 3, ""),
        (_raising(KeyboardInterrupt()), 130, "ours: interrupted\n"),
        (_raising(FileNotFoundError(2, "No such file or directory", "a.txt")), 2,
         "ours: No such file or directory: 'a.txt'\n"),
        (_raising(ValueError("JTORCH_JIT='3': none")), 2, "ours: JTORCH_JIT='3': none\n"),
    )  # fmt: skip
    for main, status, told in cases:
        assert run(main, "ours") == status
        assert capsys.readouterr().err == told
    with pytest.raises(ValueError, match="a fault of ours"):
        run(_raising(ValueError("a fault of ours")), "ours")


@pytest.mark.slow
def test_processes(tmp_path):
    """Wrong arguments, wrong settings, files that are not there, a reader that has gone, Ctrl-C."""
    no_file = str(tmp_path / "none.py")
    cases = [
        (["-m", "jtorch.config", "more"], {}, 2, "takes no arguments"),
        (["-m", "jtorch.config"], {"JTORCH_JIT": "3"}, 2, "JTORCH_JIT='3'"),
        (["-m", "jtorch.doctor", "more"], {}, 2, "takes no arguments"),
        (["-m", "jtorch.native.cache", "list"], {}, 2, "invalid choice"),
        (["-m", "jtorch.compile.inspect.bisect", no_file], {}, 2, "none.py"),
        (["-m", "jtorch.as_torch", no_file], {}, 2, "none.py"),
        (["-m", "jtorch.distributed.run", no_file], {}, 2, "No such file or directory: '"),
        (["-m", "benchmarks", "guards", "more"], {}, 2, "unrecognized arguments"),
        (["-m", "jtorch.as_torch", "-m", "no_such_module"], {}, 2, "no module named 'no_such_module'"),
        (["-m", "benchmarks", "no_such_workload"], {}, 2, "no_such_workload"),
    ]
    for command, settings, status, told in cases:
        done = subprocess.run(
            [sys.executable, *command], env=os.environ | settings, capture_output=True, text=True
        )
        assert done.returncode == status and told in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)

    gone, ours = os.pipe()
    os.close(gone)
    piped = subprocess.run([sys.executable, "-m", "jtorch.config"], stdout=ours, stderr=subprocess.PIPE)
    os.close(ours)
    assert (piped.returncode, piped.stderr) == (141, b"")

    script = "import time; from jtorch.core.command import run\n"
    script += "raise SystemExit(run(lambda: print('on', flush=True) or time.sleep(60), 'ours'))"
    stopped = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert stopped.stdout.readline() == b"on\n"
    stopped.send_signal(signal.SIGINT)
    assert stopped.communicate()[1] == b"ours: interrupted\n" and stopped.returncode == 130

    (tmp_path / "mine.py").write_text("import torch\nopen('no such file')\n")
    for command in (["mine.py"], ["-m", "mine"]):  # the user's own error keeps its traceback
        done = subprocess.run(
            [sys.executable, "-m", "jtorch.as_torch", *command], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 1 and 'mine.py", line 2' in done.stderr, done.stderr
        assert "Traceback" in done.stderr and "as_torch" not in done.stderr, done.stderr
