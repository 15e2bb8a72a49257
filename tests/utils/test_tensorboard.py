"""``utils.tensorboard``: tensorboardX's writer, given arrays for tensors; a sentence where it is missing."""

from __future__ import annotations

import importlib
import sys
import types

import numpy as np
import pytest

import jtorch


@pytest.fixture
def tensorboard(monkeypatch):
    """Imports the module anew, with ``writer`` as what tensorboardX has, or nothing."""

    def imported(writer):
        package = None
        if writer is not None:
            package = types.ModuleType("tensorboardX")
            package.SummaryWriter = writer
        monkeypatch.setitem(sys.modules, "tensorboardX", package)
        monkeypatch.delitem(sys.modules, "jtorch.utils.tensorboard", raising=False)
        return importlib.import_module("jtorch.utils.tensorboard")

    yield imported
    sys.modules.pop("jtorch.utils.tensorboard", None)


def test_says_what_is_missing(tensorboard):
    module = tensorboard(None)
    with pytest.raises(ImportError, match="needs the package tensorboardX"):
        module.SummaryWriter("runs")


def test_hands_on_arrays(tensorboard):
    class Writer:
        def __init__(self, folder):
            self.folder, self.got = folder, []

        def add_scalar(self, tag, value, step=None):
            self.got.append((tag, value, step))

        def add_scalars(self, tag, values, global_step=None):
            self.got.append((tag, values, global_step))

        def close(self):
            self.got.append("closed")

    with_tensors = tensorboard(Writer).SummaryWriter("runs")
    with_tensors.add_scalar("loss", jtorch.tensor(1.5, requires_grad=True), 3)
    with_tensors.add_scalars("both", {"a": jtorch.ones(2), "b": 2.0}, global_step=4)
    with_tensors.close()
    (tag, value, step), (_, values, _), closed = with_tensors.got
    assert (tag, float(value), step, closed, with_tensors.folder) == ("loss", 1.5, 3, "closed", "runs")
    assert type(value) is type(values["a"]) is np.ndarray
    with pytest.raises(NotImplementedError, match="explain"):
        with_tensors.add_graph(None)
