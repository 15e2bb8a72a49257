"""Settings: a value that would be ignored is an error."""

import os
import subprocess
import sys

import pytest

from jtorch import config
from jtorch.compile import passes


@pytest.mark.parametrize("words", ["nonsense", "graph,code", "graph,"])
def test_words_that_log_nothing_are_an_error(monkeypatch, words):
    monkeypatch.setenv("JTORCH_LOG", words)
    with pytest.raises(ValueError, match=r"^JTORCH_LOG='.*': no '\w*': comma list of trace,"):
        config.get("LOG")


def test_each_pass_can_be_logged(monkeypatch):
    names = [p.__name__ for p in passes.PASSES]
    for stage in ("trace", *names, "graph", "final", "plan", "kernels", "retrace"):
        monkeypatch.setenv("JTORCH_LOG", stage)
        assert config.get("LOG") == stage


@pytest.mark.parametrize("name, text", [("FUEL", "many"), ("JIT", "yes")])
def test_text_of_another_type(monkeypatch, name, text):
    monkeypatch.setenv(f"JTORCH_{name}", text)
    with pytest.raises(ValueError, match=f"JTORCH_{name}='{text}' is not of type"):
        config.get(name)


@pytest.mark.parametrize(
    "device, says", [("cpu", "cpu"), ("cuda", "Torch not compiled with CUDA enabled"), ("gpu", "gpu")]
)
def test_the_device_of_new_tensors(device, says):
    done = subprocess.run(
        [sys.executable, "-c", "import jtorch; print(jtorch.zeros(1).device)"],
        capture_output=True, text=True, check=False, env={**os.environ, "JTORCH_DEVICE": device}, timeout=120,
    )  # fmt: skip
    assert (done.returncode == 0) == (device == "cpu")
    assert says in (done.stdout + done.stderr).splitlines()[-1]
