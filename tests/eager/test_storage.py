"""Storages, copies and pickles: which memory is shared afterwards, as in PyTorch."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jtorch
from jtorch import nn
from tests.each import each
from tests.ops.support import HAS_TORCH


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_storages():
    x = jtorch.arange(6).reshape(2, 3)
    row = x[1, 1:]
    assert (row.storage_offset(), x.storage_offset(), x.t().storage_offset()) == (4, 0, 0)
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert len(row.untyped_storage()) == row.untyped_storage().size() == row.untyped_storage().nbytes() == 48
    assert repr(x.untyped_storage()) == "[jtorch.UntypedStorage(device=cpu) of size 48]"
    empty = jtorch.zeros(0, 3)
    assert (empty.untyped_storage().nbytes(), empty.storage_offset()) == (0, 0)
    buffer = np.frombuffer(bytes(16), np.float32)
    assert jtorch.from_numpy(buffer[1:]).untyped_storage().nbytes() == 12  # the rest is not the tensor's


def build(library):
    """Tensors that share memory in several ways."""
    x = library.arange(12.0).reshape(3, 4)
    leaf = library.ones(3, requires_grad=True)
    (leaf * 2).sum().backward()
    return {
        "x": x, "again": x, "view": x.view(12), "row": x[1], "t": x.t()[1:], "step": x[:, ::2],
        "off": x.detach(),
        "none": x[:0], "one": x[2, 3], "leaf": leaf, "param": library.nn.Parameter(library.ones(2)),
    }  # fmt: skip


def facts(made):
    """What can be seen of the tensors: elements, layout, flags, and who shares memory with whom."""
    names = [name for name in made if made[name].numel()]
    pointers = [made[name].untyped_storage().data_ptr() for name in names]
    seen = {
        name: (t.detach().tolist(), tuple(t.stride()), t.storage_offset(), t.requires_grad, type(t).__name__)
        for name, t in made.items()
        if t.numel()
    }
    grads = {
        name: None if made[name].grad is None else made[name].grad.tolist() for name in ("leaf", "param")
    }
    return seen, grads, [pointers.index(p) for p in pointers], made["x"] is made["again"]


def test_deepcopy_as_torch_does(torch):
    ours, theirs = build(jtorch), build(torch)
    copied = copy.deepcopy(ours)
    assert facts(copied) == facts(copy.deepcopy(theirs)) == facts(ours)
    copied["x"].zero_()
    assert copied["row"].sum() == 0 and ours["row"].sum() == 22


@pytest.mark.parametrize(
    "make",
    [
        lambda: jtorch.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        lambda: jtorch.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3)))[1],
        lambda: jtorch.from_numpy(np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1))[1:, 1],
        lambda: jtorch.from_numpy(np.frombuffer(bytearray(48), np.float64))[2:],
        lambda: jtorch.ones(3, 1).expand(3, 4), lambda: jtorch.tensor(3.0), lambda: jtorch.zeros(0, 2),
    ],
)  # fmt: skip
def test_deepcopy_of_any_layout(make):
    x = make()
    copied = copy.deepcopy(x)
    assert copied.tolist() == x.tolist() and copied.dtype is x.dtype
    copied.detach().numpy()[...] = 7
    assert 7.0 not in x.reshape(-1).tolist()
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()


def test_deepcopy_of_a_result():
    y = jtorch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"Only Tensors created explicitly by the user \(graph leaves\)"):
        copy.deepcopy(y)
    assert copy.deepcopy([y.detach()])[0].tolist() == [2.0, 2.0]


def test_a_copied_parameter_has_no_gradient(torch):
    for library in (torch, jtorch):
        model = library.nn.Linear(2, 1)
        model(library.ones(1, 2)).sum().backward()
        copied = copy.deepcopy(model)
        assert copied.weight.grad is None and model.weight.grad is not None and copied.weight.requires_grad
        assert copied.weight.tolist() == model.weight.tolist()


@pytest.mark.parametrize("make", ["tensor", "result", "param"])
def test_copy_as_torch_does(make, torch):
    def seen(library):
        leaf = library.ones(2, requires_grad=True)
        x = {"tensor": leaf, "result": leaf * 2, "param": library.nn.Parameter(library.ones(2))}[make]
        copied = copy.copy(x)
        shared = copied.data_ptr() == x.data_ptr()
        return shared, copied is x, copied.requires_grad, copied.is_leaf, type(copied).__name__, copied.grad

    assert seen(jtorch) == seen(torch)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(protocol):
    made = build(jtorch)
    back = pickle.loads(pickle.dumps(made, protocol))
    assert back["x"] is back["again"] and back["row"].tolist() == made["row"].tolist()
    assert type(back["param"]) is nn.Parameter and back["leaf"].requires_grad
    assert len(pickle.dumps(jtorch.zeros(1_000_000)[:2], protocol)) < 1000


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_modules_with_their_optimizers(clone):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    model.register_buffer("seen", jtorch.ones(2))
    model.append(model[0])  # tied
    optimizer = jtorch.optim.Adam(model.parameters())
    model(jtorch.tensor([[1.0, 2.0], [3.0, 5.0]])).sum().backward()
    optimizer.step()
    copied, following = clone((model, optimizer))
    assert copied[0] is copied[2] and copied[0].weight is not model[0].weight
    assert following.param_groups[0]["params"][0] is copied[0].weight is next(iter(following.state))
    optimizer.zero_grad()
    following.zero_grad()
    for m, o in ((model, optimizer), (copied, following)):
        m(jtorch.tensor([[0.5, 2.0], [3.0, -5.0]])).pow(2).sum().backward()
        o.step()
    assert [p.tolist() for p in copied.parameters()] == [p.tolist() for p in model.parameters()]
    assert [b.tolist() for b in copied.buffers()] == [b.tolist() for b in model.buffers()]


def test_the_offset_of_strided_views():
    base = jtorch.arange(32.0)
    view = base.as_strided((3, 3), (1, 2), 4)
    assert view.storage_offset() == 4
    assert base[5:].as_strided((3, 3), (1, 2)).storage_offset() == 5
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


EMPTY_VIEWS = {  # how it is made of a tensor of 4 rows of 3 -> (offset, strides)
    "rows": (lambda a: a[2:2], (6, (3, 1))), "past the end": (lambda a: a[4:], (12, (3, 1))),
    "columns": (lambda a: a[:, 1:1], (1, (3, 1))), "both": (lambda a: a[1:, 3:], (6, (3, 1))),
    "narrow": (lambda a: a.narrow(0, 3, 0), (9, (3, 1))), "of a view": (lambda a: a[1:][1:1], (6, (3, 1))),
    "of a row": (lambda a: a[2][1:1], (7, (1,))), "turned": (lambda a: a.t()[2:2], (2, (1, 3))),
    "turned after": (lambda a: a[3:3].t(), (9, (1, 3))), "in steps": (lambda a: a[::2][:0], (0, (6, 1))),
    "flat": (lambda a: a.view(-1)[5:5], (5, (1,))),
    "expanded": (lambda a: a[1:1].expand(2, 0, 3), (3, (0, 3, 1))),
    "part": (lambda a: a.split([1, 3, 0])[2], (12, (3, 1))),
}  # fmt: skip


@each("name", EMPTY_VIEWS)
def test_views_of_no_elements_begin_where_they_were_cut(name):
    make, expected = EMPTY_VIEWS[name]
    for L in (jtorch, pytest.importorskip("torch")) if HAS_TORCH else (jtorch,):
        view = make(L.arange(12.0).reshape(4, 3))
        assert (view.storage_offset(), view.stride()) == expected


def test_further_views_count_from_there():
    for L in (jtorch, pytest.importorskip("torch")) if HAS_TORCH else (jtorch,):
        a = L.arange(12.0).reshape(4, 3)
        a[2:2].as_strided((3,), (1,)).fill_(9)
        assert a.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [9.0, 9.0, 9.0], [9.0, 10.0, 11.0]]


def test_where_it_begins_is_asked_for_if_nothing_tells():
    with jtorch.no_grad():
        view = jtorch.arange(12.0).reshape(4, 3)[2:2]
    with pytest.raises(NotImplementedError, match="give storage_offset"):
        view.as_strided((3,), (1,))
    assert view.as_strided((2,), (1,), 6).tolist() == [6.0, 7.0]


@pytest.mark.parametrize("library", ["jtorch", "torch"])
def test_strides_count_from_the_begin_of_the_memory(library):
    L = pytest.importorskip(library)
    base = L.arange(8.0)
    for part in (base[2:], base[2:].detach(), base.view(2, 4)[1].detach()):
        assert part.as_strided((2,), (3,), 1).tolist() == [1.0, 4.0]
        assert part.as_strided((2,), (1,)).tolist() == part[:2].tolist()
    part.as_strided((2,), (1,), 0).mul_(10).add_(3)
    assert base.tolist()[:3] == [3.0, 13.0, 2.0]
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 32"):
        part.as_strided((9,), (1,), 0)
    foreign = L.from_numpy(np.arange(8.0)[2:])
    assert foreign.as_strided((2,), (1,), foreign.storage_offset()).tolist() == [2.0, 3.0]
