"""Small files made to cost much: time, memory, or an error that is none of the documented ones."""

from __future__ import annotations

import io
import pickle
import resource
import struct
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

import jtorch
from jtorch.errors import DataError
from jtorch.serialization import tensors

MOST = 300 << 20  # bytes that a load may take at its peak
LONGEST = 15.0  # seconds, on a busy machine


def pt(data, storage=bytes(16), compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("archive/data.pkl", data)
        file.writestr("archive/data/0", storage)
    buffer.seek(0)
    return buffer


def refused(file, match="."):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    with pytest.raises(DataError, match=match) as caught:
        jtorch.load(file)
    assert time.perf_counter() - begin < LONGEST
    assert len(str(caught.value)) < 2000
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MOST


def text(value):
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


NESTED = b")" + b"q\x00h\x00\x86" * 40  # t = (t, t), forty times
STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def tensor(size, stride=b"K\x01\x85", grad=b"\x89", hooks=b"N", rest=b"", storage=STORAGE + b"K\x04tQ"):
    return REBUILD + b"(" + storage + b"K\x00" + size + stride + grad + hooks + rest + b"tR"


@pytest.mark.parametrize(
    "content",
    {
        "size": tensor(NESTED),
        "stride": tensor(b"K\x01\x85", NESTED),
        "requires_grad": tensor(b"K\x01\x85", grad=NESTED),
        "hooks": tensor(b"K\x01\x85", hooks=NESTED),
        "metadata": tensor(b"K\x01\x85", rest=b"}(" + text("neg") + NESTED + b"u"),
        "metadata key": tensor(b"K\x01\x85", rest=b"}(" + NESTED + b"K\x01u"),
        "numel": tensor(b"K\x01\x85", storage=STORAGE + NESTED + b"tQ"),
        "device": b"ctorch\ndevice\n" + NESTED + b"\x85R",
        "index": b"ctorch\ndevice\n" + text("cpu") + NESTED + b"\x86R",
        "factory": b"ccollections\ndefaultdict\n" + NESTED + b"\x85R",
        "complex": b"cbuiltins\ncomplex\n" + NESTED + b"\x85R",
        "Size": b"ctorch\nSize\n" + NESTED + b"\x85R",
        "state": b"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor(b"K\x01\x85") + b"\x89N"
        + NESTED + b"tR",
        "key": b"}" + NESTED + b"Ns",
        "set": b"\x8f(" + NESTED + b"\x90",
        "global": b"\x8c\x05torch" + NESTED + b"\x93",
        "call": NESTED + b")R",
        "id": NESTED + b"Q",
    }.items(),
    ids=lambda item: item[0],
)  # fmt: skip
def test_a_nested_tuple_is_not_printed_into_a_message(content):
    name, data = content
    file = pt(b"\x80\x02" + data + b".")
    if name == "metadata":  # only asked whether it holds
        assert jtorch.load(file).shape == (1,)
    elif name == "state":
        with pytest.raises(NotImplementedError, match="with attributes: a tuple"):
            jtorch.load(file)
    else:
        refused(file)


@pytest.mark.parametrize("fact", ["neg", "conj"])
@pytest.mark.parametrize("dims", [1, 3])
def test_a_flagged_tensor_of_stride_0_stays_small(fact, dims):
    many = (1 << 30) ** (1 / dims)
    size = (b"J" + struct.pack("<i", int(many))) * dims + {1: b"\x85", 3: b"\x87"}[dims]
    stride = b"K\x00" * dims + {1: b"\x85", 3: b"\x87"}[dims]
    data = b"\x80\x02" + tensor(size, stride, rest=b"}" + text(fact) + b"\x88s") + b"."
    tracemalloc.start()
    x = jtorch.load(pt(data, np.float32([1.5, 2, 3, 4]).tobytes()))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert x.flatten()[0].item() == (-1.5 if fact == "neg" else 1.5) if dims == 1 else x.dim() == 3


def test_flagged_tensors_of_one_storage_share_its_negative():
    one = tensor(b"K\x04\x85", rest=b"}" + text("neg") + b"\x88s")
    data = b"\x80\x02]" + b"(" + one * 500 + b"e."
    given = np.arange(1 << 18, dtype=np.float32)
    data = data.replace(b"K\x04tQ", b"J" + struct.pack("<i", given.size) + b"tQ")
    tracemalloc.start()
    back = jtorch.load(pt(data, given.tobytes()))
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert len(back) == 500 and back[499].tolist() == [-0.0, -1, -2, -3]


@pytest.mark.parametrize("opcode", [b"}", b"]", b")", b"\x8f", b"N", b"K\x01", b"h\x00"])
def test_a_bomb_of_opcodes(opcode):
    data = b"\x80\x04Nq\x00" + opcode * (20_000_000 // len(opcode)) + b"."
    refused(pt(data, compression=zipfile.ZIP_DEFLATED), "bomb")
    refused(pt(b"\x80\x04Nq\x00" + opcode * 600_000 + b"."), r"unfolds to|ends with")


@pytest.mark.parametrize(
    "call",
    [b"cbuiltins\nset\nh\x00\x85R", b"ctorch\nSize\nh\x00\x85R", b"ccollections\nOrderedDict\nh\x01\x85R",
     b"c_codecs\nencode\nh\x02" + text("latin1") + b"\x86R", b"cbuiltins\nbytearray\nh\x03\x85R"],
    ids=["set", "Size", "OrderedDict", "encode", "bytearray"],
)  # fmt: skip
def test_a_value_that_is_copied_ten_thousand_times(call):
    numbers = b"".join(b"M" + struct.pack("<H", k) for k in range(50_000))
    head = b"](" + numbers + b"eq\x00]q\x01(" + b"".join(
        b"M" + struct.pack("<H", k) + b"N\x86" for k in range(50_000)
    ) + b"e" + text("x" * 200_000) + b"q\x02B" + struct.pack("<I", 200_000) + bytes(200_000) + b"q\x03"
    refused(pt(b"\x80\x03" + head + call * 10_000 + b"."), "unfolds to more than")


@pytest.mark.parametrize("call", ["set", "OrderedDict", "Size", "size"])
def test_an_endless_tensor_is_not_iterated(call):
    endless = tensor(b"\x8a\x06" + (1 << 40).to_bytes(6, "little") + b"K\x02\x86", b"K\x00K\x00\x86")
    data = {
        "set": b"cbuiltins\nset\n" + endless + b"\x85R",
        "OrderedDict": b"ccollections\nOrderedDict\n" + endless + b"\x85R",
        "Size": b"ctorch\nSize\n" + endless + b"\x85R",
        "size": tensor(endless, endless),
    }[call]
    refused(pt(b"\x80\x02" + data + b"."))


COLLIDING = {
    "ints": [k * (2**61 - 1) for k in range(40_000)],
    "complex": [complex(-1_000_003.0 * k, float(k)) for k in range(40_000)],
    "tuples": [(k * (2**61 - 1),) for k in range(40_000)],
}


@pytest.mark.parametrize("kind", COLLIDING)
def test_keys_that_collide(kind):
    spelled = b"".join(pickle.dumps((key, None), 2)[2:-1] for key in COLLIDING[kind])
    keys = b"".join(pickle.dumps(key, 2)[2:-1] + b"N" for key in COLLIDING[kind])
    if kind == "complex":
        keys = keys.replace(b"c__builtin__\ncomplex\n", b"cbuiltins\ncomplex\n")
    refused(pt(b"\x80\x02}(" + keys + b"u."), "made to collide")
    if kind == "ints":
        refused(pt(b"\x80\x02ccollections\nOrderedDict\n](" + spelled + b"e\x85R."), "made to collide")
        refused(pt(b"\x80\x04\x8f(" + b"".join(k + b"" for k in [keys.replace(b"N", b"")]) + b"\x90."))


def test_ints_of_a_safetensors_structure_that_collide():
    from safetensors.numpy import save

    pairs = ",".join(f'[{{"int":"{k}"}},null]' for k in COLLIDING["ints"])
    content = save({}, {tensors._KEY: f'{{"version":1,"object":{{"dict":[{pairs}]}}}}'})
    refused(io.BytesIO(content), "made to collide")


@pytest.mark.parametrize("version", ["[" * 300 + "]" * 300, '"' + "x" * 100_000 + '"'])
def test_a_structure_that_is_not_printed(version):
    from safetensors.numpy import save

    refused(io.BytesIO(save({}, {tensors._KEY: f'{{"version":{version},"object":null}}'})), "format version")


def test_pairs_without_elements():
    from safetensors.numpy import save

    content = save({"a": np.zeros((3, 0))}, {tensors._PAIRS: '["a"]'})
    refused(io.BytesIO(content), "safetensors")


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return bytearray(buffer.getvalue())


@pytest.mark.parametrize("at", range(4, 22))
def test_no_changed_end_record_loads_as_something_else(at):
    given = npz(a=np.ones(3), b=np.zeros(2))
    whole = {k: v.tolist() for k, v in jtorch.load(io.BytesIO(given)).items()}
    for bit in range(8):
        content = given.copy()
        content[len(content) - 22 + at] ^= 1 << bit
        refused(io.BytesIO(content), "zip archive")
    assert whole == {"a": [1, 1, 1], "b": [0, 0]}


def test_an_archive_after_other_bytes_of_an_open_file():
    file = io.BytesIO(b"before" + npz(a=np.ones(3)))
    file.seek(6)
    assert jtorch.load(file)["a"].tolist() == [1, 1, 1]
    assert jtorch.load(io.BytesIO(npz())) == {}


@pytest.mark.parametrize("order", "<>")
def test_the_elements_of_an_archive_are_in_memory_once(order):
    content = npz(a=np.zeros(30_000_000, order + "f4"))
    assert len(content) < 1 << 20
    tracemalloc.start()
    x = jtorch.load(io.BytesIO(content))["a"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.numel() == 30_000_000 and peak < 130 << 20


def test_other_byte_orders_and_odd_headers_have_the_same_elements():
    given = np.arange(6, dtype=">i4").reshape(2, 3, order="F")
    assert jtorch.load(io.BytesIO(npz(a=given)))["a"].tolist() == given.tolist()
    text_ = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}\n"
    file = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text_)) + text_ + np.float64([1, 2]).tobytes()
    assert (10 + len(text_)) % 8 and jtorch.load(io.BytesIO(file)).tolist() == [1, 2]
