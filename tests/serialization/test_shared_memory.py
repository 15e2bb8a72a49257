"""Tensors of one memory are of one memory in the file and after loading, whatever windows of it they are."""

from __future__ import annotations

import copy
import io
import json

import numpy as np
import pytest
from safetensors.numpy import load as other_reader, save as safetensors_bytes

import jtorch
from jtorch import nn
from jtorch.core.errors import DataError
from jtorch.serialization.memory import Memories

FORMATS = ["torch", None]  # of ours and PyTorch's that keep whole storages; safetensors asked for: below


def file_of(obj, format=None, library=jtorch):
    file = io.BytesIO()
    library.save(obj, file, **({} if library is not jtorch else {"format": format}))
    file.seek(0)
    return file


def windows(library):
    """A memory and what can be seen of it: whole, parts, turned, thinned, widened, by other numbers."""
    x = library.arange(24.0).reshape(4, 6)
    return {
        "x": x, "again": x.detach(), "row": x[1], "part": x[1:3, 2:5], "turned": x.t(), "thin": x[::2, ::3],
        "wide": x[:, 1].unsqueeze(1).expand(4, 3), "flat": x.view(-1), "one": x[3, 5],
        "diagonal": x.diagonal(),
    }  # fmt: skip


def facts(state):
    return {k: (t.tolist(), tuple(t.stride()), t.storage_offset()) for k, t in state.items()}


def check_shared(state):
    """Everything is one storage: a write to it shows in all."""
    assert len({t.untyped_storage().data_ptr() for t in state.values()}) == 1
    state["flat"].copy_(state["flat"].neg())
    for key, expected in windows(jtorch).items():
        assert state[key].tolist() == (-expected).tolist(), key


@pytest.mark.parametrize("format", FORMATS)
def test_windows_of_one_storage(format):
    given = windows(jtorch)
    file = file_of(given, format)
    assert len(file.getvalue()) < 24 * 4 + 5000  # once, not ten times
    back = jtorch.load(file)
    assert facts(back) == facts(given)
    assert back["x"].untyped_storage().nbytes() == 96
    once_more = jtorch.load(file_of(back, format))
    assert facts(once_more) == facts(given)
    check_shared(copy.deepcopy(once_more))
    check_shared(once_more)
    check_shared(back)


def test_windows_move_between_the_libraries():
    torch = pytest.importorskip("torch")
    theirs = windows(torch)
    ours = jtorch.load(file_of(theirs, library=torch))
    assert facts(ours) == facts(theirs)
    check_shared(ours)
    back = torch.load(file_of(windows(jtorch), "torch"), weights_only=True)
    assert facts(back) == facts(theirs)
    assert back["x"].untyped_storage().nbytes() == theirs["x"].untyped_storage().nbytes()
    check_shared(back)


@pytest.mark.parametrize("format", FORMATS)
def test_a_window_alone_keeps_its_place(format):
    for window in (jtorch.arange(6.0)[2:4], jtorch.zeros(2, 3).t(), jtorch.ones(1).expand(3)):
        back = jtorch.load(file_of(window, format))
        assert facts({"": back}) == facts({"": window})
        assert back.untyped_storage().nbytes() == window.untyped_storage().nbytes()
    parts = jtorch.arange(4.0).split(2)  # that do not overlap
    first, second = jtorch.load(file_of(parts, format))
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert second.storage_offset() == 2 and second.tolist() == [2.0, 3.0]


@pytest.mark.parametrize("format", FORMATS)
def test_one_memory_as_two_dtypes(format):
    x = jtorch.arange(4.0)
    state = {"x": x, "bits": x.view(jtorch.int32), "bytes": x[1:].view(jtorch.uint8)}
    loaders = [jtorch.load]
    if format == "torch":
        loaders += [pytest.importorskip("torch").load]
    for load in loaders:
        back = load(file_of(state, format))
        assert {k: t.tolist() for k, t in back.items()} == {k: t.tolist() for k, t in state.items()}
        back["bits"].zero_()
        assert back["x"].tolist() == [0.0] * 4 and back["bytes"].tolist() == [0] * 12


