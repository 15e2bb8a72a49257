"""Small files made to cost much: time, memory, or an error that is none of the documented ones."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import DataError
from jtorch.serialization import tensors, unpickle
from tests import memory_peak

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
    memory_peak.forget()
    before = memory_peak.peak()
    begin = time.perf_counter()
    with pytest.raises(DataError, match=match) as caught:
        jtorch.load(file)
    assert time.perf_counter() - begin < LONGEST
    assert len(str(caught.value)) < 2000
    assert memory_peak.peak() - before < MOST


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


@pytest.mark.slow
@pytest.mark.parametrize("opcode", [b"}", b"]", b")", b"\x8f", b"N", b"K\x01", b"h\x00"])
def test_a_bomb_of_opcodes(opcode):
    data = b"\x80\x04Nq\x00" + opcode * (20_000_000 // len(opcode)) + b"."
    refused(pt(data, compression=zipfile.ZIP_DEFLATED), "bomb")
    refused(pt(b"\x80\x04Nq\x00" + opcode * 600_000 + b"."), r"unfolds to|ends with")


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [b"cbuiltins\nset\nh\x00\x85R", b"ctorch\nSize\nh\x00\x85R", b"ccollections\nOrderedDict\nh\x01\x85R",
     b"c_codecs\nencode\nh\x02" + text("latin1") + b"\x86R", b"cbuiltins\nbytearray\nh\x03\x85R"],
    ids=["set", "Size", "OrderedDict", "encode", "bytearray"],
)  # fmt: skip
def test_a_value_that_is_copied_ten_thousand_times(call):
    numbers = b"".join(b"M" + struct.pack("<H", k) for k in range(50_000))
    head = (
        b"]("
        + numbers
        + b"eq\x00]q\x01("
        + b"".join(b"M" + struct.pack("<H", k) + b"N\x86" for k in range(50_000))
        + b"e"
        + text("x" * 200_000)
        + b"q\x02B"
        + struct.pack("<I", 200_000)
        + bytes(200_000)
        + b"q\x03"
    )
    refused(pt(b"\x80\x03" + head + call * 10_000 + b"."), "unfolds to more than")


def names(count):
    """That many values, by opcodes of two bytes: ints that the memo holds."""
    return b"".join(b"h" + bytes([k]) for k in range(count))


SMALL = {  # opcodes that a hostile file repeats, each of them as cheap for its bytes as it can be
    **{f"a set of {n}": b"\x8f(" + names(n) + b"\x90" for n in (0, 1, 4, 5, 19, 20, 77, 80)},
    **{f"a frozenset of {n}": b"(" + names(n) + b"\x91" for n in (0, 1, 5, 19, 77)},
    "a set of 77, filled twice": b"\x8f(" + names(76) + b"\x90(h\x4dh\x4e\x90",
    **{f"a dict of {n}": b"}(" + names(n).replace(b"h", b"Nh")[1:] + b"Nu" for n in (1, 2, 6, 11, 43)},
    "a dict of one item": b"}h\0h\0s", "a dict of many texts": b"}" + b"(" + text("abcd") + b"Nu",
    **{f"a list of {n}": b"](" + names(n) + b"e" for n in (0, 1, 9, 80)},
    "a list of one item": b"]h\0a", "a list of two": b"]h\0ah\0a", "a tuple": b"(h\0t", "a pair": b"NN\x86",
    **{f"an OrderedDict of {n}": b"h\xa0)R(" + names(n).replace(b"h", b"Nh")[1:] + b"Nu" for n in (1, 6, 11)},
    "an OrderedDict": b"h\xa0)R", "a Counter": b"h\xa1)R", "a Counter of one": b"h\xa1}h\0h\1s\x85R",
    "a defaultdict": b"h\xa2h\xa3\x85R", "a set that is called": b"h\xa4(" + names(77) + b"t\x85R",
    "OrderedDicts of pairs": b"h\xa0(h\xa5t\x85R", "a Size": b"h\xa6h\xa7\x85R",
    "a global": b"ctorch\nSize\n", "a watched dict": b"h\xa8)R",
    "a state": b"h\xa0)R}" + text("_metadata") + b"Nsb",
    "a tensor": b"h\xa9h\xaaR", "a parameter": b"h\xabh\xac\x88h\xad\x87R", "a float": b"G" + bytes(8),
    "an attribute": b"h\xae(h\xa9h\xafh\xaah\xb0tR", "bytes": b"C\0", "a long": b"\x8a\x01\x05",
    "an int that is remembered": b"N\x94", "a number beyond the small": b"M\xff\xff",
}  # fmt: skip
HEAD = b"\x80\x04" + b"".join(b"M" + struct.pack("<H", 1000 + k) + b"q" + bytes([k]) for k in range(160)) + (
    b"ccollections\nOrderedDict\nq\xa0ccollections\nCounter\nq\xa1ccollections\ndefaultdict\nq\xa2"
    b"cbuiltins\nlist\nq\xa3cbuiltins\nset\nq\xa4h\0h\1\x86q\xa5ctorch\nSize\nq\xa6h\0h\1\x86q\xa7"
    b"cjtorch.watch\nDict\nq\xa8" + REBUILD + b"q\xa9(" + STORAGE + b"K\x04tQK\0))\x89Ntq\xaa"
    b"ctorch._utils\n_rebuild_parameter\nq\xabh\xa9h\xaaRq\xacNq\xadctorch._tensor\n_rebuild_from_type_v2\nq\xae"
    b"ctorch\nTensor\nq\xaf}" + text("a") + b"Nsq\xb0"
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("content", SMALL.items(), ids=lambda item: item[0])
def test_the_price_of_an_opcode_is_what_it_makes(content, monkeypatch):
    """A file of a few opcodes again and again is refused before it takes much more than it may."""
    monkeypatch.setattr(unpickle.Budget, "LEAST", 4 << 20)
    monkeypatch.setattr(unpickle.Budget, "PER_BYTE", 0)
    repeated = content[1] * (800_000 // len(content[1])) + b"."
    file = pt(HEAD + repeated)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"unfolds to more than|it ends with"):
            jtorch.load(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - 2 * len(repeated) < 6 << 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["set", "dict", "OrderedDict"])
@pytest.mark.parametrize("numbers", ["ints", "floats"])
def test_the_price_of_one_large_container(kind, numbers, monkeypatch):
    monkeypatch.setattr(unpickle.Budget, "LEAST", 4 << 20)
    monkeypatch.setattr(unpickle.Budget, "PER_BYTE", 0)
    spelled = [b"J" + struct.pack("<i", 300 + k) for k in range(60_000)]
    if numbers == "floats":
        spelled = [b"G" + struct.pack(">d", k + 0.5) for k in range(60_000)]
    begin = {"set": b"\x8f(", "dict": b"}(", "OrderedDict": b"ccollections\nOrderedDict\n)R("}[kind]
    end, between = (b"\x90.", b"") if kind == "set" else (b"Nu.", b"N")
    file = pt(b"\x80\x04" + begin + between.join(spelled) + end)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="unfolds to more than"):
            jtorch.load(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - 2 * len(file.getvalue()) < 8 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS, as Linux has it")
@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_a_megabyte_of_small_containers(kind, tmp_path):
    """In a process of its own, whose memory nothing else has filled before."""
    one = SMALL[{"set": "a set of 77", "frozenset": "a frozenset of 77", "dict": "a dict of 1"}[kind]]
    path = tmp_path / "x.pt"
    noise = np.random.default_rng(0).bytes(1_000_000)
    data = HEAD + b"B" + struct.pack("<I", len(noise)) + noise + one * (14_000_000 // len(one)) + b"."
    path.write_bytes(pt(data, compression=zipfile.ZIP_DEFLATED).getvalue())
    assert path.stat().st_size < 2 << 20
    done = subprocess.run(
        [sys.executable, "-c", memory_peak.PEAK_SOURCE + _LOADS, str(path)],
        capture_output=True, text=True, timeout=100,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 300


_LOADS = """
import sys
import jtorch
from jtorch.core.errors import DataError
before = peak()
try:
    jtorch.load(sys.argv[1])
except DataError as error:
    assert "unfolds to more than" in str(error), error
else:
    raise AssertionError("loaded")
print((peak() - before) >> 20)
"""


def test_what_prices_take_containers_for_is_no_less_than_their_size():
    sizes = [*range(300), *(k << n for n in range(8, 18) for k in (2, 3))]
    keys = [object() for _ in range(max(sizes))]
    for count in sizes:
        for made, empty in ((set(keys[:count]), 232), (frozenset(keys[:count]), 232)):
            assert sys.getsizeof(made) <= empty + unpickle.set_size(count)
        grown = dict.fromkeys(keys[:count])
        assert sys.getsizeof(grown) <= 80 + unpickle.dict_size(grown, count)
        ordered = OrderedDict.fromkeys(keys[:count])
        assert sys.getsizeof(ordered) <= 200 + unpickle.dict_size(ordered, count)


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


@pytest.mark.slow
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


@pytest.mark.slow
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
