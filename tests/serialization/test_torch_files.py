"""PyTorch's .pt files: read as PyTorch wrote them, written so that PyTorch reads them, and no code run."""

from __future__ import annotations

import io
import math
import os
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import DataError
from jtorch.serialization import torch_writer, unpickle


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def written_by(torch, obj, **options):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **options)
    buffer.seek(0)
    return buffer


def elements(tensor):
    """Bytes, so that NaNs and signs count."""
    return np.ascontiguousarray(tensor.detach().numpy()).tobytes()


PLAIN = {
    "numbers": [0, -1, 255, 256, 70_000, -(2**31), 2**31, 10**40, -(10**40), 2**2030, -0.0, math.inf, 1 + 2j],
    "text": ["", "text \u2603", None, True, False],
    "ordered": OrderedDict(b=(1,), a=()), "counter": Counter("aab"), 3: {1.5: [], None: {}, False: ((), [])},
}  # fmt: skip


def test_plain_values_round_trip_through_both(torch, tmp_path):
    path = tmp_path / "plain.pt"
    jtorch.save(PLAIN, path)
    for back in (
        torch.load(path, weights_only=True),
        jtorch.load(path),
        jtorch.load(written_by(torch, PLAIN)),
    ):
        assert back == PLAIN and repr(back) == repr(PLAIN)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_torch_saves_beside_tensors(torch, protocol):
    obj = {
        "size": torch.Size([2, 3]), "dtype": torch.float64, "device": torch.device("cpu"), "bytes": b"a\xff",
        "array": bytearray(b"xy"), "set": {1, "a"}, "lists": defaultdict(list, a=[1]), "long": "x" * 300,
    }  # fmt: skip
    back = jtorch.load(written_by(torch, obj, pickle_protocol=protocol))
    assert back["size"] == (2, 3) and isinstance(back["size"], jtorch.Size)
    assert back["dtype"] is jtorch.float64 and back["device"] == jtorch.device("cpu")
    assert (back["bytes"], back["array"], back["set"]) == (b"a\xff", bytearray(b"xy"), {1, "a"})
    assert back["lists"]["a"] == [1] and back["lists"]["b"] == [] and back["long"] == obj["long"]


DTYPES = {d.name: d for d in jtorch.core.dtypes.ALL}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_torch(torch, name, mmap, tmp_path):
    x = torch.tensor([[0, 1, 2], [1, 0, 1]]).to(getattr(torch, name))
    given = {
        "x": x,
        "t": x.T,
        "row": x[1],
        "step": x[:, ::2],
        "none": x[:0],
        "one": x[1, 2],
        "wide": x[:1].expand(4, 3),
    }
    torch.save(given, tmp_path / "x.pt")
    back = jtorch.load(tmp_path / "x.pt", mmap=mmap)
    for key, theirs in given.items():
        ours = back[key]
        assert ours.dtype.name == name and tuple(ours.shape) == tuple(theirs.shape)
        assert ours.numpy().astype(np.complex128).tolist() == theirs.to(torch.complex128).tolist()
    back["x"].zero_()  # storages are shared as they were, and are this process's own
    assert back["row"].numpy().astype(np.complex128).tolist() == [0, 0, 0]
    assert bool(torch.load(tmp_path / "x.pt")["one"])


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("mmap", [False, True])
def test_tensors_for_torch(torch, name, mmap, tmp_path):
    path = tmp_path / "x.pth"
    x = jtorch.from_numpy(np.array([[0, 1, 2], [1, 0, 1]]).astype(DTYPES[name].numpy))
    state = {"x": x, "t": jtorch.from_numpy(x.numpy().T), "none": x[:0], "alias": x.detach()}
    jtorch.save(state, path)
    theirs = torch.load(path, weights_only=True, mmap=mmap)
    for key, ours in state.items():
        assert theirs[key].dtype is getattr(torch, name) and tuple(theirs[key].shape) == tuple(ours.shape)
        assert theirs[key].to(torch.complex128).tolist() == ours.numpy().astype(np.complex128).tolist()
    theirs["x"].zero_()
    assert not theirs["alias"].to(torch.complex128).any() and not theirs["t"].to(torch.complex128).any()


def test_special_floats(torch, tmp_path):
    array = np.array([np.nan, np.inf, -0.0, 1e-45], np.float32)
    assert elements(jtorch.load(written_by(torch, torch.from_numpy(array)))) == array.tobytes()
    jtorch.save(jtorch.from_numpy(array), tmp_path / "x.pt")
    assert (
        elements(torch.load(tmp_path / "x.pt")) == array.tobytes() == elements(jtorch.load(tmp_path / "x.pt"))
    )


