"""save and load as safetensors: round trips, atomic writing, and files that are not what they claim."""

from __future__ import annotations

import contextlib
import enum
import io
import json
import math
import os
import struct
import tracemalloc
from collections import Counter, OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from safetensors.numpy import save as safetensors_bytes

import jtorch
from jtorch import nn
from jtorch.core.errors import DataError
from jtorch.serialization import structure, tensors, unpickle


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


def round_trip(obj, path):
    jtorch.save(obj, path)
    return jtorch.load(path)


@pytest.mark.parametrize(
    "obj",
    [
        None, True, 0, -1, 10**40, 1.5, -0.0, math.inf, 5e-324, 0.1, "", "text \u2603",
        [], (), {}, [1, [2, (3,)]], {"a": {"b": [None]}}, {1: "int", 1.5: "float", "1": "str"},
        (0.9, 0.999), {"list": ["int", {"tensor": "t"}]}, 1 + 2j, complex(-0.0, math.inf), {None: 1, True: 2},
        OrderedDict(b=1, a=[OrderedDict()]), Counter([3, 3, 5]), jtorch.Size([2, 3]), jtorch.device("cpu"),
        [jtorch.float32, jtorch.bool],
    ],
    ids=repr,
)  # fmt: skip
def test_plain_values(obj, path):
    back = round_trip(obj, path)
    assert back == obj and repr(back) == repr(obj) and type(back) is type(obj)


def test_nan(path):
    assert math.isnan(round_trip(math.nan, path))


@pytest.mark.parametrize("dtype", list(jtorch.core.dtypes.ALL), ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_tensors(dtype, shape, path):
    array = np.array(np.arange(math.prod(shape)).reshape(shape) % 2, dtype=dtype.numpy)
    back = round_trip({"x": jtorch.from_numpy(array)}, path)["x"]
    assert back.dtype is dtype and back.shape == shape
    np.testing.assert_array_equal(back.numpy(), array)
    back.zero_()  # the memory is its own and writable


def test_special_floats_and_strides(path):
    array = np.array([[np.nan, np.inf], [-0.0, 1e-45]], np.float32)
    back = round_trip([jtorch.from_numpy(array).T, jtorch.from_numpy(array)[::1, 1]], path)
    assert back[0].numpy().tobytes() == np.ascontiguousarray(array.T).tobytes()
    assert back[1].numpy().tobytes() == np.ascontiguousarray(array[:, 1]).tobytes()


def test_sharing_and_kind_are_kept(path):
    p = nn.Parameter(jtorch.ones(2))
    x = jtorch.zeros(1, requires_grad=True)
    a, b, c, d = round_trip([p, p, x, nn.Parameter(jtorch.ones(1), requires_grad=False)], path)
    assert a is b and isinstance(a, nn.Parameter) and a.requires_grad
    assert type(c) is jtorch.Tensor and c.requires_grad and c.is_leaf
    assert isinstance(d, nn.Parameter) and not d.requires_grad


def test_a_checkpoint_goes_on_exactly(path):
    def build():
        jtorch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        return model, jtorch.optim.Adam(model.parameters(), lr=0.01)

    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(jtorch.ones(2, 3)).sum().backward()
            optimizer.step()
        return [p.tolist() for p in model.parameters()]

    straight = train(*build(), 6)
    model, optimizer = build()
    train(model, optimizer, 3)
    jtorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    model, optimizer = build()
    saved = jtorch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert train(model, optimizer, 3) == straight and saved["epoch"] == 3


def test_other_readers_see_the_names(path):
    from safetensors.numpy import load_file

    jtorch.save(nn.Linear(2, 2).state_dict(), path)
    assert sorted(load_file(path)) == ["bias", "weight"]
    jtorch.save({"a.b": jtorch.ones(1), "a": {"b": jtorch.zeros(1)}}, path)
    assert sorted(load_file(path)) == ["a.b", "a.b_"]
    back = jtorch.load(path)
    assert back["a.b"].item() == 1.0 and back["a"]["b"].item() == 0.0


def test_files_of_other_writers(path):
    path.write_bytes(safetensors_bytes({"w": np.ones(2, np.float32)}, {"format": "pt"}))
    assert {k: v.tolist() for k, v in jtorch.load(path).items()} == {"w": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (object(), "save: obj: object can't be saved"),
        ({"a": [1, {2}]}, r"obj\['a'\]\[1\]: set can't be saved"),
        (np.ones(2), r"jtorch.from_numpy\(array\)"),
        ({"model": {"hook": lambda: 0}}, r"obj\['model'\]\['hook'\]: function can't be saved"),
        ({"d": {(1, 2): 3}}, r"obj\['d'\]: a dict with a key of type tuple"),
        ([defaultdict(list)], r"obj\[0\]: collections.defaultdict can't be saved"),
        (namedtuple("P", "x")(1), r"obj: .*P can't be saved"),
        (np.str_("a").dtype, "can't be saved"),
    ],
)
def test_what_can_not_be_saved_is_named(obj, text, path):
    with pytest.raises(TypeError, match=text):
        jtorch.save(obj, path)
    assert not path.exists()