@pytest.mark.parametrize("format", FORMATS)
def test_every_dtype_and_what_has_no_elements(format):
    for dtype in jtorch.core.dtypes.ALL:
        x = jtorch.ones(4).to(dtype)
        back, tail, void = jtorch.load(file_of([x, x[2:], x[4:]], format))
        back.zero_()
        assert tail.dtype is void.dtype is dtype and not tail.numpy().any() and void.shape == (0,)


@pytest.mark.parametrize("format", [*FORMATS, "safetensors"])
def test_modules(format):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 3)
            self.outer = nn.Linear(2, 3)
            self.outer.weight = self.inner.weight  # tied
            self.register_buffer("first_row", self.inner.weight.detach()[0])
            self.turned = nn.Parameter(self.inner.bias.detach()[1:])

    state = jtorch.load(file_of(Net().state_dict(), format))
    with jtorch.no_grad():
        state["inner.weight"].fill_(7.0)
        state["inner.bias"].fill_(5.0)
    assert state["outer.weight"].tolist() == [[7.0, 7.0]] * 3 and state["first_row"].tolist() == [7.0, 7.0]
    assert state["turned"].tolist() == [5.0, 5.0]


class Holder:
    """What only pickling keeps."""

    def __init__(self, **tensors):
        self.__dict__.update(tensors)


def test_whole_objects_and_attributes():
    x = jtorch.arange(4.0)
    weight = nn.Parameter(x[:2])
    weight.window = x[1:3]
    back = jtorch.load(file_of(Holder(x=x, weight=weight, nested=[{"t": (x[3:],)}])), weights_only=False)
    back.x.zero_()
    assert back.weight.tolist() == [0.0, 0.0] and back.weight.window.tolist() == [0.0, 0.0]
    assert isinstance(back.weight, nn.Parameter) and back.nested[0]["t"][0].tolist() == [0.0]
    plain = jtorch.load(file_of([x, weight], "torch"))
    plain[0].fill_(1.0)
    assert plain[1].tolist() == plain[1].window.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["torch", "safetensors", "whole"])
def test_memory_of_another_library_is_written_as_far_as_it_is_reached(kind, tmp_path):
    """A mapped file: what overlaps is one, also when a window is met before what joins it to others."""
    np.arange(100_000, dtype=np.float32).tofile(tmp_path / "mapped")
    mapped = np.memmap(tmp_path / "mapped", np.float32, mode="c")
    first, third, second = (jtorch.from_numpy(mapped[a:b]) for a, b in ((0, 4), (6, 9), (3, 7)))
    bits = jtorch.from_numpy(mapped[0:2].view(np.int32))
    given = [first, third, second, bits, jtorch.from_numpy(mapped[50:52])]
    file = file_of(Holder(given=given) if kind == "whole" else given, None if kind == "whole" else kind)
    assert len(file.getvalue()) < 8000
    back = jtorch.load(file, weights_only=kind != "whole")
    back = back.given if kind == "whole" else back
    assert [t.tolist() for t in back] == [t.tolist() for t in given]
    for t in back[:3]:
        t.zero_()
    assert back[0].tolist() == [0.0] * 4 and back[1].tolist() == [0.0] * 3 and back[3].tolist() == [0, 0]
    assert back[4].tolist() == [50.0, 51.0]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", ["x.pt", "x.jt", "x.safetensors"])
