"""The CPU is one object: factories compare with it at each call, and where it was another one they copied."""

from __future__ import annotations

import jtorch
from jtorch.core import devices


def test_the_cpu_is_one_object_however_it_is_asked_for():
    asked = (None, "cpu", devices.CPU, jtorch.device("cpu"))
    assert all(devices.check(spec) is devices.CPU for spec in asked)
    assert devices.chosen(None) is devices.get_default_device() is devices.CPU
    with jtorch.device("cpu"):
        assert devices.chosen(None) is devices.CPU
