"""What users hang on tensors, and tensors of other classes, in files: kept where PyTorch keeps them."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import pytest

import jtorch
from jtorch import nn, serialization
from jtorch.core.errors import DataError


class Sub(jtorch.Tensor):
    """A tensor's subclass as users write them."""


class Slotted(jtorch.Tensor):
    __slots__ = ("unit",)


class Stateful(jtorch.Tensor):
    def __setstate__(self, state):
        self.seen = state


class Kind(nn.Parameter):
    pass


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def written(obj, library=jtorch, **options):
    file = io.BytesIO()
    library.save(obj, file, **options)
    file.seek(0)
    return file


def tagged(library):
    """A tensor, one that requires grad, a parameter and a buffer, each with attributes."""
    x, leaf = library.ones(2), library.zeros(1, requires_grad=True)
    small = library.ones(2, dtype=library.uint16)
    p = library.nn.Parameter(library.ones(3))
    b = library.nn.Buffer(library.ones(1), persistent=False)
    for n, tensor in enumerate((x, leaf, small, p, b)):
        tensor.tag = {"number": n, "shared": x.detach()}
    p.also = [1.5, "text"]
    return [x, leaf, small, p, b]


def check(library, back):
    x, leaf, small, p, b = back
    assert [t.tag["number"] for t in back] == [0, 1, 2, 3, 4] and p.also == [1.5, "text"]
    assert type(x) is library.Tensor and leaf.requires_grad and small.dtype is library.uint16
    assert type(p) is library.nn.Parameter and isinstance(b, library.nn.Buffer) and not b.persistent
    x.zero_()
    assert not any(t.tag["shared"].any() for t in back)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("writer", ["jtorch", "torch"])
@pytest.mark.parametrize("reader", ["jtorch", "torch"])
def test_attributes_move_between_the_libraries(torch, writer, reader, weights_only):
    libraries = {"jtorch": jtorch, "torch": torch}
    here, there = libraries[writer], libraries[reader]
    options = {"format": "torch"} if here is jtorch else {}
    file = written(tagged(here), here, **options)
    check(there, there.load(file, weights_only=weights_only))


@pytest.mark.parametrize("name", ["x.pt", "x.pth", "x.ckpt", "x"])
def test_attributes_stay(tmp_path, name):
    jtorch.save(tagged(jtorch), tmp_path / name)
    check(jtorch, jtorch.load(tmp_path / name))
    check(jtorch, jtorch.load(tmp_path / name, mmap=True))
    jtorch.save([tagged(jtorch), {1, 2}], tmp_path / name)  # beside what only pickle writes
    check(jtorch, jtorch.load(tmp_path / name)[0])


def test_safetensors_files_have_elements_alone(tmp_path):
    path = tmp_path / "x.safetensors"
    jtorch.save(tagged(jtorch), path)
    back = jtorch.load(path)
    assert [t.__dict__ for t in back] == [{}] * 5 and isinstance(back[3], nn.Parameter)
    assert type(back[4]) is jtorch.Tensor


def test_attributes_that_only_pickle_writes(torch):
    x = jtorch.ones(2)
    x.made = print
    file = written({"x": x}, format="torch")
    for library in (jtorch, torch):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match=r"print"):
            library.load(file)
        file.seek(0)
        assert library.load(file, weights_only=False)["x"].made is print
    x.made = lambda: 0
    with pytest.raises((AttributeError, pickle.PicklingError), match="Can't pickle"):
        written({"x": x}, format="torch")


def test_a_tensor_that_holds_itself():
    x = jtorch.ones(2)
    x.me = [x]
    with pytest.raises(TypeError, match="does it contain itself"):
        written(x, format="torch")
    back = jtorch.load(whole([{1}, x]), weights_only=False)[1]
    assert back.me[0] is back and back.tolist() == [1, 1]


def whole(obj):
    from jtorch.serialization import whole_writer

    return io.BytesIO(whole_writer.to_bytes(obj))


