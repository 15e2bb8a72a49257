"""What asks for an integer takes no float and no bool, in eager mode and while a function is compiled."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch

PROGRAMS = {
    "narrow": lambda T, x, k: x.narrow(0, k, 1),
    "select": lambda T, x, k: x.select(0, k),
    "tril": lambda T, x, k: x.tril(k),
    "triu": lambda T, x, k: T.triu(x, diagonal=k),
    "diagonal": lambda T, x, k: x.diagonal(k),
    "topk": lambda T, x, k: x.topk(k)[0],
    "kthvalue": lambda T, x, k: x.kthvalue(k)[0],
    "chunk": lambda T, x, k: x.chunk(k)[0],
    "unfold": lambda T, x, k: x.unfold(0, k, 1),
    "expand": lambda T, x, k: x[:1].expand(k, 4),
    "repeat": lambda T, x, k: x.repeat(k, 1),
    "view": lambda T, x, k: x.view(k, -1),
    "roll": lambda T, x, k: x.roll(k),
    "unsqueeze": lambda T, x, k: x.unsqueeze(k),
    "transpose": lambda T, x, k: x.transpose(k, 0),
    "sum": lambda T, x, k: x.sum(k),
    "argmax": lambda T, x, k: x.argmax(k),
    "logsumexp": lambda T, x, k: x.logsumexp(k),
    "softmax": lambda T, x, k: x.softmax(k),
    "cumsum": lambda T, x, k: x.cumsum(k),
    "cat": lambda T, x, k: T.cat([x, x], k),
    "zeros": lambda T, x, k: T.zeros(k),
    "full": lambda T, x, k: T.full((k,), 1.0),
    "as_strided": lambda T, x, k: x.as_strided((k,), (1,)),
    "as_strided by": lambda T, x, k: x.as_strided((1,), (k,)),
    "as_strided from": lambda T, x, k: x.as_strided((1,), (1,), k),
    "split": lambda T, x, k: x.split([k, k])[0],
    "random_": lambda T, x, k: x.clone().random_(k) * 0,
    "linspace": lambda T, x, k: T.linspace(0, 1, k),
    "logspace": lambda T, x, k: T.logspace(0, 1, k),
    "pad": lambda T, x, k: T.nn.functional.pad(x, (k, k)),
    "unfold of images": lambda T, x, k: T.nn.functional.unfold(x[None, None], k),
    "local_response_norm": lambda T, x, k: T.nn.functional.local_response_norm(x[None], k),
    "group_norm": lambda T, x, k: T.nn.functional.group_norm(x, k),
    "pixel_shuffle": lambda T, x, k: T.nn.functional.pixel_shuffle(x[None], k),
    "interpolate": lambda T, x, k: T.nn.functional.interpolate(x[None], size=k),
    "cross_entropy": lambda T, x, k: T.nn.functional.cross_entropy(x, x[:, 0].long(), ignore_index=k),
    "nll_loss": lambda T, x, k: T.nn.functional.nll_loss(x, x[:, 0].long(), ignore_index=k),
    "embedding": lambda T, x, k: T.nn.functional.embedding(x[:, 0].long(), x, padding_idx=k),
}
TAKE_BOOLS = {"pad", "unfold of images", "local_response_norm", "view"}  # as an int, or with another error


def data(T):
    return T.arange(8.0).reshape(2, 4) % 2


def test_floats_and_bools_are_refused():
    for name, program in PROGRAMS.items():
        for wrong in (1.5, 0.0, True):
            if wrong is True and name in TAKE_BOOLS:
                continue
            with pytest.raises(TypeError):
                pytest.fail(f"{name} took {wrong}: {program(jtorch, data(jtorch), wrong)}")


def test_pytorch_refuses_them():
    torch = pytest.importorskip("torch")
    for name, program in PROGRAMS.items():
        for wrong in (1.5, 0.0, True):
            if wrong is True and name in TAKE_BOOLS:
                continue
            with pytest.raises((TypeError, ZeroDivisionError)):
                pytest.fail(f"{name} took {wrong}: {program(torch, data(torch), wrong)}")


def test_integers_of_numpy_and_of_tensors_are_taken():
    for name, program in PROGRAMS.items():
        right = program(jtorch, data(jtorch), 1)
        found = program(jtorch, data(jtorch), np.int64(1))
        assert (right == found).all() and right.shape == found.shape, name
    assert data(jtorch).narrow(0, jtorch.tensor(1), 1).shape == (1, 4)


@pytest.mark.slow
def test_floats_are_refused_while_compiled_though_nobody_reads_the_result():
    for name, program in PROGRAMS.items():
        step = jtorch.compile(lambda x, k, program=program: (program(jtorch, x, k), x * 2)[1])
        x = data(jtorch)
        assert step(x, 1).tolist() == (x * 2).tolist()
        for wrong in (1.5, 0.0):
            with pytest.raises(TypeError):
                pytest.fail(f"{name} took {wrong}: {step(x, wrong)}")


def test_windows_that_cannot_be():
    F = jtorch.nn.functional
    x = jtorch.ones(1, 1, 2, 4)
    wrong = [
        ("kernel size should be greater than zero", lambda: F.unfold(x, -1)),
        ("kernel size should be greater than zero", lambda: F.unfold(x, (0, 1))),
        ("stride should be greater than zero", lambda: F.unfold(x, 1, stride=0)),
        ("dilation should be greater than zero", lambda: F.fold(x[0], (2, 4), 1, dilation=0)),
        ("padding should be non-negative", lambda: F.unfold(x, 1, padding=-1)),
        ("negative dimension -1", lambda: x.as_strided((-1,), (1,))),
        ("size must be greater than zero", lambda: F.local_response_norm(x, 0)),
    ]
    for text, program in wrong:
        for called in (program, jtorch.compile(program)):
            with pytest.raises(RuntimeError, match=text):
                called()
