"""DistributedDataParallel, SyncBatchNorm and what belongs to them, in two and four processes."""

import re

import pytest


@pytest.mark.slow
def test_data_parallel(launch):
    ended = launch(2, "data_parallel.py")
    assert ended.text.count("all is well") == 2
    # that the comparison with one process has been made, on both networks
    assert len(re.findall(r"(mlp|lenet): moved [\d.]+, apart [\d.e-]+", ended.text)) == 4


@pytest.mark.parametrize("count", [2, 3])
def test_the_state_of_an_optimizer_is_shared_out(launch, count):
    text = launch(count, "sharded_state.py").text
    assert text.count("of the state, the numbers of the plain optimizer") == count


@pytest.mark.parametrize("count", [3, 4])
def test_numbers_with_more_processes(launch, count):
    checks = ["training", "bits", "unused", "second_backward", "sync_batch", "join", "buffers"]
    assert launch(count, "data_parallel.py", *checks).text.count("all is well") == count


@pytest.mark.parametrize("count", [2, 3])
def test_compiled(launch, count):
    text = launch(count, "compiled.py").text
    assert text.count("all is well") == count
    # that the comparison with eager mode has been made, on three networks, with and without an order
    assert len(re.findall(r"\w+: moved [\d.]+, apart [\d.e-]+", text)) == 6 * count


@pytest.mark.parametrize("mode", ["interpreted", "unjitted"])
def test_compiled_without_kernels(launch, mode):
    options = {"JTORCH_JIT": "0"} if mode == "unjitted" else {"MODE": "interpret"}
    checks = ["gradients", "collectives", "branch", "meets"]
    assert launch(2, "compiled.py", *checks, **options).text.count("all is well") == 2
