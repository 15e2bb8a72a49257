"""``to`` in all its forms, ``type``, ``cpu`` and ``cuda``."""

from __future__ import annotations

import pytest

import jtorch
from jtorch.core import memory_formats


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


FORMS = {
    "nothing": lambda L, x: x.to(), "none": lambda L, x: x.to(None), "dtype": lambda L, x: x.to(L.float64),
    "same": lambda L, x: x.to(L.float32), "device": lambda L, x: x.to("cpu"),
    "device object": lambda L, x: x.to(L.device("cpu")), "both": lambda L, x: x.to("cpu", L.float64),
    "names": lambda L, x: x.to(device="cpu", dtype=L.int32), "other": lambda L, x: x.to(L.ones(1).double()),
    "int": lambda L, x: x.to(int), "flag": lambda L, x: x.to(L.float64, True),
    "copy": lambda L, x: x.to(L.float32, False, True),
    "copy by name": lambda L, x: x.to(copy=True), "all": lambda L, x: x.to("cpu", L.float64, False, True),
    "other and copy": lambda L, x: x.to(x, copy=True), "dtype named": lambda L, x: x.to("cpu", dtype=L.int64),
    "type": lambda L, x: x.type(L.float64), "type name": lambda L, x: x.type("torch.DoubleTensor"),
    "type same": lambda L, x: x.type(L.float32), "cpu": lambda L, x: x.cpu(),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms(form, torch):
    def seen(library):
        x = library.tensor([1.0, 2.5])
        y = form(library, x)
        return y is x, str(y.dtype).rpartition(".")[2], y.tolist(), y.data_ptr() == x.data_ptr()

    assert seen(jtorch) == seen(torch)


WRONG = {
    "dtype after other": lambda L, x: x.to(x, L.float64), "two devices": lambda L, x: x.to("cpu", "cpu"),
    "unknown": lambda L, x: x.to(foo=1), "other by name": lambda L, x: x.to(other=x),
    "twice": lambda L, x: x.to(L.float64, dtype=L.float64), "list": lambda L, x: x.to([1]),
    "too many": lambda L, x: x.to(L.float64, False, False, False),
}  # fmt: skip


@pytest.mark.parametrize("form", WRONG.values(), ids=WRONG)
def test_what_is_no_form(form, torch):
    for library in (jtorch, torch):
        with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \("):
            form(library, library.ones(2))


def test_gradients_pass_a_cast():
    x = jtorch.ones(3, requires_grad=True)
    y = x.to(jtorch.float64)
    assert y.grad_fn.name() == "ToCopyBackward0"
    (y * 2).sum().backward()
    assert x.grad.dtype is jtorch.float32 and x.grad.tolist() == [2.0] * 3


def test_other_devices():
    x = jtorch.ones(2)
    for ask in (x.cuda, lambda: x.to("cuda"), lambda: x.to(device="cuda:0"), lambda: x.cuda("cuda:1")):
        with pytest.raises(RuntimeError, match="not compiled with CUDA"):
            ask()
    with pytest.raises(RuntimeError, match="float32"):
        x.to("float32")
    assert x.get_device() == -1


def test_memory_formats():
    x = jtorch.ones(2, 3).t()
    assert x.to(memory_format=memory_formats.preserve_format) is x
    y = x.to(memory_format=memory_formats.contiguous_format)
    assert y.is_contiguous() and y.tolist() == x.tolist()
    assert x.to(jtorch.float64, memory_format=memory_formats.contiguous_format).is_contiguous()
    assert x.cpu(memory_format=memory_formats.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        x.to(memory_format=memory_formats.channels_last)
    with pytest.raises(TypeError, match=r"must be torch\.memory_format, not str"):
        x.to(memory_format="channels_last")


def _in_channels_last(L):
    x = L.arange(48.0).reshape(2, 2, 3, 4).requires_grad_()
    v = L.arange(96.0).reshape(2, 2, 2, 3, 4)
    made = {
        "contiguous": x.contiguous(memory_format=L.channels_last),
        "to": x.to(memory_format=L.channels_last),
        "to dtype": x.to(L.float64, memory_format=L.channels_last),
        "double": x.double(memory_format=L.channels_last),
        "3d": v.contiguous(memory_format=L.channels_last_3d),
        "zeros_like": L.zeros_like(x, memory_format=L.channels_last),
        "full_like": L.full_like(x, 2.0, memory_format=L.channels_last),
        "empty": L.empty(2, 3, 4, 5, memory_format=L.channels_last).zero_(),
    }
    found = {name: (t.shape, t.stride(), t.requires_grad, t.tolist()) for name, t in made.items()}
    last = made["contiguous"]
    (last * last).sum().backward()
    again = last.to(memory_format=L.channels_last) is last
    back = last.contiguous().stride(), last.is_contiguous(memory_format=L.channels_last)
    return found, x.grad.tolist(), again, back, L.ones(2, 0, 1, 3).to(memory_format=L.channels_last).shape


def test_channels_last(torch):
    assert _in_channels_last(jtorch) == _in_channels_last(torch)


def test_channels_last_in_a_compiled_step():
    def step(x, w):
        y = jtorch.nn.functional.conv2d(x.to(memory_format=jtorch.channels_last), w).relu()
        return y, y.contiguous(memory_format=jtorch.channels_last)

    x, w = jtorch.randn(2, 3, 6, 6), jtorch.randn(4, 3, 3, 3)
    for a, b in zip(step(x, w), jtorch.compile(step, fullgraph=True)(x, w), strict=True):
        assert a.stride() == b.stride() and jtorch.equal(a, b)


def test_types(torch):
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"):
        ours, theirs = jtorch.zeros(1).to(getattr(jtorch, name)), torch.zeros(1).to(getattr(torch, name))
        assert ours.type() == theirs.type()
        assert jtorch.zeros(1).type(theirs.type()).dtype is getattr(jtorch, name)
    for library in (jtorch, torch):
        with pytest.raises(ValueError, match="invalid type: 'foo'"):
            library.ones(1).type("foo")
        with pytest.raises(ValueError, match="invalid type: 'float'"):
            library.ones(1).type(float)
        with pytest.raises(TypeError, match="dtype must be a type, str, or dtype object"):
            library.ones(1).type(3)
