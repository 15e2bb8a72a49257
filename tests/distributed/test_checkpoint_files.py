"""Files of checkpoints that are damaged, missing or hostile: errors name the file, nothing is loaded."""

from __future__ import annotations

import io
import json
import shutil
import threading
import time
import zlib
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import jtorch
import jtorch.distributed.checkpoint as dcp
from jtorch.distributed.checkpoint import flat as flattening, metadata, writing
from jtorch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from jtorch.errors import DataError
from jtorch.serialization import tensors as safetensors


def state(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "model": {"a.b": tensor(rng, 4, 3), "a": {"b": tensor(rng, 5)}, "scalar": tensor(rng)},
        "empty": tensor(rng, 0, 2), "rows": tensor(rng, 5, 0), "planes": tensor(rng, 2, 0, 3),
        "n": seed, 3: "three", "plain": [1, 2],
        "half": tensor(rng, 6).to(jtorch.bfloat16), "complex": tensor(rng, 2).to(jtorch.complex128),
        "list": [{"lr": 0.1 + seed, "betas": (0.9, 0.999)}, tensor(rng, 2)],
    }  # fmt: skip


def tensor(rng, *shape):
    return jtorch.from_numpy(np.array(rng.standard_normal(shape), np.float32))


def flat(given):
    return {path: (tuple(leaf.shape), leaf.dtype, leaf.numpy().tobytes()) if isinstance(leaf, jtorch.Tensor)
            else leaf for path, leaf in flattening.leaves(given)}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path / "saved")
    return tmp_path / "saved"


def part_of(folder):
    (path,) = folder.glob("*.safetensors")
    return path


def refuses(folder, kind, *words, given=None):
    target = state(2) if given is None else given
    before = flat(target)
    with pytest.raises(kind) as caught:
        dcp.load(target, checkpoint_id=folder)
    for word in words:
        assert str(word) in str(caught.value), caught.value
    assert flat(target) == before


def test_what_is_saved_comes_back(folder):
    target = state(2)
    kept = target["model"]["a.b"]
    dcp.load(target, checkpoint_id=folder)
    assert flat(target) == flat(state(1))
    assert target["model"]["a.b"] is kept
    assert type(target["list"][0]["betas"]) is tuple


def test_no_pickle_and_no_half_file_is_left(folder):
    names = sorted(p.name for p in folder.iterdir())
    assert names == [".metadata", part_of(folder).name]
    for path in folder.iterdir():
        assert path.read_bytes()[8:9] == b"{", "a safetensors file"


