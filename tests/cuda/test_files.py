"""Tensors on the tests' device in files, pickles and copies: they come back to where they were."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.run import device_memory
from jtorch.core.errors import CudaError
from tests.each import each


@pytest.fixture
def no_cuda(monkeypatch):
    """What ``cuda`` gives, and a function that takes the device away."""

    def make():
        raise CudaError("no device")

    def take_away():
        monkeypatch.setattr(device_memory, "make", make)
        device_memory.use(None)

    yield take_away
    device_memory.use(None)


def saved(obj, **options):
    file = io.BytesIO()
    jtorch.save(obj, file, **options)
    return file


def loaded(file, *args, **options):
    file.seek(0)
    return jtorch.load(file, *args, **options)


def test_a_tensor_comes_back_to_the_device(cuda):
    x = jtorch.randn(2, 3, device="cuda", requires_grad=True)
    back = loaded(saved({"x": x, "n": 3}))
    assert back["n"] == 3 and back["x"].device == x.device and back["x"].requires_grad
    assert back["x"].tolist() == x.tolist()


DTYPES = "float32", "float64", "float16", "bfloat16", "int64", "int8", "bool", "complex64"


@each("name", DTYPES)
def test_dtypes_and_empty_ones(cuda, name):
    dtype = getattr(jtorch, name)
    told = [
        jtorch.tensor([[0, 1], [1, 0]], dtype=dtype, device="cuda").t(),
        jtorch.zeros(0, 2, device="cuda"),
    ]
    back = loaded(saved(told))
    assert [b.is_cuda for b in back] == [True, True] and back[0].dtype is dtype
    assert back[0].cpu().equal(told[0].cpu()) and back[1].shape == (0, 2)
    assert back[0].stride() == (1, 2)


def test_views_are_one_memory_there_too(cuda):
    x = jtorch.arange(6.0, device="cuda").reshape(2, 3)
    file = saved([x, x[1], x.t()])
    whole, row, turned = loaded(file)
    whole.add_(10.0)
    assert row.tolist() == [13.0, 14.0, 15.0] and turned.tolist() == whole.t().tolist()
    assert row.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr() == whole.data_ptr()
    assert row.untyped_storage().device == jtorch.device("cuda:0") and len(row.untyped_storage()) == 24
    there, here = loaded(file), loaded(file, "cpu")
    here[0].add_(10.0)
    assert here[1].tolist() == [13.0, 14.0, 15.0] and there[1].tolist() == [3.0, 4.0, 5.0]


PLACES = {
    "a name": "cpu",
    "a device": jtorch.device("cpu"),
    "a dict": {"cuda:0": "cpu"},
    "a function": lambda storage, where: storage,
    "one that says cpu": lambda storage, where: storage.cpu(),
}


def test_map_location_brings_it_to_the_host(cuda, no_cuda):
    file = saved({"x": jtorch.tensor([1.0, 2.0], device="cuda")})
    assert not any(loaded(file, map_location=place)["x"].is_cuda for place in PLACES.values())
    no_cuda()
    for place in PLACES.values():
        assert loaded(file, map_location=place)["x"].tolist() == [1.0, 2.0]


def test_without_the_device_it_says_map_location(cuda, no_cuda):
    file = saved({"x": jtorch.ones(2, device="cuda")})
    with pytest.raises(RuntimeError, match=r"on CUDA device 1 but torch\.cuda\.device_count\(\) is 1"):
        loaded(file, "cuda:1")
    no_cuda()
    for place in (None, "cuda", "cuda:1", {"cuda:0": "cuda"}, lambda storage, where: storage.cuda()):
        with pytest.raises(RuntimeError, match=r"on a CUDA device but .* map_location=torch.device\('cpu'\)"):
            loaded(file, place)


@each("name", ["torch", "safetensors", "safetensors of others", "npy", "npz"])
def test_any_file_is_loaded_to_the_device(cuda, tmp_path, name):
    import numpy as np

    x, path = jtorch.arange(6.0).reshape(2, 3), tmp_path / "x"
    if name == "npy":
        np.save(path.with_suffix(".npy"), x.numpy().T)
        found = jtorch.load(path.with_suffix(".npy"), map_location="cuda").t()
    elif name == "npz":
        np.savez(path.with_suffix(".npz"), x=x.numpy())
        found = jtorch.load(path.with_suffix(".npz"), map_location={"cpu": "cuda:0"})["x"]
    elif name == "safetensors of others":
        numpy_files = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
        numpy_files.save_file({"x": x.numpy()}, path)
        found = jtorch.load(path, map_location="cuda")["x"]
    else:
        jtorch.save({"x": x, "row": x[0]}, path, format=name)
        back = jtorch.load(path, map_location=lambda storage, where: storage.cuda())
        found = back["x"]
        assert back["row"].is_cuda and back["row"].tolist() == [0.0, 1.0, 2.0]
    assert found.is_cuda and found.tolist() == x.tolist()


def test_safetensors_do_not_say_where_tensors_were(cuda):
    file = saved({"x": jtorch.ones(2, device="cuda")}, format="safetensors")
    back = loaded(file)["x"]
    assert not back.is_cuda and back.tolist() == [1.0, 1.0]


def trained(steps=2):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).cuda()
    optimizer = jtorch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(jtorch.ones(2, 3, device="cuda")).sum().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.slow
def test_a_run_goes_on_from_its_file(cuda):
    model, optimizer = trained()
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    twin, steps = trained(1)
    for place in (None, "cpu"):  # PyTorch's programs load to the host, and copy from there
        back = loaded(file, place)
        assert {t.device.type for t in back["model"].values()} == {"cpu" if place else "cuda"}
        twin.load_state_dict(back["model"])
        steps.load_state_dict(back["optimizer"])
        state = steps.state_dict()["state"][0]
        assert state["exp_avg"].is_cuda and all(p.is_cuda for p in twin.parameters())
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            assert one.tolist() == other.tolist()
    for m, o in ((model, optimizer), (twin, steps)):
        o.zero_grad()
        m(jtorch.ones(2, 3, device="cuda")).sum().backward()
        o.step()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert one.tolist() == other.tolist()


def test_a_whole_module_in_a_file(cuda):
    model = nn.Linear(2, 2).cuda()
    model.register_buffer("seen", jtorch.ones(1, device="cuda"))
    back = loaded(saved(model), weights_only=False)
    assert back.weight.is_cuda and back.seen.is_cuda and back.weight.tolist() == model.weight.tolist()
    assert not loaded(saved(model), "cpu", weights_only=False).weight.is_cuda


def test_pickles_and_deep_copies(cuda):
    model = nn.Linear(2, 2).cuda()
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.weight.is_cuda and twin.weight.tolist() == model.weight.tolist()
        twin.weight.data.zero_()
        assert model.weight.abs().sum().item() > 0


def test_deep_copies_of_views_share_memory_as_the_originals_do(cuda):
    x = jtorch.arange(4.0, device="cuda")
    whole, part = copy.deepcopy([x, x[1:3]])
    whole.mul_(2.0)
    assert part.tolist() == [2.0, 4.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_pytorch_reads_what_was_written_there(cuda):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    x = jtorch.arange(6.0, device="cuda").reshape(2, 3)
    file = saved({"x": x.t(), "p": nn.Parameter(x)}, format="torch")
    file.seek(0)
    back = torch.load(file, map_location="cpu", weights_only=True)
    assert back["x"].tolist() == x.t().tolist() and isinstance(back["p"], torch.nn.Parameter)
    assert back["x"].untyped_storage().data_ptr() == back["p"].untyped_storage().data_ptr()
    file.seek(0)
    where = []
    torch.load(file, map_location=lambda storage, name: where.append(name) or storage)
    assert where == ["cuda:0"]
    if not torch.cuda.is_available():
        file.seek(0)
        with pytest.raises(RuntimeError) as told:
            torch.load(file)
        device_memory.use(None)
        file.seek(0)
        if not jtorch.cuda.is_available():
            with pytest.raises(RuntimeError) as own:
                jtorch.load(file)
            assert str(own.value) == str(told.value)
