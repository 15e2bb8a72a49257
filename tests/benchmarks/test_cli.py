import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cli import main


def unchanged(step):
    return step


def wrong(step):
    return lambda *arguments: step(*arguments) + 1


def test_quick_run_prints_tables_and_writes_json(tmp_path, capsys):
    file = tmp_path / "figures.json"
    before = dict(os.environ)
    status = main(["call", "toy", "--quick", "--peers", "", "--json", str(file)], compiler=unchanged)
    assert status == 0
    assert dict(os.environ) == before
    printed = capsys.readouterr()
    assert "Time of a step" in printed.out and "What the graph costs" in printed.out
    assert [line.split()[0] for line in printed.err.splitlines()] == ["--quick:"]
    content = json.loads(file.read_text())
    assert content["machine"]["threads"] is None and "numpy" in content["machine"]["versions"]
    assert content["settings"] == {"quick": True, "workloads": ["call", "toy"], "peers": []}
    assert [row["name"] for row in content["rows"]] == ["call", "toy"]
    eager = content["rows"][1]["timings"]["jtorch eager"]
    assert eager["min_s"] <= eager["median_s"] and len(eager["samples_s"]) == 3


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_threads_are_each_librarys_own_or_one_number_for_all(threads, tmp_path, monkeypatch, capsys):
    option = [] if threads is None else ["--threads", str(threads)]
    names = ("JTORCH_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "figures.json"
    main(["call", "--quick", "--peers", "", "--json", str(file), *option], compiler=unchanged)
    machine = json.loads(file.read_text())["machine"]
    assert machine["threads"] == threads
    assert machine["thread_variables"] == ({} if threads is None else dict.fromkeys(names, str(threads)))
    says = {None: "default threads", 1: "1 thread", 3: "3 threads"}[threads]
    assert f"cores, {says} for everyone" in " ".join(capsys.readouterr().out.split())


def test_markdown_is_one_table(capsys):
    assert main(["toy", "--quick", "--peers", "", "--markdown"], compiler=unchanged) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [8, 8, 8]
    assert lines[2].startswith("| 5 neurons, forward and backward | ")


def test_modes_that_differ_make_the_exit_status_1(capsys):
    assert main(["toy", "--quick", "--peers", ""], compiler=wrong) == 1
    assert "ERROR toy, jtorch compiled: the result of step 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenett"], "no command named lenett; did you mean lenet?"),
        (["--threads", "0"], "--threads: takes a number from 1, not 0"),
        (["--peers", "keras"], "no peer named keras; there are torch, jax"),
    ],
)
def test_usage_errors_exit_with_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_as_a_user_gives_it(tmp_path):
    """Nothing stubbed, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks", "toy", "mlp", "--quick", "--peers", ""]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "figures.json")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    for row in rows:
        assert row["kernels"] >= 1
        assert row["first_call"]["build_s"] > 0
        assert set(row["timings"]) == {"jtorch eager", "jtorch compiled"}
