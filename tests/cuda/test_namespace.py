"""``jtorch.cuda`` with a device, the tests' own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import jtorch


@pytest.mark.slow
def test_without_a_driver_nothing_is_there_and_importing_looks_for_none():
    text = (
        "import jtorch\n"
        "asked = []\n"
        "from jtorch.native.cuda import driver\n"
        "driver._load = lambda *names: asked.append(names)\n"
        "jtorch.zeros(2).to('cpu')\n"
        "assert not jtorch.cuda.is_initialized() and jtorch.cuda.memory_allocated() == 0 and not asked\n"
        "assert not jtorch.cuda.is_available() and jtorch.cuda.device_count() == 0\n"
        "try: jtorch.zeros(2, device='cuda')\n"
        "except AssertionError as error: print(error)\n"
        "assert len(asked) <= 1\n"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert found.stdout == "Torch not compiled with CUDA enabled\n", found.stderr


def test_it_tells_of_the_device(cuda):
    assert (
        jtorch.cuda.is_available() and jtorch.cuda.device_count() == 1 and jtorch.cuda.current_device() == 0
    )
    assert jtorch.cuda.get_device_name() == cuda.name
    assert jtorch.cuda.get_device_capability() == cuda.capability
    jtorch.cuda.set_device(0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        jtorch.cuda.set_device(1)


def test_memory_is_counted(cuda):
    before = jtorch.cuda.memory_allocated()
    x = jtorch.zeros(1000, device="cuda")
    assert jtorch.cuda.memory_allocated() - before == 4096
    assert jtorch.cuda.memory_reserved() >= jtorch.cuda.memory_allocated()
    del x
    assert jtorch.cuda.memory_allocated() == before
    assert jtorch.cuda.max_memory_allocated() >= before + 4096
    jtorch.cuda.reset_peak_memory_stats()
    assert jtorch.cuda.max_memory_allocated() == before
    jtorch.cuda.empty_cache()
    assert jtorch.cuda.memory_reserved() == before
    assert "allocated" in jtorch.cuda.memory_summary()


def test_a_loop_does_not_grow(cuda):
    w = jtorch.ones(8, device="cuda", requires_grad=True)
    held = []
    for _ in range(8):
        w.grad = None
        (w * w).sum().backward()
        held.append(jtorch.cuda.memory_allocated())
    assert len(set(held[1:])) == 1, "the first step makes the kernels"


def test_events_and_the_stream(cuda):
    start, end = (jtorch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    jtorch.ones(3, device="cuda").mul_(2.0)
    end.record()
    jtorch.cuda.current_stream().synchronize()
    assert end.query() and start.elapsed_time(end) > 0.0
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        jtorch.cuda.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="one stream"):
        jtorch.cuda.Stream()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_the_child_of_a_fork_is_refused(cuda):
    x = jtorch.ones(2, device="cuda")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            x.sum().item()
            told = "it computed"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(reading, 4096).decode()
    assert "Cannot re-initialize CUDA in forked subprocess" in told
    assert x.sum().item() == 2.0
