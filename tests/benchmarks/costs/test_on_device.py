import importlib.util

import pytest

import jtorch
from benchmarks.cli import main
from benchmarks.contestant import COMPILED, EAGER
from benchmarks.costs import on_device
from benchmarks.timing import Effort
from benchmarks.workloads import ROWS
from tests.cuda.conftest import cuda  # noqa: F401 - a fixture


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
    row = on_device.measure(ROWS["toy"], Effort(rounds=2, seconds=1e-4))
    assert row.errors == {} and set(row.timings) == {EAGER, COMPILED}
    assert all(seconds > 0 for timing in row.timings.values() for seconds in timing.samples)
    assert jtorch.get_default_device() == jtorch.device("cpu")


@pytest.mark.usefixtures("cuda")
def test_a_step_that_does_not_compile_there_still_has_an_eager_time(monkeypatch):
    def refuse(step):
        raise ValueError("no plan")

    monkeypatch.setattr(jtorch, "compile", refuse)
    row = on_device.measure(ROWS["toy"], Effort(rounds=1, seconds=1e-4))
    assert set(row.timings) == {EAGER} and row.errors == {COMPILED: "ValueError: no plan"}
