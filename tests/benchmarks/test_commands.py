"""Each command has a help of its own, and says in one line what is wrong before it measures anything."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from subprocess import PIPE

import pytest

from benchmarks import cli, dynamic, steps
from benchmarks.accuracy import section as accuracy
from benchmarks.cli import main, parse, usage
from benchmarks.commands import COMMANDS, NAMES, STORY
from benchmarks.timing import Timing
from benchmarks.workloads import WORKLOADS


def refused(arguments, capsys):
    """The one line of standard error with which the command ends."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    told = capsys.readouterr()
    assert stopped.value.code == 2 and told.out == ""
    (line,) = told.err.splitlines()
    return line


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_a_help(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: python -m benchmarks {name}" in text
    assert " ".join(COMMANDS[name].summary.split()) in " ".join(text.split())


def test_the_usage_names_every_command(capsys):
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == usage().strip()
    assert all(f"\n  {name} " in printed for name in COMMANDS)


def test_which_command_is_meant():
    def meant(*given):
        command, _, options = parse(given)
        return command.name, options.names

    assert meant() == ("verdict", []) and set(STORY) <= set(NAMES)
    assert meant("--quick") == ("verdict", [])
    assert meant("--quick", "toy") == ("verdict", ["toy"])
    assert meant("toy", "--quick", "rnn") == ("run", ["toy", "rnn"])
    assert meant("run") == ("run", [])
    assert meant("compiled", "gpt") == ("compiled", ["gpt"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["verdcit"], "no command named verdcit; did you mean verdict?"),
        (["lenett"], "no command named lenett; did you mean lenet?"),
        (["run", "rn"], "no workload named rn; did you mean rnn?"),
        (["eager", "op"], "no group of eager named op; did you mean ops?"),
        (["compiled", "nanogpt"], "no network named nanogpt; did you mean nano-gpt?"),
        (["accuracy", "summ"], "no case named summ; did you mean sum?"),
        (["dynamic", "image"], ""),
        (["dynamic", "tager"], "no workload named tager"),
        (["run", "--jsn", "a.json"], "unrecognized arguments: --jsn; did you mean --json?"),
        (["run", "--peers", "torhc"], "no peer named torhc; did you mean torch?"),
        (["ddp", "--threads", "2"], "ddp gives each process one thread"),
        (["compile-time", "gtp"], "no workload or network named gtp; did you mean gpt?"),
        (["compile-time", "--equations", "200,x"], "--equations: takes a number from 1, not x"),
        (["overhead", "lenett"], "no workload or network named lenett; did you mean lenet?"),
        (["memory", "ressnet"], "no workload or network named ressnet; did you mean resnet?"),
        (["crossover", "--widths", "0"], "--widths: takes a number from 1, not 0"),
        (["crossover", "-o", "a.pdf"], "takes a name that ends in .svg, .png, .html, not a.pdf"),
        (["cuda", "mnistnet"], "no workload or network named mnistnet; did you mean mnist-net?"),
    ],
)
def test_names_that_are_wrong(arguments, told, capsys, monkeypatch):
    if not told:  # the beginning of a name is enough
        monkeypatch.setattr(dynamic, "report", lambda *given: 0)
        assert main(arguments) == 0
        return
    assert told in refused(arguments, capsys)


@pytest.mark.parametrize(
    "command",
    [
        "verdict", "run", "compiled", "eager", "busy", "ddp", "accuracy", "soundness", "compile-time",
        "overhead", "crossover", "memory", "cuda",
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_refused_at_once(command, tmp_path, capsys):
    file = tmp_path / "missing" / "figures.json"
    assert f"there is no folder {file.parent} to write figures.json into" in refused(
        [command, "--json", str(file)], capsys
    )
    assert f"{tmp_path} is a folder" in refused([command, "--json", str(tmp_path)], capsys)


def test_a_workload_that_raises_is_one_line_and_the_others_go_on(capsys, monkeypatch):
    def broken(torch):
        raise ValueError("this workload is broken")

    toy = replace(WORKLOADS["toy"][0], torch_like=broken)
    monkeypatch.setattr("benchmarks.contestant.workload_of", lambda n: toy if n == "toy" else WORKLOADS[n][0])
    assert main(["toy", "call", "--quick", "--peers", ""], compiler=lambda step: step) == 1
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if "broken" in line]
    assert lines == ["ERROR toy, jtorch eager: ValueError: this workload is broken"]
    assert "x + 1 on 4 elements" in printed.out and "Traceback" not in printed.err


def test_a_case_that_raises_is_one_line_and_the_others_go_on(capsys, monkeypatch):
    before = accuracy.measure

    def measure(case, *rest):
        if case.name == "sum":
            raise ValueError("this case is broken")
        return before(case, *rest)

    monkeypatch.setattr(accuracy, "measure", measure)
    assert main(["accuracy", "sum", "dot", "--quick", "--peers", ""]) == 1
    lines = capsys.readouterr().out.splitlines()[2:]
    assert {line.split()[0] for line in lines} == {"sum", "dot"}
    assert all(("ERROR ValueError" in line) == line.startswith("sum") for line in lines)


def test_what_was_measured_before_ctrl_c_is_printed_and_kept(tmp_path, capsys, monkeypatch):
    def measured(rows, *_, **__):
        rows[0].timings = {"jtorch eager": Timing((4e-3,), 1)}
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "measure_all", measured)
    file = tmp_path / "figures.json"
    assert main(["call", "toy", "--quick", "--peers", "", "--json", str(file)]) == 130
    printed = capsys.readouterr()
    assert "4.00 ms" in printed.out and "neurons" not in printed.out
    assert "interrupted" in printed.err and '"call"' in file.read_text()


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_prints_what_was_measured_and_no_traceback():
    """It reaches all processes of the group, those of the contestants, too."""
    command = [sys.executable, "-m", "benchmarks", "toy", "call", "--peers", ""]
    run = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True)
    time.sleep(2.0)
    os.killpg(run.pid, signal.SIGINT)
    printed, told = run.communicate(timeout=60)
    assert run.returncode == 130 and "Traceback" not in printed + told, told
    assert "interrupted" in told


def test_nothing_of_the_command_line_imports_numpy():
    program = "import sys, benchmarks.cli; print([m for m in ('numpy', 'jtorch.eager') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert cli.DEFAULT in COMMANDS
