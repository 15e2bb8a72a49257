"""Attributes of objects whose class derives from one that is written in C: of tensors, arrays, modules of
Python and ``threading.local``, found on the class or hung on the object, are read at each call."""

from __future__ import annotations

import threading
import types
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn


class Scaled(nn.Parameter):
    scale = 2.0

    def twice(self):
        return 2.0

    @property
    def third(self):
        return 3.0


class Gained(np.ndarray):
    scale = 2.0
    twice, third = Scaled.twice, Scaled.third


class Named(types.ModuleType):
    scale = 2.0
    twice, third = Scaled.twice, Scaled.third


class Local(threading.local):
    scale = 2.0
    twice, third = Scaled.twice, Scaled.third


MAKERS = {
    "a parameter": lambda: Scaled(jtorch.ones(1)), "an array": lambda: np.ones(2).view(Gained),
    "a module": lambda: Named("m"), "a local": Local,
}  # fmt: skip
READS = {
    "attribute": lambda o: o.scale, "getattr": lambda o: getattr(o, "scale", 1.0),
    "method": lambda o: o.twice(), "property": lambda o: o.third,
    "absent": lambda o: getattr(o, "unit", 1.0), "hasattr": lambda o: 1.0 + hasattr(o, "unit"),
}  # fmt: skip


def _told(wrap, make, read):
    """What calls give while the class, then the object, gets other attributes."""
    of, mp = make(), pytest.MonkeyPatch()
    cls, x, told = type(of), jtorch.ones(1), []
    f = wrap(lambda x: x * read(of))
    steps = [
        lambda: None, lambda: None, lambda: mp.setattr(cls, "scale", 5.0),
        lambda: mp.setattr(cls, "twice", lambda self: 6.0), lambda: mp.setattr(of, "scale", 7.0),
        lambda: mp.setattr(cls, "third", property(lambda self: 8.0)),
        lambda: mp.setattr(cls, "unit", 9.0, raising=False),
        lambda: mp.setattr(of, "unit", 10.0, raising=False), lambda: None,
    ]  # fmt: skip
    try:
        for step in steps:
            step()
            told.append(f(x).item())
    finally:
        mp.undo()
    return told


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("way", READS)
def test_they_are_read_at_each_call(name, way):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = _told(jtorch.compile(fullgraph=False), MAKERS[name], READS[way])
    assert compiled == _told(lambda f: f, MAKERS[name], READS[way])
    assert len(set(compiled)) > 1


def test_a_rate_that_parameters_have_by_class_or_by_themselves():
    def run(wrap):
        w = Scaled(jtorch.ones(2))
        optimizer = jtorch.optim.SGD([w], lr=0.1)

        @wrap
        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            for p in optimizer.param_groups[0]["params"]:
                p.grad.mul_(getattr(p, "scale", 1.0))
            optimizer.step()

        told = []
        for scale in (None, None, 0.0, 4.0):
            if scale is not None:
                w.scale = scale
            step(jtorch.ones(2))
            told.append(w.tolist())
        return told

    assert run(jtorch.compile) == run(lambda f: f)


def test_a_local_of_another_thread_is_its_own():
    local, told = Local(), []
    f = jtorch.compile(lambda x: x * local.scale)
    f(jtorch.ones(1))
    local.scale = 3.0
    thread = threading.Thread(target=lambda: told.append(f(jtorch.ones(1)).item()))
    thread.start()
    thread.join()
    assert told == [2.0] and f(jtorch.ones(1)).item() == 3.0


def test_all_attributes_of_a_local_at_once_are_refused():
    local = Local()
    with pytest.raises(jtorch.errors.CompileError, match="others in each thread"):
        jtorch.compile(lambda x: x * local.__dict__.get("j", 3.0), fullgraph=True)(jtorch.ones(1))
