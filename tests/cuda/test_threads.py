"""Threads that use the tests' device at once: what is asked of it by one is asked while no other asks."""

from __future__ import annotations

import threading

import pytest

import jtorch
from jtorch.native.cuda.device import Device
from tests.cuda.marks import compiles

pytestmark = [
    pytest.mark.usefixtures("cuda"),
    compiles,
]


def test_memory_is_asked_for_by_who_owns_the_device(cuda, monkeypatch):
    """As the lists of memory that is kept, and a capture, are those of one thread at a time."""
    allocate, asked = Device.allocate, []

    def noting(self, nbytes):
        def take():  # the device, as another thread might now
            if self.alone.acquire(blocking=False):
                self.alone.release()
                asked.append(nbytes)

        other = threading.Thread(target=take)
        other.start()
        other.join()
        return allocate(self, nbytes)

    monkeypatch.setattr(Device, "allocate", noting)
    step = jtorch.compile(lambda x: (x * 2).cumsum(0) + x.exp().sum(), fullgraph=True, dynamic=True)
    for n in (2, 3, 50, 7):
        x = jtorch.linspace(0, 1, n).cuda()
        step(x)
        ((x * 3).exp().sum() + x.sort()[0]).tolist()
    assert asked == []