def test_a_part_of_it_may_be_loaded_and_names_must_be_there(folder):
    target = {"model": {"a.b": jtorch.zeros(4, 3)}}
    dcp.load(target, checkpoint_id=folder)
    assert flat(target)["model", "a.b"] == flat(state(1))["model", "a.b"]
    refuses(folder, KeyError, folder, "model.other", given={"model": {"other": jtorch.zeros(1)}})
    more = {"model": {"a.b": jtorch.zeros(4, 3), "other": jtorch.zeros(1)}, "m": 3}
    dcp.load(more, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert flat(more)["model", "a.b"] == flat(state(1))["model", "a.b"] and more["m"] == 3
    other = {"model": {"a.b": jtorch.zeros(4, 2)}}
    refuses(folder, ValueError, "Size mismatch", "[4, 3]", "[4, 2]", given=other)


def read_only(*shape):
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return jtorch.from_numpy(array)


UNFIT = {
    "real of complex": ("complex", jtorch.zeros(2), ["complex128", "float32"]),
    "whole numbers of floats": ("list", [{}, jtorch.zeros(2, dtype=jtorch.int64)], ["float32", "int64"]),
    "another precision": ("half", jtorch.zeros(6), ["bfloat16", "float32"]),
    "expanded": ("complex", jtorch.zeros(1, dtype=jtorch.complex128).expand(2), ["be loaded into"]),
    "one place for all": ("list", [{}, jtorch.zeros(2).as_strided((2,), (0,))], ["can't be loaded into"]),
    "an array that may not be written": ("list", [{}, read_only(2)], ["can't be loaded into"]),
}


@pytest.mark.filterwarnings("ignore:.*not writ.*")
@pytest.mark.parametrize("how", UNFIT)
def test_a_target_that_does_not_fit_leaves_all_as_it_was(folder, how):
    name, target, words = UNFIT[how]
    given = {"model": state(2)["model"], "n": 2, name: target}
    refuses(folder, ValueError, folder, name, *words, given=given)


def test_a_dict_that_can_not_be_changed(folder):
    given = {"model": state(2)["model"], "list": [MappingProxyType({"lr": 0.5})]}
    refuses(folder, TypeError, "list.0.lr", "mappingproxy", given=given)
    refuses(folder, TypeError, "mappingproxy", given=MappingProxyType({"n": 5}))


@pytest.mark.parametrize("position", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", ["part", "metadata"])
def test_a_file_that_is_cut_off(folder, name, position):
    path = part_of(folder) if name == "part" else folder / ".metadata"
    content = path.read_bytes()
    path.write_bytes(content[: int(position * len(content))])
    refuses(folder, DataError, path)


def test_a_bit_that_flipped(folder):
    path = part_of(folder)
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    refuses(folder, DataError, path, "checksum")


def test_a_missing_file(folder):
    path = part_of(folder)
    path.unlink()
    refuses(folder, DataError, path, "missing")
    (folder / ".metadata").unlink()
    refuses(folder, FileNotFoundError, "no checkpoint at", folder / ".metadata")
    shutil.rmtree(folder)
    refuses(folder, FileNotFoundError, folder)


def test_the_part_of_another_checkpoint(folder, tmp_path):
    dcp.save(state(3), checkpoint_id=tmp_path / "other")
    part_of(tmp_path / "other").rename(part_of(folder))
    refuses(folder, DataError, part_of(folder), "of another checkpoint")


HOSTILE = {
    "a path outside": lambda f: f["tensors"][0]["chunks"][0].__setitem__(2, "../../etc/passwd"),
    "another file": lambda f: f["tensors"][0]["chunks"][0].__setitem__(2, "0123456789abcdef-0.safetensors"),
    "a negative size": lambda f: f["tensors"][0].__setitem__("shape", [-4, 3]),
    "a huge size": lambda f: f["tensors"][0].__setitem__("shape", [2**62, 3]),
    "a gap": lambda f: f["tensors"][0]["chunks"][0].__setitem__(0, 1),
    "rows twice": lambda f: f["tensors"][0]["chunks"].append(f["tensors"][0]["chunks"][0]),
    "an unknown dtype": lambda f: f["tensors"][0].__setitem__("dtype", "object"),
    "a path of lists": lambda f: f["tensors"][0].__setitem__("path", [["model"]]),
    "a dtype that is a list": lambda f: f["tensors"][0].__setitem__("dtype", []),
    "a path without steps": lambda f: f["tensors"][0].__setitem__("path", []),
    "a value's path without steps": lambda f: f["values"].append([[], 1]),
    "a path in that of a tensor": lambda f: f["values"].append([[*f["tensors"][0]["path"], "b"], 1]),
    "a path in that of a value": lambda f: f["values"].append([["n", "b"], 1]),
    "a value twice": lambda f: f["values"].append(f["values"][0]),
    "a tensor that is a value, too": lambda f: f["values"].append([f["tensors"][0]["path"], 1]),
    "a name twice": lambda f: f["tensors"].append(f["tensors"][0]),
    "no tensors": lambda f: f.__setitem__("tensors", {"a": 1}),
    "a value alone": lambda f: f["values"].append(["n"]),
    "no identity": lambda f: f.__setitem__("identity", "../"),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_list(folder, how):
    path = folder / ".metadata"
    outer = jtorch.load(path)
    facts = jtorch.load(io.BytesIO(outer["list"].numpy().tobytes()))
    HOSTILE[how](facts)
    content = safetensors.to_bytes(facts)
    listed = jtorch.from_numpy(np.frombuffer(content, np.uint8).copy())
    jtorch.save({**outer, "list": listed, "crc32": zlib.crc32(content)}, path, format="safetensors")
    refuses(folder, DataError, path)


@pytest.mark.parametrize(
    "change", [{"version": 1}, {"version": 3}, {"format": "pickle"}, {"crc32": "1"}, {"list": [1]}]
)
def test_another_kind_of_list(folder, change):
    path = folder / ".metadata"
    jtorch.save({**jtorch.load(path), **change}, path, format="safetensors")
    refuses(folder, DataError, path)


def test_a_digit_of_a_value_that_changed(folder):
    path = folder / ".metadata"
    content = path.read_bytes()
    assert content.count(b"1.1") == 1, "the learning rate"
    path.write_bytes(content.replace(b"1.1", b"1.3"))
    refuses(folder, DataError, path, "checksum")


def test_each_byte_of_the_list_counts(folder):
    path = folder / ".metadata"
    content = path.read_bytes()
    for k in range(7, len(content), 41):
        path.write_bytes(content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :])
        refuses(folder, DataError, path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"{}", json.dumps({"a": 1}).encode(), b"\0" * 100])
def test_another_file_as_the_list(folder, content):
    (folder / ".metadata").write_bytes(content)
    refuses(folder, DataError, folder / ".metadata")


def test_parts_that_are_not_what_the_list_says(folder):
    path = part_of(folder)
    facts = jtorch.load(path)
    for change, word in (
        (lambda t: t.to(jtorch.float64), "float64[4, 3], and float32[4, 3] is listed"),
        (lambda t: t[:2], "float32[2, 3]"),
        (lambda t: "a string", "there is no"),
    ):
        tensors = {**facts["tensors"], "model.a.b": change(facts["tensors"]["model.a.b"])}
        jtorch.save({**facts, "tensors": tensors}, path, format="safetensors")
        refuses(folder, DataError, path, word)
    for change in ({"identity": jtorch.zeros(2)}, {"crc32": dict.fromkeys(facts["crc32"], jtorch.zeros(2))}):
        jtorch.save({**facts, **change}, path, format="safetensors")
        refuses(folder, DataError, path)
    jtorch.save({"x": jtorch.zeros(1)}, path, format="safetensors")
    refuses(folder, DataError, path, "no file of a checkpoint's parts")


@pytest.mark.parametrize("fails", [".metadata", "safetensors"])
def test_the_old_checkpoint_stays_until_the_new_one_is_whole(folder, fails, monkeypatch):
    real = writing.write_atomically

    def write(path, content):
        if path.name.endswith(fails):
            raise OSError(28, "No space left on device", str(path))
        real(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(writing, "write_atomically", write)
        with pytest.raises(OSError, match="No space"):
            dcp.save(state(9), checkpoint_id=folder)
    target = state(2)
    dcp.load(target, checkpoint_id=folder)
    assert flat(target) == flat(state(1))
    dcp.save(state(9), checkpoint_id=folder)
    dcp.load(target, checkpoint_id=folder)
    assert flat(target) == flat(state(9))
    assert len(list(folder.iterdir())) == 2, "what is of no use was removed"


def test_old_files_that_can_not_be_removed_are_no_error(folder, monkeypatch):
    def unlink(path, missing_ok=False):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", unlink)
        dcp.save(state(9), checkpoint_id=folder)
    assert len(list(folder.iterdir())) == 3
    target = state(2)
    dcp.load(target, checkpoint_id=folder)
    assert flat(target) == flat(state(9))


def test_what_is_no_plain_data_is_refused(tmp_path):
    for thing, word in (
        ({"a": object()}, "object can't be saved"), ({"a": (jtorch.ones(1),)}, "a tuple with tensors"),
        ({"a": {2.5: 1}}, "a key 2.5"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=word):
            dcp.save(thing, checkpoint_id=tmp_path / "no")
    assert not (tmp_path / "no").exists()
    with pytest.raises(ValueError, match="checkpoint_id"):
        dcp.save({})


def test_a_copy_is_saved_later(tmp_path):
    given = state(1)
    future = dcp.async_save(given, checkpoint_id=tmp_path / "later")
    expected = flat(state(1))
    with jtorch.no_grad():
        given["model"]["a.b"].zero_()
    given["n"] = 100
    future.result()
    target = state(2)
    dcp.load(target, storage_reader=dcp.FileSystemReader(tmp_path / "later"))
    assert flat(target) == expected


@pytest.mark.slow
def test_saving_and_loading_wait_for_what_is_saved_before(tmp_path, monkeypatch):
    real = writing.write_atomically

    def write(path, content):
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)
        real(path, content)

    monkeypatch.setattr(writing, "write_atomically", write)
    target = state(5)
    first = dcp.async_save(state(1), checkpoint_id=tmp_path)
    dcp.load(target, checkpoint_id=tmp_path)
    assert flat(target) == flat(state(1))
    second = dcp.async_save(state(2), checkpoint_id=tmp_path)
    dcp.save(state(3), checkpoint_id=tmp_path)
    assert first.done() and second.done()
    dcp.load(target, checkpoint_id=tmp_path)
    assert flat(target) == flat(state(3))


class Counter:
    def __init__(self, count):
        self.count, self.tensor = count, jtorch.full((2,), count)

    def state_dict(self):
        return {"count": self.count, "tensor": self.tensor}

    def load_state_dict(self, state_dict):
        self.count, self.tensor = state_dict["count"], state_dict["tensor"]


def test_objects_with_state_dicts(tmp_path):
    model, counter = jtorch.nn.Linear(2, 2), Counter(5)
    dcp.save({"model": model, "counter": counter}, checkpoint_id=tmp_path)
    other, its = jtorch.nn.Linear(2, 2), Counter(0)
    dcp.load({"model": other, "counter": its}, checkpoint_id=tmp_path)
    assert other.weight.tolist() == model.weight.tolist()
    assert its.count == 5 and its.tensor.tolist() == [5, 5]
    optimizer = jtorch.optim.Adam(model.parameters())
    with pytest.raises(TypeError, match="get_optimizer_state_dict"):
        dcp.load({"optimizer": optimizer}, checkpoint_id=tmp_path)


def test_rows_of_a_tensor_without_elements():
    assert [metadata.rows_in(s) for s in ((), (3,), (0, 2), (2, 0), (4, 1))] == [1, 3, 0, 0, 4]


def test_one_file_of_many_and_many_of_one(folder, tmp_path):
    dcp_to_torch_save(folder, tmp_path / "one.pt")
    found = jtorch.load(tmp_path / "one.pt")
    assert flat(found) == flat(state(1))
    torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "again")
    target = state(2)
    dcp.load(target, checkpoint_id=tmp_path / "again")
    assert flat(target) == flat(state(1))
