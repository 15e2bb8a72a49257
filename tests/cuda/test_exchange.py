"""Memory of the tests' device shared with other libraries: DLPack, the CUDA array interface."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import jtorch
from jtorch.eager import device_exchange
from tests.each import each

pytestmark = pytest.mark.usefixtures("cuda")


class Library:
    """Another library's array: what it gives are this one's capsules, which it notes."""

    def __init__(self, tensor, old=False):
        self.tensor, self.old, self.asked = tensor, old, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        if self.old and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.asked.append((stream, options.get("max_version")))
        return self.tensor.__dlpack__(stream=stream, **options)


class Interface:
    def __init__(self, **told):
        self.__cuda_array_interface__ = told


DTYPES = "float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"


@each("name", DTYPES)
def test_dlpack_goes_round(cuda, name):
    dtype = getattr(jtorch, name)
    x = jtorch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype, device="cuda").t()
    assert x.__dlpack_device__() == (2, 0)
    for taken in (Library(x), Library(x, old=True), jtorch.to_dlpack(x)):
        back = jtorch.from_dlpack(taken)
        assert back.is_cuda and back.dtype is dtype and back.stride() == x.stride()
        assert back.data_ptr() == x.data_ptr() and back.cpu().equal(x.cpu())
        back.zero_()
        assert not x.cpu().to(jtorch.float32).any()
        x.copy_(jtorch.ones(3, 2))


def test_views_empty_ones_and_numbers(cuda):
    x = jtorch.arange(6.0, device="cuda")
    part = jtorch.from_dlpack(x[2:4])
    part.mul_(10.0)
    assert x.tolist() == [0.0, 1.0, 20.0, 30.0, 4.0, 5.0]
    assert jtorch.from_dlpack(jtorch.zeros(0, 3, device="cuda")).shape == (0, 3)
    assert jtorch.from_dlpack(jtorch.tensor(2.5, device="cuda")).item() == 2.5


def test_a_taken_tensor_keeps_the_memory_and_gives_it_back(cuda):
    before = jtorch.cuda.memory_allocated()
    back = jtorch.from_dlpack(jtorch.ones(1000, device="cuda"))
    gc.collect()
    assert jtorch.cuda.memory_allocated() > before and back.sum().item() == 1000.0
    held = len(device_exchange._given)
    del back
    gc.collect()
    assert len(device_exchange._given) == held - 1
    capsule = jtorch.to_dlpack(jtorch.ones(1000, device="cuda"))
    assert len(device_exchange._given) == held
    del capsule  # that nobody has taken
    gc.collect()
    assert len(device_exchange._given) == held - 1


def test_a_capsule_is_taken_once(cuda):
    capsule = jtorch.to_dlpack(jtorch.ones(2, device="cuda"))
    assert jtorch.from_dlpack(capsule).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="capsules can be consumed only once"):
        jtorch.from_dlpack(capsule)


def test_streams_as_dlpack_numbers_them(cuda):
    x = jtorch.ones(2, device="cuda")
    waiting = dict.fromkeys((None, 1, 2, 12345), True) | {-1: False, cuda.stream: False}
    for stream, waits in waiting.items():
        x.add_(1.0)
        before = len(cuda.fake.calls)
        x.__dlpack__(stream=stream)
        assert ("cuStreamSynchronize" in cuda.fake.calls[before:]) is waits
    with pytest.raises(BufferError, match="stream 0"):
        x.__dlpack__(stream=0)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="1")
    library = Library(x)
    jtorch.from_dlpack(library)
    assert library.asked == [(cuda.stream, (1, 0))]


def test_what_dlpack_refuses_and_copies(cuda):
    x = jtorch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__()
    y = x.detach()
    apart = jtorch.from_dlpack(y, copy=True)
    apart.zero_()
    assert y.tolist() == [1.0, 1.0]
    here = jtorch.from_dlpack(y, device="cpu")
    assert not here.is_cuda and here.tolist() == [1.0, 1.0]
    with pytest.raises(BufferError, match="copy is False"):
        jtorch.from_dlpack(y, device="cpu", copy=False)
    assert np.from_dlpack(_Asking(y)).tolist() == [1.0, 1.0]
    with pytest.raises(BufferError, match="can't be shared with device"):
        y.__dlpack__(dl_device=(1, 0), copy=False)


class _Asking:
    """What asks for the host's memory, as NumPy may."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(dl_device=(1, 0))


def test_capsules_of_the_host_go_where_they_did():
    x = jtorch.ones(2)
    back = jtorch.from_dlpack(jtorch.to_dlpack(x))
    x.zero_()
    assert back.tolist() == [0.0, 0.0] and not back.is_cuda


def test_the_interface_tells_of_the_memory(cuda):
    x = jtorch.arange(6.0, device="cuda").reshape(2, 3)
    told = x.t().__cuda_array_interface__
    assert told["version"] == 3 and told["stream"] == cuda.stream and told["typestr"] == "<f4"
    assert told["shape"] == (3, 2) and told["strides"] == (4, 12) and told["data"] == (x.data_ptr(), False)
    assert x.__cuda_array_interface__["strides"] is None
    assert not hasattr(jtorch.ones(2), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match=r"on non-CUDA tensor type: torch\.FloatTensor"):
        jtorch.ones(2).__cuda_array_interface__  # noqa: B018 - asking raises
    with pytest.raises(RuntimeError, match="that requires grad"):
        jtorch.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__  # noqa: B018


@each("function", [jtorch.as_tensor, jtorch.asarray])
def test_the_interface_of_others_is_taken(cuda, function):
    x = jtorch.arange(6.0, device="cuda").reshape(2, 3)
    other = Interface(**x.t().__cuda_array_interface__)
    other.keeps = x
    back = function(other)
    assert back.is_cuda and back.tolist() == x.t().tolist() and back.data_ptr() == x.data_ptr()
    back.add_(1.0)
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert function(other, dtype=jtorch.float64).dtype is jtorch.float64
    assert not function(other, device="cpu").is_cuda


def test_the_queue_of_the_giver_is_waited_for(cuda):
    x = jtorch.ones(2, device="cuda")
    told = x.__cuda_array_interface__
    for stream, waited in ((cuda.stream, []), (None, []), (1, [1]), (2, [2])):
        cuda.fake.waited.clear()
        jtorch.as_tensor(Interface(**told | {"stream": stream}))
        assert cuda.fake.waited == waited
    jtorch.as_tensor(Interface(**{k: v for k, v in told.items() if k != "stream"} | {"version": 2}))
    assert cuda.fake.waited == [2, 1], "an older version says nothing: the default one"


WRONG = {
    "a mask": ({"mask": "some"}, TypeError, "a tensor has none"),
    "stream 0": ({"stream": 0}, ValueError, "stream 0"),
    "byte order": ({"typestr": ">f4"}, ValueError, "byte order"),
    "half steps": ({"strides": (2,)}, ValueError, "multiple of the element"),
    "negative steps": ({"strides": (-4,)}, ValueError, "negative stride"),
}


@each("name", WRONG)
def test_what_no_tensor_holds(cuda, name):
    change, error, text = WRONG[name]
    x = jtorch.ones(2, device="cuda")
    with pytest.raises(error, match=text):
        jtorch.as_tensor(Interface(**x.__cuda_array_interface__ | change))
    address = x.data_ptr()
    for data, told in (((address, True), "may not be written"), ((address + 2, False), "no multiple")):
        with pytest.raises((TypeError, ValueError), match=told):
            jtorch.as_tensor(Interface(**x.__cuda_array_interface__ | {"data": data}))
