"""``jtorch.cuda`` with a device, the tests' own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jtorch
from tests.cuda.marks import compiles

ROOT = Path(__file__).parents[2]


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


# stands in for the machine: its device is the tests'
MACHINE = """
import importlib, importlib.util, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name != "jtorch.compile.run.device_memory":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            module.make = lambda: importlib.import_module("tests.cuda.device").cuda_device()
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
DEFAULT = (
    "import jtorch; print(jtorch.get_default_device(), jtorch.arange(3).device, jtorch.ones(3).tolist())"
)


def by_the_environment(machine=""):
    """What a process prints, where ``JTORCH_DEVICE`` names the device of new tensors."""
    environment = {**os.environ, "JTORCH_DEVICE": "cuda"}
    command = [sys.executable, "-c", machine + DEFAULT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@compiles
def test_the_environment_names_the_device_of_new_tensors():
    assert by_the_environment(MACHINE) == "cuda:0 cuda:0 [1.0, 1.0, 1.0]\n"


def test_it_tells_of_the_device(cuda):
    assert (
        jtorch.cuda.is_available() and jtorch.cuda.device_count() == 1 and jtorch.cuda.current_device() == 0
    )
    assert jtorch.cuda.get_device_name() == cuda.name
    assert jtorch.cuda.get_device_capability() == cuda.capability
    assert jtorch.cuda.is_bf16_supported() and not jtorch.cuda.is_bf16_supported(including_emulation=False)
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
    x = jtorch.ones(3, device="cuda")
    x.mul_(2.0)  # the kernel is made
    start, end = (jtorch.cuda.Event(enable_timing=True) for _ in range(2))
    assert end.query(), "nothing was recorded"
    with pytest.raises(RuntimeError, match="must be recorded before"):
        start.elapsed_time(end)
    jtorch.cuda.synchronize()
    before = len(cuda.fake.ran)
    start.record()
    x.mul_(2.0)
    end.record()
    assert not end.query(), "the device has not come there yet"
    with pytest.raises(RuntimeError, match="must be completed before"):
        start.elapsed_time(end)
    end.synchronize()
    ran = cuda.fake.ran[before:]
    assert ran[0] == ran[-1] == "event" and end.query()
    assert start.elapsed_time(end) == len(ran) - 1, "the tests' device takes a millisecond for each operation"
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        jtorch.cuda.Event().elapsed_time(end)


def test_asking_an_event_again_and_again_comes_to_an_end(cuda):
    jtorch.ones(3, device="cuda").add_(1.0)
    mark = jtorch.cuda.current_stream().record_event()
    asked = 0
    while not mark.query():
        asked += 1
    assert asked > 0


def test_events_are_given_back(cuda):
    for _ in range(3):
        jtorch.cuda.Event().record()
    assert cuda.fake.calls.count("cuEventDestroy_v2") >= 1


def test_streams_are_names_of_one_queue(cuda):
    default = jtorch.cuda.default_stream()
    assert jtorch.cuda.current_stream() is default
    side = jtorch.cuda.Stream()
    side.wait_stream(default)
    with jtorch.cuda.stream(side):
        assert jtorch.cuda.current_stream() is side
        x = jtorch.ones(2, device="cuda") * 3.0
        with jtorch.cuda.stream(None):
            assert jtorch.cuda.current_stream() is side
        done = side.record_event()
    assert jtorch.cuda.current_stream() is default and side.cuda_stream == default.cuda_stream == cuda.stream
    default.wait_event(done)
    done.wait()
    assert (x + 1.0).tolist() == [4.0, 4.0]
    with side:
        assert jtorch.cuda.current_stream() is side
    jtorch.cuda.set_stream(side)
    assert jtorch.cuda.current_stream() is side
    jtorch.cuda.set_stream(default)
    assert "cuda_stream=0x" in repr(side)
    side.synchronize()


def test_what_the_driver_says(cuda):
    free, total = jtorch.cuda.mem_get_info()
    assert 0 < free <= total == cuda.fake.total
    facts = jtorch.cuda.get_device_properties("cuda")
    assert (facts.name, facts.major, facts.minor) == (cuda.name, *cuda.capability)
    assert facts.total_memory == total and facts.warp_size == 32 and facts.multi_processor_count == 2
    kept = jtorch.zeros(1000, device="cuda")
    assert jtorch.cuda.mem_get_info()[0] < free and kept.is_cuda
    stats = jtorch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == jtorch.cuda.memory_allocated()
    assert stats["reserved_bytes.all.peak"] == jtorch.cuda.max_memory_reserved()
    jtorch.cuda.ipc_collect()


def test_the_state_of_draws_is_that_of_the_generator(cuda):
    jtorch.manual_seed(3)
    assert jtorch.cuda.initial_seed() == 3
    state, states = jtorch.cuda.get_rng_state(), jtorch.cuda.get_rng_state_all()
    first = jtorch.randn(3, device="cuda").tolist()
    jtorch.cuda.set_rng_state(state)
    assert jtorch.randn(3, device="cuda").tolist() == first
    jtorch.cuda.set_rng_state_all(states)
    assert jtorch.randn(3, device="cuda").tolist() == first
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        jtorch.cuda.set_rng_state_all(states * 2)


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