@pytest.mark.parametrize("kind", [Sub, Slotted, Kind])
def test_subclasses_are_kept_or_refused(kind, tmp_path):
    x = jtorch.arange(3.0).as_subclass(kind)
    x.unit = "m"
    for obj in (x, [x, {1}, x]):
        file = whole(obj) if kind is Kind else written(obj, format="torch")
        with pytest.raises(pickle.UnpicklingError, match=rf"add_safe_globals\(\[[\w.]*{kind.__name__}\]\)"):
            jtorch.load(file)
        for listed in ([], [kind]):
            file.seek(0)
            with serialization.safe_globals(listed):
                back = jtorch.load(file, weights_only=bool(listed))
            if isinstance(obj, list):
                assert back[0] is back[2]
                back = back[0]
            assert type(back) is kind and back.unit == "m" and back.tolist() == [0, 1, 2]
    jtorch.save(x, tmp_path / "x")
    if kind is Kind:  # as in PyTorch
        back = jtorch.load(tmp_path / "x")
        assert type(back) is nn.Parameter and back.unit == "m"
        return
    assert type(jtorch.load(tmp_path / "x", weights_only=False)) is kind
    with pytest.raises(TypeError, match=rf"{kind.__name__} can't be saved.*as_subclass\(jtorch.Tensor\)"):
        jtorch.save([x], tmp_path / "x.safetensors")


def test_a_subclass_of_buffers_and_one_with_a_state_of_its_own():
    class Other(nn.Buffer):
        pass

    Other.__qualname__ = "Other"
    globals()["Other"] = Other
    b = Other(jtorch.ones(2), persistent=False)
    b.tag = 1
    back = jtorch.load(written(b, format="torch"), weights_only=False)
    assert type(back) is Other and not back.persistent and back.tag == 1
    x = jtorch.ones(2).as_subclass(Stateful)
    x.tag = 1
    assert jtorch.load(written(x, format="torch"), weights_only=False).seen == {"tag": 1}


def test_a_memory_is_stored_once_whatever_its_classes():
    x = jtorch.arange(4.0)
    file = written([x, x.as_subclass(Sub), nn.Parameter(x)], format="torch")
    assert sum(n.startswith("archive/data/") for n in zipfile.ZipFile(file).namelist()) == 1


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


@pytest.mark.parametrize(
    ("name", "error"),
    [("_data", NotImplementedError), ("grad", NotImplementedError), ("__class__", NotImplementedError),
     ("__dict__", NotImplementedError), ("requires_grad", NotImplementedError), (3, DataError)],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Tensor", "Parameter"])
def test_attributes_that_would_make_another_tensor_are_refused(name, error, kind):
    x = jtorch.ones(2) if kind == "Tensor" else nn.Parameter(jtorch.ones(2))
    x.a = 3
    old = zipfile.ZipFile(written(x, format="torch"))
    spelled = text(name) if isinstance(name, str) else b"K\x03"
    data = old.read("archive/data.pkl")
    assert text("a") in data
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("archive/data.pkl", data.replace(text("a"), spelled))
        new.writestr("archive/data/0", old.read("archive/data/0"))
    file.seek(0)
    with pytest.raises(error, match="attribute"):
        jtorch.load(file)


TENSOR = b"ctorch\nTensor\n"
FROM_TYPE = b"ctorch._tensor\n_rebuild_from_type_v2\n("


@pytest.mark.parametrize(
    ("pickled", "told"),
    [
        (FROM_TYPE + b"ctorch\nSize\n" + TENSOR + b")NtR.", "a tensor made by"),
        (FROM_TYPE + b"ctorch._utils\n_rebuild_tensor_v2\n" + TENSOR + b")NtR.", "malformed"),
        (FROM_TYPE + b"ctorch._utils\n_rebuild_tensor_v2\n" + TENSOR + b"NNtR.", "a tensor made by"),
        (FROM_TYPE + b"ctorch._utils\n_rebuild_tensor_v2\nccollections\nOrderedDict\n)NtR.", "of the class"),
        (TENSOR + b"K\x05\x85R.", "a call of"),
        (TENSOR + b")\x81.", "a call of"),
    ],
)
def test_hostile_types(pickled, told):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + pickled)
    file.seek(0)
    with pytest.raises(DataError, match=told):
        jtorch.load(file)
