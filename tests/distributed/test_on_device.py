"""Collectives of tensors on a device go by the host's memory."""

from __future__ import annotations

from tests.cuda.marks import compiles


@compiles
def test_they_give_what_they_give_on_the_host(launch):
    assert launch(2, "on_device.py").text.count("all is as on the host") == 2
