"""The command: its table, what is missing, and its exit status."""

import json
import re

import numpy as np
import pytest

from benchmarks.cli import main
from benchmarks.timing import Timing

MACHINE = {"cpu": "a CPU", "cores": 2, "threads": 1, "python": "3.11", "versions": {"numpy": "2.4"}}


def written(path, seed, errors=None, machine=None, **times):
    """A run's file: ``times`` in ms by row."""
    generator = np.random.default_rng(seed)
    rows = []
    for name, ms in times.items():
        samples = tuple((generator.normal(ms, 0.01 * ms, 24) * 1e-3).tolist())
        timing = Timing(samples, 10, (3,) * 8)
        rows.append({"name": name, "what": name, "timings": {"jtorch compiled": timing.as_dict()}})
    for name, text in (errors or {}).items():
        rows.append({"name": name, "what": name, "timings": {}, "errors": {"jtorch compiled": text}})
    content = {"machine": MACHINE | (machine or {}), "settings": {}, "rows": rows}
    path.write_text(json.dumps(content))
    return str(path)


@pytest.fixture
def files(tmp_path):
    before = written(tmp_path / "before.json", 0, mlp=1.0, lenet=3.0, rnn=2.0)
    after = written(
        tmp_path / "after.json", 1, {"rnn": "no kernel"}, {"threads": 2}, mlp=1.0, lenet=3.6, toy=0.5
    )
    return before, after


def test_the_table(files, capsys):
    assert main(["compare", *files]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "after.json against before.json" in text
    assert "another threads: 1 before, 2 after" in text
    assert re.search(r"(19|20|21)% slower", text) and "no change seen" in text
    assert "rnn, jtorch compiled: not in after.json: no kernel" in text
    assert "toy, jtorch compiled: not in before.json" in text
    assert "Of 2 rows are slower: 1, faster: 0." in text


@pytest.mark.parametrize(("allowed", "status"), [("5%", 1), ("5", 1), ("30%", 0)])
def test_a_slower_row_fails_where_it_is_to(allowed, status, files, capsys):
    assert main(["compare", *files, "--fail-on", allowed]) == status
    assert ("FAILED lenet, jtorch compiled: " in capsys.readouterr().out) == bool(status)


def test_a_faster_row_fails_nothing(files, capsys):
    before, after = files
    assert main(["compare", after, before, "--fail-on", "1%"]) == 0
    assert re.search(r"(16|17|18)% faster", " ".join(capsys.readouterr().out.split()))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"),
        ("{", "is no JSON"),
        ("[]", "has no rows"),
        ('{"machine": {}, "rows": [{}]}', "a row without"),
    ],
)
def test_files_that_are_no_runs(text, told, files, tmp_path, capsys):
    path = tmp_path / "other.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        main(["compare", files[0], str(path)])
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and told in line and len(line.splitlines()) == 1


def test_what_is_no_percentage(files, capsys):
    with pytest.raises(SystemExit):
        main(["compare", *files, "--fail-on", "much"])
    assert "takes a percentage as 5%, not much" in capsys.readouterr().err
