"""fully_shard and checkpoints of what it shards, in one to four processes."""

import re
from pathlib import Path

import pytest

ALONE = [
    "training", "tied", "frozen", "lists", "accumulation", "clipping", "scaler", "between_calls", "graphs",
    "hooks", "other_losses", "dtypes", "precision", "networks", "states",
]  # fmt: skip


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("count", [2, *map(slow, [3, 4])])
def test_fully_sharded(launch, count):
    text = launch(count, "fully_sharded.py").text
    assert text.count("all is well") == count
    # that the comparison with one process has been made: two stages, six optimizers, tied parameters
    assert len(re.findall(r"moved [\d.]+, apart [\d.e-]+", text)) == 9 * count


def test_alone(launch):
    assert "all is well" in launch(1, "fully_sharded.py", *ALONE).text


def test_gradients_of_different_parameters_are_not_mixed(launch):
    text = launch(2, "fully_sharded.py", "mismatch", check=False).text
    assert text.count("all is well") == 2, text


@pytest.mark.parametrize("count", [2, slow(4)])
def test_parameters_do_not_stay_in_memory(launch, count):
    assert launch(count, "fully_sharded_memory.py").text.count("all is well") == count


def test_a_script_of_pytorch(launch, tmp_path):
    script = Path(__file__).parent / "scripts" / "fully_sharded_torch_style.py"
    text = launch(2, f"-m jtorch.as_torch {script} {tmp_path / 'checkpoint'}").text
    assert text.count("all is well") == 2


WAYS = {  # who writes: who reads, each as a kind of model and the number of processes
    ("sharded", 1): [("sharded", 2)],
    ("sharded", 2): [("sharded", 3), ("plain", 1)],
    ("sharded", 3): [("sharded", 1), ("sharded", 2), ("sharded", 4), ("zero", 2), ("ddp", 2)],
    ("sharded", 4): [("sharded", 3)],
    ("ddp", 2): [("sharded", 2)],
    ("zero", 3): [("zero", 2), ("plain", 1)],
    ("plain", 1): [("sharded", 2)],
}


@pytest.mark.slow
@pytest.mark.parametrize("writer", WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def test_a_checkpoint_is_read_by_any_number_of_processes(launch, tmp_path, writer):
    def run(what, kind, count):
        alone = ["alone"] if kind == "plain" and what == "load" else []
        ended = launch(count, "sharded_checkpoint.py", what, kind, str(tmp_path), *alone)
        assert ended.text.count("all is well") == count

    run("save", *writer)
    for reader in WAYS[writer]:
        run("load", *reader)


@pytest.mark.parametrize("kind", ["sharded", "zero", slow("ddp")])
def test_whole_state_dicts(launch, tmp_path, kind):
    assert launch(2, "sharded_checkpoint.py", "whole", kind, str(tmp_path)).text.count("all is well") == 2


@pytest.mark.parametrize("count", [2, slow(3)])
def test_a_process_that_fails_to_write_or_read(launch, tmp_path, count):
    ended = launch(count, "checkpoint_faults.py", str(tmp_path / "checkpoint"))
    assert ended.text.count("all is well") == count