def test_a_module_is_pointed_to_its_state_dict(path):
    with pytest.raises(TypeError, match=r"Linear can't be saved.*save its state_dict\(\)"):
        jtorch.save(nn.Linear(1, 1), path)


UNREADABLE = {  # in a safetensors file; PyTorch's format has no names
    "__metadata__": {"__metadata__": jtorch.ones(2)},
    "half a surrogate pair": {"\ud800": jtorch.ones(2)},
    "a long int": [10**5000],
    "a long int as a key": {2**5000: 1},
    "keys that are made to collide": {k * (2**61 - 1): k for k in range(100)},
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_no_file_is_written_that_load_refuses(name, tmp_path):
    obj = UNREADABLE[name]
    for suffix in (".safetensors", ".pt", ".pth", ".ckpt", ""):
        path = tmp_path / ("x" + suffix)
        jtorch.save("old", path)
        if suffix == ".safetensors":
            with pytest.raises(TypeError, match=r"jtorch.save: obj"):
                jtorch.save(obj, path)
            assert jtorch.load(path) == "old"
            continue
        jtorch.save(obj, path)
        back = jtorch.load(path, weights_only="key" not in name)  # which anybody's file could have
        assert list(back) == list(obj)


@pytest.mark.parametrize("format", ["safetensors", "torch"])
@pytest.mark.parametrize(
    "key", ["", "..", "/", "../a", "file", "a.npy", "\0", '"\\\n', "\u2603", "jtorch", "a\u2028b"]
)
def test_odd_names(key, format, path):
    for obj in ({key: jtorch.ones(2)}, {"a": {key: jtorch.ones(2)}}, [{"__metadata__": jtorch.ones(2)}]):
        jtorch.save(obj, path, format=format)
        assert repr(jtorch.load(path)) == repr(obj)


def test_enums_of_text_are_saved_by_their_value(path):
    class Kind(str, enum.Enum):  # noqa: UP042 - whose str() is its name
        A = "a"

    for format in ("safetensors", "torch"):
        jtorch.save({Kind.A: [Kind.A]}, path, format=format)
        assert jtorch.load(path) == {"a": ["a"]}


def test_more_than_load_takes_is_not_written(path, monkeypatch):
    monkeypatch.setattr(structure, "_MOST_UNFOLDED", 4 << 20)
    monkeypatch.setattr(unpickle.Budget, "LEAST", 1 << 20)
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=r"too much beside the elements of tensors.*format='torch'"):
        jtorch.save([0.5] * 9_000, path)
    with pytest.raises(ValueError, match="200001 tensors"):
        tensors._check_count(200_001)
    with pytest.raises(ValueError, match=r"unfolds to more than [0-9]+ bytes, which jtorch.load refuses"):
        jtorch.save([{None: None}] * 5_000, path, format="torch")
    assert path.read_bytes() == b"old"
    for many in ([0.5] * 9_000, [[]] * 4_000):
        jtorch.save(many, path.with_suffix(".ckpt"))
        assert jtorch.load(path.with_suffix(".ckpt")) == many


def entries(count):
    text = b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return b",".join(text % k for k in range(count))