def test_what_was_loaded_is_saved_again(name, mmap, tmp_path):
    x = jtorch.arange(6.0)
    for _ in range(2):
        jtorch.save([x, x[2:]], tmp_path / name)
        x, tail = jtorch.load(tmp_path / name, mmap=mmap)
        x.add_(1.0)
        assert tail.tolist() == x.tolist()[2:]
    assert x.tolist() == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_safetensors_hold_what_others_read():
    """Asked for by name, each tensor is an entry of its shape, but for those of a memory that overlap."""
    x = jtorch.arange(6.0)
    state = {"turned": x.view(2, 3).t().clone(memory_format=jtorch.contiguous_format), "w": x.view(2, 3)}
    apart = jtorch.arange(4.0)
    state |= {"head": apart[:2], "tail": apart[2:], "row": state["w"][1], "lone": jtorch.ones(2, 3).t()}
    file = file_of(state, "safetensors")
    seen = {k: v.shape for k, v in other_reader(file.getvalue()).items()}
    assert seen == {"turned": (3, 2), "w": (2, 3), "head": (2,), "tail": (2,), "lone": (3, 2)}
    back = jtorch.load(file)
    back["w"].zero_()
    assert back["row"].tolist() == [0.0] * 3 and back["lone"].is_contiguous()
    assert back["tail"].tolist() == [2.0, 3.0]
    file = file_of([x[:4], x[2:]], "safetensors")  # none of them is all of it
    assert {k: v.shape for k, v in other_reader(file.getvalue()).items()} == {"0.storage": (6,)}
    a, b = jtorch.load(file)
    a.zero_()
    assert b.tolist() == [0.0, 0.0, 4.0, 5.0]


def test_files_without_windows_are_as_they_were():
    """So that an older jtorch reads them."""
    content = file_of(nn.Linear(2, 3).state_dict()).getvalue()
    assert b'\\"version\\":1' in content and b"view" not in content
    assert b'\\"version\\":2' in file_of(jtorch.ones(2)[1:]).getvalue()


OUT_OF_BOUNDS = [
    ([0, [3], [1], "float32"], "reaches beyond storage 't'"),
    ([-1, [1], [1], "float32"], "size \\(1,\\), stride \\(1,\\) at -1"),
    ([0, [2], [1 << 62], "float32"], "reaches beyond"),
    ([0, [1 << 62, 2], [0, 1 << 40], "float32"], "reaches beyond"),
    ([0, [2], [1], "float64"], "reaches beyond"),
    ([0, [2], [-1], "float32"], "stride"),
    ([0, [2], [1, 1], "float32"], "stride"),
    ([0, [2.0], [1], "float32"], "size"),
    ([0, [True], [1], "float32"], "size"),
    ([0, "ab", [1, 1], "float32"], "size"),
    ([None, [1], [1], "float32"], "at None"),
    ([0, [1], [1], "object"], "the view of tensor 't' is a list"),
    ([0, [1], [1], ["float32"]], "the view of tensor 't'"),
    ([0, [1], [1]], "the view of tensor 't'"),
    ({}, "the view of tensor 't'"),
    (5, "the view of tensor 't'"),
]


def test_windows_out_of_bounds_are_errors():
    for view, text in OUT_OF_BOUNDS:
        node = {"tensor": "t", "requires_grad": False, "object": 0, "view": view}
        structure = json.dumps({"version": 2, "object": {"list": [node]}})
        file = safetensors_bytes({"t": np.ones(2, np.float32)}, {"jtorch": structure})
        with pytest.raises(DataError, match=text):
            jtorch.load(io.BytesIO(file))


def test_an_endless_window_is_small_and_can_not_be_written_by_accident():
    node = {"tensor": "t", "requires_grad": False, "object": 0, "view": [0, [1 << 40], [0], "float32"]}
    structure = json.dumps({"version": 2, "object": node})
    file = safetensors_bytes({"t": np.ones(1, np.float32)}, {"jtorch": structure})
    back = jtorch.load(io.BytesIO(file))
    assert back.shape == (1 << 40,) and back.untyped_storage().nbytes() == 4
    assert len(file_of(back).getvalue()) < 1000
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        back.add_(1.0)


def test_regions_that_overlap_become_one():
    memories = Memories(storages=False)
    block = np.arange(40.0, dtype=np.float32)
    tensors = [jtorch.from_numpy(block[a:b]) for a, b in ((0, 4), (8, 12), (20, 24), (2, 9), (24, 30))]
    for t in tensors:
        memories.of(t)
    assert not memories.settled()
    placed = [memories.of(t) for t in tensors]
    assert [(w.region.number, w.offset) for w in placed] == [(0, 0), (0, 8), (1, 0), (0, 2), (2, 0)]
    assert memories.settled() and [len(r) for r in memories.met] == [48, 16, 24]
