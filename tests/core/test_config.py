"""Settings: a value that would be ignored is an error."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.compile.graph import passes
from jtorch.core import config


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


@pytest.mark.parametrize("name, text", [("FUEL", "many"), ("CHECK", "yes")])
def test_text_of_another_type(monkeypatch, name, text):
    monkeypatch.setenv(f"JTORCH_{name}", text)
    with pytest.raises(ValueError, match=f"JTORCH_{name}='{text}' is not of type"):
        config.get(name)


@pytest.mark.parametrize("text", ["yes", "1,llvm", "LLVM"])
def test_text_that_is_no_choice(monkeypatch, text):
    monkeypatch.setenv("JTORCH_JIT", text)
    with pytest.raises(ValueError, match=f"^JTORCH_JIT='{text}': not one of 0, 1, llvm: 0 runs"):
        config.get("JIT")


@pytest.mark.parametrize("text, jitted", [("", True), ("1", True), ("llvm", True), ("0", False)])
def test_whether_kernels_become_native_code(monkeypatch, text, jitted):
    monkeypatch.setenv("JTORCH_JIT", text)
    assert config.jitted() == jitted


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


def test_nobody_takes_the_text_of_the_setting_for_a_truth():
    """``JTORCH_JIT=0`` is the text "0", which is true: ``jitted()`` is the question."""
    package = Path(config.__file__).parents[1]
    asked = [p for p in package.rglob("*.py") if re.search(r'(?<!== )get\("JIT"\)(?! [!=]=)', p.read_text())]
    assert asked == []