def of_structure(item, count):
    text = json.dumps('{"version":1,"object":{"list":[' + ",".join([item] * count) + "]}}")
    return b'"__metadata__":{"jtorch":%s}' % text.encode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "header"),
    [
        ("tensors", entries(210_000)),
        ("lists", of_structure("[]", 5_000_000)),
        ("values", of_structure('{"list":[]}', 800_000)),
        ("escaped", of_structure("[]", 5_000_000).replace(b"[", b"\\u005b").replace(b",", b"\\u002c")),
        ("metadata", b'"__metadata__":{%s}' % b",".join(b'"%x":""' % k for k in range(3_000_000))),
        ("shape", b'"a":{"dtype":"U8","shape":[%s0],"data_offsets":[0,0]}' % (b"0," * 9_000_000)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_header_of_little_things_stays_small(kind, header, path):
    path.write_bytes(struct.pack("<Q", len(header) + 2) + b"{" + header + b"}")
    for file in (path, io.BytesIO(path.read_bytes())):
        tracemalloc.start()
        try:
            with pytest.raises(DataError, match=r"may unfold to|tensors"):
                jtorch.load(file)
            assert tracemalloc.get_traced_memory()[1] < 200 << 20
        finally:
            tracemalloc.stop()


def test_saves_to_one_open_file_one_after_the_other():
    torch = pytest.importorskip("torch")
    for library, options in ((torch, {}), (jtorch, {"format": "torch"}), (jtorch, {"format": "safetensors"})):
        file = io.BytesIO()
        library.save(list(range(500)), file, **options)
        second = file.tell()
        library.save([1], file, **options)
        file.seek(0)
        with pytest.raises((RuntimeError, DataError)):  # a zip archive is known by its end
            library.load(file)
        file.seek(second)
        assert library.load(file) == [1]


def test_a_list_in_itself(path):
    loop = []
    loop.append(loop)
    with pytest.raises(TypeError, match="does it contain itself"):
        jtorch.save(loop, path)


def test_paths(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file at .*nothing"):
        jtorch.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match=r"jtorch.save: expected a path or an open binary file, got int"):
        jtorch.save({}, 3)
    with pytest.raises(TypeError, match=r"jtorch.load: expected a path or an open binary file, got list"):
        jtorch.load([])
    with pytest.raises(ValueError, match="format is 'safetensors' or 'torch', got 'zip'"):
        jtorch.save({}, tmp_path / "x", format="zip")
    jtorch.save([1], str(tmp_path / "text"))
    assert jtorch.load(os.fspath(tmp_path / "text")) == [1]


def test_a_failed_save_keeps_the_old_file(path, monkeypatch):
    jtorch.save([1], path)

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        jtorch.save([2], path)
    assert jtorch.load(path) == [1] and len(list(path.parent.iterdir())) == 1


def test_every_truncation_is_an_error(path):
    jtorch.save({"x": jtorch.ones(3), "y": [1, 2]}, path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(DataError, match="can not be read as a safetensors file"):
            jtorch.load(path)
    path.write_bytes(whole + b"more")
    with pytest.raises(DataError):
        jtorch.load(path)


def test_no_flipped_byte_crashes(path):
    """Damage is an error or, where it only changes values, a load: never another exception."""
    jtorch.save({"x": jtorch.ones(2), "n": 7}, path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n] + bytes([whole[n] ^ 0x15]) + whole[n + 1 :])
        with contextlib.suppress(DataError):
            jtorch.load(path)


def hostile(structure):
    text = structure if isinstance(structure, str) else json.dumps({"version": 1, "object": structure})
    return safetensors_bytes({"t": np.ones(2, np.int64)}, {"jtorch": text})


@pytest.mark.parametrize(
    ("structure", "text"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "has no object"),
        ('{"version": 9, "object": 1}', "format version 9, expected 2"),
        ({"size": ["a"]}, "a size of other things than ints"),
        ({"device": "tpu"}, "'tpu' is no device"),
        ({"complex": "0x0p0"}, "is no complex"),
        (5, "a int in the structure"),
        ([1], "a list in the structure"),
        ({}, "a dict in the structure"),
        ({"pickle": "cos\nsystem"}, "unknown value .* of kind 'pickle'"),
        ({"call": [1]}, "unknown kind of value 'call'"),
        ({"int": "1_"}, "'1_' is no int"),
        ({"int": "9" * 5000}, "is no int"),
        ({"float": "0x1p9999999"}, "is no float"),
        ({"dtype": "object"}, "'object' is no dtype"),
        ({"tensor": "u", "requires_grad": False}, "names the tensor 'u', which is not in the file"),
        ({"tensor": ["t"], "requires_grad": False}, "which is not in the file"),
        ({"tensor": "t", "requires_grad": True}, "requires_grad of tensor 't' is True"),
        ({"tensor": "t"}, "requires_grad of tensor 't' is None"),
        ({"tensor": "t", "requires_grad": False, "object": []}, "the number of tensor 't'"),
        ({"dict": [["a"]]}, "no pair"),
        ({"dict": [[{"list": []}, 1]]}, "key of type list"),
    ],
    ids=str,
)
def test_hostile_structures(structure, text, path):
    path.write_bytes(hostile(structure))
    with pytest.raises(DataError, match=text):
        jtorch.load(path)


def test_deep_structures(path):
    deep: object = None
    for _ in range(400):
        deep = {"list": [deep]}
    path.write_bytes(hostile(deep))
    with pytest.raises(DataError, match="nested deeper than 100 levels"):
        jtorch.load(path)


def test_a_header_that_claims_too_much(path):
    header = b'{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    for size in (len(header), 1 << 62):
        path.write_bytes(struct.pack("<Q", size) + header + b"\0" * 16)
        with pytest.raises(DataError):
            jtorch.load(path)


def test_unknown_dtype(path):
    header = b'{"x":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
    with pytest.raises(NotImplementedError, match=r"file.safetensors: tensor 'x' has the dtype F8_E5M2"):
        jtorch.load(path)


def test_memory_shared_by_different_tensors_stays_shared(path):
    whole = jtorch.arange(6)
    state = {"a": whole, "b": whole.detach(), "view": whole[2:], "empty": whole[:0], "void": whole[6:]}
    back = round_trip(state, path)
    assert back["a"] is not back["b"]
    back["a"].zero_()
    assert back["b"].tolist() == [0] * 6 and back["view"].tolist() == [0] * 4
    assert back["empty"].shape == back["void"].shape == (0,)


def test_a_view_is_stored_as_its_own_elements(path):
    jtorch.save(jtorch.zeros(1_000_000)[:2], path)
    assert path.stat().st_size < 1000


def test_open_files(path):
    buffer = io.BytesIO(b"before")
    buffer.seek(6)
    obj = {"x": jtorch.ones(2, 2).T, "n": 1}
    jtorch.save(obj, buffer)
    buffer.seek(6)
    back = jtorch.load(buffer)
    assert back["n"] == 1 and back["x"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    back["x"].zero_()
    with path.open("wb") as file:
        jtorch.save(obj, file)
    with path.open("rb") as file:
        assert jtorch.load(file)["n"] == 1


def test_mmap_reads_where_it_lies_and_writes_only_to_memory(path):
    jtorch.save({"x": jtorch.arange(4), "z": jtorch.ones(0, 2), "s": jtorch.tensor(2.5)}, path)
    before = path.read_bytes()
    back = jtorch.load(path, mmap=True)
    back["x"].mul_(2)
    assert back["x"].tolist() == [0, 2, 4, 6] and back["s"].item() == 2.5 and back["z"].shape == (0, 2)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        jtorch.load(io.BytesIO(before), mmap=True)


@pytest.mark.parametrize("place", [None, "cpu", jtorch.device("cpu"), {"cuda:0": "cpu"}, lambda s, where: s])
def test_places(place, path):
    jtorch.save([1], path)
    assert jtorch.load(path, place) == [1] == jtorch.load(path, map_location=place, weights_only=False)


def test_places_that_are_none(path):
    jtorch.save([1], path)
    with pytest.raises(RuntimeError, match="deserialize object on a CUDA device but"):
        jtorch.load(path, map_location="cuda:0")
    with pytest.raises(NotImplementedError, match="pickle_module"):
        jtorch.load(path, None, json)
    with pytest.raises(TypeError, match="weights_only"):
        jtorch.load(path, weights_only="yes")


def test_numbers_of_numpy_become_numbers(path):
    back = round_trip([np.float64(1.5), np.float32(0.5), np.int64(3), np.bool_(True), np.complex64(1j)], path)
    assert back == [1.5, 0.5, 3, True, 1j] and {type(v) for v in back} == {float, int, bool, complex}


def test_schedulers_and_optimizers(path):
    param = nn.Parameter(jtorch.ones(2))
    optimizer = jtorch.optim.SGD([param], lr=0.1, momentum=0.9)
    scheduler = jtorch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
    param.sum().backward()
    optimizer.step()
    scheduler.step()
    state = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    back = round_trip(state, path)
    assert back["scheduler"] == state["scheduler"]
    assert back["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert back["optimizer"]["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]
