"""Clocks in compiled functions on the tests' device, which are read when it is done."""

from __future__ import annotations

import time

import pytest

from jtorch.compile.run.cuda_host import CallBetween
from tests.compile.codegen.cuda_programs import tensor
from tests.cuda.marks import compiles
from tests.cuda.test_calls_out import parts, whole
from tests.cuda.test_compiled import same

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def with_a_clock():
    """A step that reads a clock behind a library call; what it has read rises."""

    def step(x):
        y = (x * 2).cumsum(0)
        begin = time.perf_counter()
        return y, begin

    step, x, times = whole(step), tensor(3), [time.perf_counter()]
    for _ in range(3):
        out, at = step(x.cuda())
        same(out, (x * 2).cumsum(0), 1e-6)
        times.append(at)
    assert times == sorted(set(times))
    return step


@pytest.mark.slow
def test_a_clock_is_read_at_each_call_when_the_device_is_done(cuda):
    step = with_a_clock()
    reading = [part for part in parts(step, CallBetween) if part.call.task.name == "perf_counter"]
    assert len(reading) == 1
    cuda.clear(cuda.allocate(8).address, 8)
    assert len(waiting(cuda)) == 1
    reading[0].run()
    assert cuda.fake.calls[-2:] == ["cuStreamSynchronize", "cuMemcpyHtoDAsync_v2"]
    assert len(waiting(cuda)) == 1  # what it gives


def waiting(device):
    (stream,) = device.fake._streams()
    return stream.queue
