import importlib.util
import json

import numpy as np
import pytest

import jtorch
from benchmarks.agree import Record
from benchmarks.cli import main
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.costs import device_peers, on_device
from benchmarks.models.rows import MODELS
from benchmarks.models.small import perceptron
from benchmarks.program import Workload
from benchmarks.timing import Effort, host_clock
from benchmarks.workloads import ROWS
from tests.cuda.conftest import cuda  # noqa: F401 - a fixture

SMALL = Workload("small", "MLP 8-8-10, b4", lambda torch: perceptron(torch, 4, 8, 8, 10))


@pytest.mark.skipif(jtorch.cuda.is_available(), reason="there is a device")
def test_without_a_device_the_command_says_what_cuda_says(capsys):
    with pytest.raises(RuntimeError) as refused:
        jtorch.ones(1).cuda()
    with pytest.raises(SystemExit) as stopped:
        main(["cuda"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"python -m benchmarks cuda: {refused.value}\n"


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not there")
@pytest.mark.usefixtures("cuda")
def test_on_the_tests_device_both_modes_have_times():
    assert on_device.missing() == ""
    row = on_device.measure(SMALL, Effort(rounds=2, seconds=1e-4))
    assert row.errors == {} and set(row.timings) == {EAGER, COMPILED}
    assert all(seconds > 0 for timing in row.timings.values() for seconds in timing.samples)
    assert jtorch.get_default_device() == jtorch.device("cpu")
    assert 2 <= row.launches[COMPILED] < row.launches[EAGER]
    assert all(32 << 20 < row.peak[mode] < 33 << 20 for mode in (COMPILED, EAGER)), "and cuBLAS has 32 MiB"
    assert 0 < max(row.off.values()) < 1e-6
    told = json.loads(json.dumps(row.as_dict()))
    assert told["launches"] == row.launches and told["peak_bytes"] == row.peak


@pytest.mark.usefixtures("cuda")
def test_a_step_that_does_not_compile_there_still_has_an_eager_time(monkeypatch):
    def refuse(step):
        raise ValueError("no plan")

    monkeypatch.setattr(jtorch, "compile", refuse)
    row = on_device.measure(ROWS["toy"], Effort(rounds=1, seconds=1e-4))
    assert set(row.timings) == {EAGER} and row.errors == {COMPILED: "ValueError: no plan"}


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not there")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch, a peer, is not installed")
@pytest.mark.usefixtures("cuda")
def test_a_peer_is_compared_and_timed():
    row = on_device.measure(SMALL, Effort(rounds=1, seconds=1e-4), ["torch", "jax"], device="cpu")
    assert "torch" in row.timings and row.off["torch"] < 1e-6
    assert "torch" not in row.launches and "torch" not in row.peak, "nobody asked its driver"
    assert "jax" not in row.timings, "the network is not written for it"
    assert set(row.errors) <= {"jax"}


def test_a_peer_that_computes_something_else_has_no_time(monkeypatch):
    programs = [ROWS["toy"].torch_like(jtorch) for _ in range(3)]
    step = programs[2].step
    programs[2].step = lambda *arguments: step(*arguments) * 2.0
    given = iter(programs)

    def found(*_):
        return device_peers.OnDevice(next(given), host_clock, lambda: None, lambda: None)

    monkeypatch.setattr(on_device, "_ours", found)
    monkeypatch.setattr(on_device, "peer", found)
    monkeypatch.setattr(on_device, "_launches", lambda program, step: 1)
    row = on_device.measure(ROWS["toy"], Effort(rounds=1, seconds=1e-4), ["torch"])
    assert set(row.timings) == {EAGER, COMPILED}
    assert "differs" in row.errors["torch"]


def test_what_jax_has_not_is_said():
    with pytest.raises(NotImplementedError, match="cnn is not written for JAX"):
        device_peers.peer("jax", MODELS["cnn"], "cpu")


def test_distances_are_of_the_largest_element():
    exact = Record([], {"w": np.array([0.0, 2.0]), "b": np.array([1e-9])}, {})
    found = Record([], {"w": np.array([0.5, 2.0], np.float32), "b": np.array([2e-9], np.float32)}, {})
    assert on_device.apart(found, exact) == pytest.approx(0.25)
    found.gradients["w"][0] = 0.0
    assert on_device.apart(found, exact) == pytest.approx(1e-9 / 2e-3)


def test_unknown_peers_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["cuda", "--peers", "tensorflow"])
    assert stopped.value.code == 2 and "no peer named tensorflow" in capsys.readouterr().err


def test_a_workload_of_its_own_dtype_has_no_distance_from_float64():
    assert on_device.in_float64(ROWS["toy"]) is None
    assert on_device.in_float64(SMALL).gradients["0.weight"].dtype == np.float64
