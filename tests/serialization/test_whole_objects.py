"""Modules, optimizers and other objects in .pt files: refused unless asked for, and then as they were."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest

import jtorch
from jtorch import nn, optim, serialization
from jtorch.core.errors import DataError

Point = namedtuple("Point", ["x", "y"])


class Net(nn.Module):
    """Layers, a buffer, a tied weight and plain attributes."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.25))
        self.head = nn.Linear(4, 3)
        self.head.bias = None
        self.tied = self.body[0].weight
        self.register_buffer("scale", jtorch.tensor([1.0, 2.0, 3.0]))
        self.told = {"name": "net", "sizes": (3, 4)}

    def forward(self, x):
        return self.head(self.body(x)) * self.scale


class Slotted:
    """An object with a state of its own making."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __getstate__(self):
        return {"t": self.tensor}

    def __setstate__(self, state):
        self.tensor = state["t"] + 1


def saved(obj):
    file = io.BytesIO()
    jtorch.save(obj, file, format="torch")
    file.seek(0)
    return file


def whole(obj):
    return jtorch.load(saved(obj), weights_only=False)


def test_objects_in_files_from_before_modules_moved():
    model, old = nn.Sequential(nn.Linear(3, 2)), io.BytesIO()
    with zipfile.ZipFile(saved(model)) as new, zipfile.ZipFile(old, "w") as before:
        for name in new.namelist():
            before.writestr(name, new.read(name).replace(b"jtorch.core.watch\n", b"jtorch.watch\n"))
    assert b"cjtorch.watch\n" in old.getvalue()
    old.seek(0)
    assert repr(jtorch.load(old, weights_only=False)) == repr(model)


@pytest.mark.parametrize("make", [Net, lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.LSTM(2, 2))])
def test_modules(make):
    model = make().eval()
    back = whole(model)
    assert type(back) is type(model) and repr(back) == repr(model) and not back.training
    assert list(back.state_dict()) == list(model.state_dict())
    for ours, theirs in zip(model.parameters(), back.parameters(), strict=True):
        assert type(theirs) is nn.Parameter and theirs.requires_grad and jtorch.equal(ours, theirs)
    x = jtorch.linspace(-1, 1, 6).reshape(2, 3)
    first, second = model(x), back(x)
    pairs = zip(first, second, strict=True) if isinstance(first, tuple) else [(first, second)]
    assert all(jtorch.equal(a, b) for a, b in pairs if isinstance(a, jtorch.Tensor))


def test_what_a_module_has_beside_its_layers():
    back = whole(Net())
    assert back.tied is back.body[0].weight and back.told == {"name": "net", "sizes": (3, 4)}
    assert back.scale.tolist() == [1.0, 2.0, 3.0] and dict(back.named_buffers())["scale"] is back.scale
    back(jtorch.ones(2, 3)).sum().backward()
    assert back.head.weight.grad is not None


def test_an_optimizer_goes_on_with_its_model():
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(jtorch.ones(1, 2)).sum().backward()
        optimizer.step()
        return model.weight.tolist()

    step(model, optimizer)
    back = whole({"model": model, "optimizer": optimizer, "epoch": 1})
    assert back["optimizer"].param_groups[0]["params"][0] is back["model"].weight
    assert step(back["model"], back["optimizer"]) == step(model, optimizer)


def test_other_objects():
    array = np.arange(3)
    obj = [Point(1, jtorch.ones(2)), {1, 2}, {(1, 2): 3}, array, jtorch.float16, b"bytes", print,
           jtorch.Size([2]), jtorch.device("cpu"), nn.Buffer(jtorch.ones(1), persistent=False)]  # fmt: skip
    back = whole(obj)
    assert isinstance(back[0], Point) and back[0].y.tolist() == [1.0, 1.0] and back[1:3] == obj[1:3]
    assert (back[3] == array).all() and back[4:7] == obj[4:7] and back[4] is jtorch.float16
    assert isinstance(back[7], jtorch.Size) and back[8] == jtorch.device("cpu")
    assert isinstance(back[9], nn.Buffer) and not back[9].persistent
    assert whole(Slotted(jtorch.ones(1))).tensor.tolist() == [2.0]


def test_tensors_are_records_and_one_memory_is_one():
    x = jtorch.arange(1000)
    file = saved([x, x.detach(), {"set": {1}}, x])
    names = [n for n in zipfile.ZipFile(file).namelist() if n.startswith("archive/data/")]
    assert names == ["archive/data/0"]
    file.seek(0)
    first, alias, _, again = jtorch.load(file)  # a set is plain data to read
    assert first is again and first is not alias
    first.zero_()
    assert not alias.any()


def test_names_and_formats(tmp_path):
    model = nn.Linear(1, 1)
    for name in ("model.pt", "model.pth", "model.ckpt", "model"):
        jtorch.save(model, tmp_path / name)
        assert jtorch.equal(jtorch.load(tmp_path / name, weights_only=False).weight, model.weight)
        mapped = jtorch.load(tmp_path / name, "cpu", weights_only=False, mmap=True)
        assert jtorch.equal(mapped.weight, model.weight)
    with (tmp_path / "opened").open("wb") as file:
        jtorch.save(model, file)
    assert jtorch.equal(jtorch.load(tmp_path / "opened", weights_only=False).bias, model.bias)
    with pytest.raises(TypeError, match=r"Linear can't be saved.*state_dict"):
        jtorch.save(model, tmp_path / "model.safetensors")
    with pytest.raises(TypeError, match=r"Linear can't be saved.*state_dict"):
        jtorch.save(model, tmp_path / "model", format="safetensors")


@pytest.mark.parametrize("obj", [nn.Linear(1, 1), {"model": Net()}, Slotted(1), np.arange(2)], ids=type)
def test_whole_objects_are_refused_unless_asked_for(obj):
    for options in ({}, {"weights_only": True}, {"weights_only": None}):
        text = r"`weights_only` set to `False`.*can result in arbitrary code execution"
        with pytest.raises(pickle.UnpicklingError, match=text) as one:
            jtorch.load(saved(obj), **options)
        assert isinstance(one.value, DataError)


def test_the_refusal_of_both_libraries_names_the_way():
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(Slotted(1), file)
    for load in (torch.load, jtorch.load):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[[\w.]*Slotted\]\)"):
            load(file)


def test_listed_classes_load():
    model = Net()
    classes = [Net, nn.Sequential, nn.Linear, nn.BatchNorm1d, nn.Dropout]
    with serialization.safe_globals(classes):
        assert serialization.get_safe_globals() == classes
        back = jtorch.load(saved(model))
        assert jtorch.load(saved(3)) == 3
    assert serialization.get_safe_globals() == []
    assert back.tied is back.body[0].weight and jtorch.equal(back.head.weight, model.head.weight)
    with serialization.safe_globals(classes[:2]), pytest.raises(DataError, match=r"global .*\.Linear"):
        jtorch.load(saved(model))
    serialization.add_safe_globals([(Slotted, f"{__name__}.Slotted")])
    assert jtorch.load(saved(Slotted(jtorch.ones(1)))).tensor.tolist() == [2.0]
    serialization.clear_safe_globals()
    with pytest.raises(DataError, match="Slotted"):
        jtorch.load(saved(Slotted(1)))


def test_damage_and_other_libraries(tmp_path):
    content = saved(Net()).getvalue()
    with pytest.raises(DataError, match="can not be read as a zip archive"):
        jtorch.load(io.BytesIO(content[: len(content) // 2]), weights_only=False)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02]K\x01")
    file.seek(0)
    with pytest.raises(DataError, match="a malformed pickle"):
        jtorch.load(file, weights_only=False)
    torch = pytest.importorskip("torch")
    torch.save(torch.nn.Linear(1, 1), tmp_path / "theirs.pt")
    with pytest.raises(DataError, match=r"an object of PyTorch's, torch\.nn\.modules\.linear\.Linear"):
        jtorch.load(tmp_path / "theirs.pt", weights_only=False)


def test_code_runs_only_where_it_is_asked_for(tmp_path):
    class Call:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    file = saved(Call())
    with pytest.raises(DataError, match=r"mkdir, which is no plain data"):
        jtorch.load(file)
    assert not (tmp_path / "made").exists()
    file.seek(0)
    assert jtorch.load(file, weights_only=False) is None and (tmp_path / "made").exists()


def test_plain_data_moves_between_the_libraries(tmp_path):
    torch = pytest.importorskip("torch")

    def build(library):
        p = library.nn.Parameter(library.ones(2))
        return {"set": {1, 2}, "list": [p], (1, 2): p, "count": Counter("ab"),
                "size": library.Size([2]), "dtype": library.float64}  # fmt: skip

    for there, here in ((jtorch, torch), (torch, jtorch)):
        there.save(build(there), tmp_path / "x.pt")
        for weights_only in (True, False):
            back, told = here.load(tmp_path / "x.pt", weights_only=weights_only), build(here)
            assert list(back) == list(told) and back["set"] == {1, 2} and back["count"] == told["count"]
            assert back["list"][0] is back[1, 2] and isinstance(back[1, 2], here.nn.Parameter)
            assert back["dtype"] is here.float64 and type(back["size"]) is here.Size


def test_versions_of_modules_reach_torch(tmp_path):
    torch = pytest.importorskip("torch")

    def state(library):
        return library.nn.Sequential(library.nn.Linear(1, 2), library.nn.BatchNorm1d(2)).state_dict()

    jtorch.save({"model": state(jtorch)}, tmp_path / "x.pt")
    for back in (torch.load(tmp_path / "x.pt"), jtorch.load(tmp_path / "x.pt")):
        found = back["model"]
        assert type(found) is OrderedDict and found._metadata == state(torch)._metadata
        assert found._metadata["1"] == {"version": 2}