def test_conjugated_and_negated_views(torch):
    x = torch.tensor([1 + 2j, 3 - 1j])
    back = [jtorch.load(written_by(torch, y)).tolist() for y in (x.conj(), x.imag, x.conj().imag)]
    assert back == [[1 - 2j, 3 + 1j], [2, -1], [-2, 1]]


def test_parameters_and_identity(torch, tmp_path):
    def check(library, back):
        a, again, frozen, leaf = back
        assert a is again and isinstance(a, library.nn.Parameter) and a.requires_grad
        assert isinstance(frozen, library.nn.Parameter) and not frozen.requires_grad
        assert type(leaf) is library.Tensor and leaf.requires_grad and leaf.is_leaf

    def build(library):
        p = library.nn.Parameter(library.ones(2))
        return [p, p, library.nn.Parameter(library.ones(1), False), library.zeros(1, requires_grad=True)]

    check(jtorch, jtorch.load(written_by(torch, build(torch))))
    jtorch.save(build(jtorch), tmp_path / "p.pt")
    check(torch, torch.load(tmp_path / "p.pt", weights_only=True))
    check(jtorch, jtorch.load(tmp_path / "p.pt"))


def test_a_checkpoint_moves_between_the_libraries(torch, tmp_path):
    """Three steps there, saved, three here: the same weights as six in one place; and back."""

    def build(library):
        library.manual_seed(0)
        model = library.nn.Sequential(
            library.nn.Linear(3, 4), library.nn.Tanh(), library.nn.Linear(4, 1)
        ).double()
        return model, library.optim.Adam(model.parameters(), lr=0.01)

    def train(library, model, optimizer):
        x = library.tensor([[0.1, -0.2, 0.3], [1.0, 0.5, -1.0]], dtype=library.float64)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()

    first, optimizer = build(torch)
    train(torch, first, optimizer)
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "there.pt")
    train(torch, first, optimizer)

    second, optimizer = build(jtorch)
    saved = jtorch.load(tmp_path / "there.pt")
    second.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train(jtorch, second, optimizer)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-12)

    jtorch.save({"model": second.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "back.pt")
    saved = torch.load(tmp_path / "back.pt", weights_only=True)
    third, optimizer = build(torch)
    third.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert saved["optimizer"]["state"][0]["step"].item() == 6


def test_round_trip_without_torch(tmp_path):
    path = tmp_path / "x.pt"
    model = nn.Linear(2, 3)
    jtorch.save({"state": model.state_dict(), "dtype": jtorch.int8, "place": jtorch.device("cpu"),
                 "size": model.weight.shape}, path)  # fmt: skip
    back = jtorch.load(path)
    assert list(back["state"]) == ["weight", "bias"] and type(back["state"]) is OrderedDict
    assert elements(back["state"]["weight"]) == elements(model.weight)
    assert back["dtype"] is jtorch.int8 and back["size"] == (3, 2) and back["place"].type == "cpu"
    buffer = io.BytesIO()
    jtorch.save([1], buffer, format="torch")
    assert zipfile.is_zipfile(buffer)
    jtorch.save([1], tmp_path / "y.pt", format="safetensors")
    assert not zipfile.is_zipfile(tmp_path / "y.pt") and jtorch.load(tmp_path / "y.pt") == [1]


def test_equal_objects_make_equal_files():
    assert torch_writer.to_bytes({"x": jtorch.ones(2)}) == torch_writer.to_bytes({"x": jtorch.ones(2)})


def test_what_can_not_be_saved(tmp_path):
    with pytest.raises((AttributeError, pickle.PicklingError), match="Can't pickle"):
        jtorch.save({"a": lambda: 0}, tmp_path / "x.pt")
    loop: list = []
    loop.append(loop)
    with pytest.raises(TypeError, match="does it contain itself"):
        jtorch.save(loop, tmp_path / "x.pt")
    assert not list(tmp_path.iterdir())


# -- files that are not what they claim --------------------------------------------------------------------


def archive(pickled=b"N.", records=(), root="archive/", **others):
    """A .pt file of these parts."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(root + "data.pkl", pickled)
        for name, content in [*records, *others.items()]:
            file.writestr(root + name, content)
    buffer.seek(0)
    return buffer


class Call:
    """An object whose pickle calls ``function``."""

    def __init__(self, function, *arguments):
        self.state = function, arguments

    def __reduce__(self):
        return self.state


@pytest.mark.parametrize("weights_only", [True, None])
@pytest.mark.parametrize(
    ("function", "arguments", "named"),
    [
        (os.system, ("touch {}",), r"(posix|nt)\.system"),
        (eval, ("open({!r}, 'w')",), r"builtins\.eval"),
        (os.mkdir, ("{}",), r"(posix|nt)\.mkdir"),
        (nn.Linear, (1, 1), r"jtorch\.nn\.linear\.Linear"),
        (np.zeros, (1,), r"numpy\.zeros"),
        (getattr, ("", "join"), r"builtins\.getattr"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_no_code_runs(function, arguments, named, weights_only, tmp_path):
    target = tmp_path / "made"
    told = [a.format(str(target)) if isinstance(a, str) else a for a in arguments]
    for protocol in (2, 4):
        file = archive(pickle.dumps(Call(function, *told), protocol))
        with pytest.raises(DataError, match=f"<BytesIO>: it needs the global {named}.*state_dict"):
            jtorch.load(file, weights_only=weights_only)
    assert not target.exists()


def test_a_whole_module_is_refused(torch):
    with pytest.raises(DataError, match=r"global torch\.nn\.modules\.linear\.Linear, which is no plain data"):
        jtorch.load(written_by(torch, torch.nn.Linear(1, 1)))


def test_other_formats_of_torch(torch, tmp_path):
    old = written_by(torch, [1], _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match=r"format of before 1\.6.*torch\.save\(torch\.load"):
        jtorch.load(old)
    with pytest.raises(DataError, match="a TorchScript program"):
        jtorch.load(archive(**{"constants.pkl": b"]."}))
    with pytest.raises(DataError, match="a bare pickle"):
        jtorch.load(io.BytesIO(pickle.dumps({"a": 1}, 4)))
    with pytest.raises(NotImplementedError, match="another byte order"):
        jtorch.load(archive(byteorder=b"big"))


def test_devices(torch):
    told = torch_writer.to_bytes({"x": jtorch.ones(2)})
    file = zipfile.ZipFile(io.BytesIO(told))
    pickled = file.read("archive/data.pkl").replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:1")
    records = [("data/0", file.read("archive/data/0"))]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device but"):
        jtorch.load(archive(pickled, records))
    seen = []
    for place in ("cpu", {"cuda:1": "cpu"}, lambda s, where: seen.append((where, s.nbytes())) or s):
        assert jtorch.load(archive(pickled, records), place)["x"].tolist() == [1.0, 1.0]
    assert seen == [("cuda:1", 8)]
    with pytest.raises(RuntimeError, match="on a CUDA device"):
        jtorch.load(archive(pickled, records), {"cuda:0": "cpu"})
    with pytest.raises(NotImplementedError, match="map_location returned a int"):
        jtorch.load(archive(pickled, records), lambda s, where: 3)


@pytest.mark.parametrize(
    ("pickled", "text"),
    [
        (b"", "malformed pickle"),
        (b"N", "malformed pickle"),
        (b".", "it ends with 0 values"),
        (b"NN.", "it ends with 2 values"),
        (b"(.", "a mark where a value was expected"),
        (b"0.", "POP"),
        (b"i__main__\nx\n.", "INST"),
        (b"\x82\x01.", "EXT1"),
        (b"h\x05.", "at byte 0"),
        (b"K\x01K\x02a.", "a list was expected"),
        (b"}K\x01K\x02K\x03u.", "malformed"),
        (b"}(K\x01u.", "a key without a value"),
        (b"}]Ns.", "unhashable"),
        (b"}" + b"N" + b"\x85" * 100_000 + b"Ns.", "a key nested too deep"),
        (b"N)R.", "a call of a NoneType"),
        (b"c__builtin__\nlist\n)R.", "a call of a type"),
        (b"c__builtin__\nbytearray\n\x8a\x06\0\0\0\0\0\x7f\x85R.", "a bytearray of a int"),
        (b"ctorch\nSize\n]X\1\0\0\0aa\x85R.", "a size of other things"),
        (b"ctorch\ndevice\nX\x03\0\0\0tpu\x85R.", "a device: Expected one of cpu, cuda"),
        (b"NQ.", "a persistent id that is no storage"),
        (b"]N}b.", "malformed"),
        (b"]}b.", "a state for a list"),
        (b"N\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "malformed"),
        (b"Nr\xff\xff\xff\x7f.", None),  # a memo number that Python's unpickler would allocate for
    ],
    ids=repr,
)
def test_hostile_pickles(pickled, text):
    if text is None:
        assert jtorch.load(archive(pickled)) is None
        return
    with pytest.raises(DataError, match=text):
        jtorch.load(archive(pickled))


def test_deep_pickles_do_not_exhaust_the_stack():
    deep = jtorch.load(archive(b"]" * 200_000 + b"a" * 199_999 + b"."))
    assert len(deep) == 1


def rebuilt(offset, size, stride, dtype=b"Float", requires_grad=b"\x89", key=b"0", numel=4):
    """The pickle of one tensor over a storage of 16 bytes."""

    def number(n):
        return b"J" + int(n).to_bytes(4, "little", signed=True)

    def numbers(values):
        return b"(" + b"".join(map(number, values)) + b"t"

    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\n" + dtype + b"Storage\nX\1\0\0\0" +
        key + b"X\x03\0\0\0cpu" + number(numel) + b"tQ" + number(offset) + numbers(size) + numbers(stride)
        + requires_grad + b"ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0, (5,), (1,)), r"size \(5,\), stride \(1,\) at 0 reaches beyond storage '0'"),
        ((1, (4,), (1,)), "reaches beyond"),
        ((-1, (1,), (1,)), "at -1"),
        ((3, (4,), (-1,)), "stride"),
        ((0, (2,), (2**30,)), "reaches beyond"),
        ((0, (2, 2), (1,)), "size"),
        ((0, (2**31 - 1,) * 9, (0,) * 9), "malformed"),
        ((0, (0, 2**31 - 1, 2**31 - 1, 2**31 - 1), (0, 0, 0, 0)), "malformed"),
        ((0, (1,) * 70, (1,) * 70), "malformed"),
        ((0, (2,), (1,), b"Long", b"\x88", b"0", 2), "that requires grad"),
        ((0, (2,), (1,), b"Float", b"\x89", b"0", 5), "storage '0' of 5 elements in 16 bytes"),
        ((0, (2,), (1,), b"Float", b"\x89", b"1"), "no record 'archive/data/1'"),
        ((0, (2,), (1,), b"Half", b"N", b"0", 8), "without requires_grad"),
        ((0, (2,), (1,), b"Untyped"), "storage '0' of 4 elements"),
        ((0, (2,), (1,), b"QInt8"), r"the global torch\.QInt8Storage"),
    ],
    ids=repr,
)
def test_hostile_tensors(arguments, text):
    with pytest.raises(DataError, match=text):
        jtorch.load(archive(rebuilt(*arguments), [("data/0", bytes(16))]))


def test_the_pickle_of_the_hostile_tests_is_well_formed():
    good = archive(rebuilt(1, (2, 1), (2, 9)), [("data/0", np.arange(4, dtype=np.float32).tobytes())])
    assert jtorch.load(good).tolist() == [[1.0], [3.0]]


def test_hooks_are_refused():
    with_hooks = rebuilt(0, (1,), (1,)).replace(b")RtR.", b")RX\1\0\0\0aNstR.")
    with pytest.raises(DataError, match="backward hooks, which are code"):
        jtorch.load(archive(with_hooks, [("data/0", bytes(16))]))


def test_the_unpickler_alone():
    def find(module, name):
        return unpickle.Constructor(name, lambda *a: (module, name, a))

    assert unpickle.loads(b"cm\nn\nK\x01\x85R.", "x", find, None, None) == ("m", "n", (1,))  # type: ignore[arg-type]


def test_fuzz(tmp_path):
    """Flipped and cut bytes give a named error, or what was saved where they hit padding."""
    path = tmp_path / "x.pt"
    obj = {
        "w": jtorch.arange(6).reshape(2, 3),
        "p": nn.Parameter(jtorch.ones(2)),
        "n": [1, 2.5, "text", None],
    }
    jtorch.save(obj, path)
    whole = path.read_bytes()
    draw = np.random.default_rng(0)
    equal = 0
    for k in range(400):
        content = bytearray(whole)
        if k % 4 == 0:
            del content[int(draw.integers(len(whole))) :]
        else:
            for at in draw.integers(len(whole), size=1 + k % 3):
                content[at] ^= int(draw.integers(1, 256))
        path.write_bytes(content)
        try:
            back = jtorch.load(path)
        except (DataError, NotImplementedError):
            continue
        equal += 1
        assert back["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and back["p"].tolist() == [1.0, 1.0]
        assert back["n"] == obj["n"]
    assert 0 < equal < 200
