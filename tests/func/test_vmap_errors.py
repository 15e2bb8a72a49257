"""What ``vmap`` refuses, in PyTorch's words where it has some."""

from __future__ import annotations

import pytest

import jtorch
from jtorch import func, nn
from tests.each import each

_DYNAMIC = "We do not support batching operators that can output dynamic shape"
_ITEM = r"It looks like you're calling \.item\(\) on a Tensor"


def _add_to_shared(library):
    shared = library.zeros(4)
    return lambda r: shared.add_(r)


def _copy_to_new(library):
    return lambda r: library.zeros(4).copy_(r)


def _write_an_item(library):
    def function(r):
        made = library.zeros(4)
        made[0] = r[0]
        return made

    return function


def _backward(library):
    w = library.ones(4, requires_grad=True)

    def function(r):
        (r * w).sum().backward()
        return r

    return function


_REFUSED = {  # a function of the library that gives the one to map, and the error
    "item": (lambda L: lambda r: r.sum().item(), RuntimeError, _ITEM),
    "float": (lambda L: lambda r: float(r.sum()), RuntimeError, _ITEM),
    "int": (lambda L: lambda r: int(r.sum()), RuntimeError, _ITEM),
    "tensor of elements": (lambda L: lambda r: L.tensor([r[0], r[1]]), RuntimeError, _ITEM),
    "bool": (lambda L: lambda r: r if r.sum() > 0 else -r, RuntimeError, "data-dependent control flow"),
    "tolist": (lambda L: lambda r: r.tolist(), RuntimeError, "Cannot access data pointer"),
    "numpy": (lambda L: lambda r: r.numpy(), RuntimeError, "Cannot access data pointer"),
    "data_ptr": (lambda L: lambda r: r.data_ptr(), RuntimeError, "Cannot access data pointer"),
    "nonzero": (lambda L: lambda r: r.nonzero(), RuntimeError, _DYNAMIC),
    "unique": (lambda L: lambda r: r.unique(), RuntimeError, _DYNAMIC),
    "x[mask]": (lambda L: lambda r: r[r > 0], RuntimeError, "dynamic shape"),
    "copy_": (_copy_to_new, RuntimeError, "inplace arithmetic"),
    "x[0] = r": (_write_an_item, RuntimeError, "inplace arithmetic"),
    "backward": (_backward, RuntimeError, r"backward\(\) called inside"),
    "draws": (lambda L: lambda r: r + L.rand(4), RuntimeError, "in randomness error mode"),
    "a number": (lambda L: lambda r: 1.0, ValueError, "must only return Tensors, got type <class 'float'>"),
    "batch_norm": (lambda L: L.nn.BatchNorm1d(4), RuntimeError, "(batched|inplace arithmetic)"),
}


@pytest.mark.filterwarnings("ignore")  # the oracle's own
@each("name", list(_REFUSED))
def test_functions_that_are_refused(name):
    make, error, match = _REFUSED[name]
    for library in ("jtorch", "torch"):
        try:
            library = __import__(library)
        except ImportError:
            continue
        x = library.ones(3, 5, 4) if name == "batch_norm" else library.ones(3, 4)
        with pytest.raises(error, match=match):
            library.func.vmap(make(library))(x)


def test_what_is_written_to_a_shared_tensor_is_refused_before_it_is():
    shared = jtorch.zeros(4)
    with pytest.raises(RuntimeError, match="`other` being vmapped over but `self` not being vmapped over"):
        func.vmap(lambda r: shared.add_(r))(jtorch.ones(3, 4))
    assert not shared.any()


@pytest.mark.filterwarnings("ignore")
@each(
    "arguments, options, error, match",
    [
        (lambda L: (L.ones(3), 2), {}, ValueError, "We cannot vmap over non-Tensor arguments"),
        (lambda L: (), {}, ValueError, "got no inputs"),
        (
            lambda L: (L.ones(3),),
            {"in_dims": (None,)},
            ValueError,
            "Expected at least one Tensor to vmap over",
        ),
        (
            lambda L: (L.ones(3),),
            {"in_dims": ({"a": 0},)},
            ValueError,
            "is not compatible with the structure",
        ),
        (
            lambda L: (L.ones(3),),
            {"out_dims": None},
            ValueError,
            "can not return a BatchedTensor when out_dim is",
        ),
        (
            lambda L: (L.ones(3),),
            {"out_dims": "a"},
            ValueError,
            "`out_dims` must be an int, None or a python",
        ),
        (lambda L: (L.ones(3),), {"out_dims": 2}, IndexError, "Dimension out of range"),
        (
            lambda L: (L.ones(3),),
            {"chunk_size": -1},
            ValueError,
            "chunk_size should be None or greater than 0",
        ),
    ],
    ids=lambda v: None,
)
def test_arguments_that_are_refused(arguments, options, error, match):
    for name in ("jtorch", "torch"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        with pytest.raises(error, match=match):
            library.func.vmap(lambda *args: args[0] * 2, **options)(*arguments(library))


def test_a_tensor_that_escapes():
    kept = []
    func.vmap(lambda r: (kept.append(r), r)[1])(jtorch.ones(3, 4))
    for use in (
        lambda: kept[0] + 1,
        lambda: kept[0].sum(),
        lambda: kept[0][0].item(),
        lambda: kept[0].numpy(),
    ):
        with pytest.raises(RuntimeError, match="may have escaped from inside a function being vmapped"):
            use()
    with pytest.raises(RuntimeError, match="may have escaped"):
        func.vmap(lambda r: r + kept[0])(jtorch.ones(3, 4))


def test_an_argument_without_a_graph_does_not_get_one():
    w = jtorch.ones(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="changed in place with values that require grad"):
        func.vmap(lambda r: r.mul_(w))(jtorch.ones(3, 4))


def test_the_running_statistics_of_all_examples():
    norm = nn.BatchNorm1d(4)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        func.vmap(norm)(jtorch.randn(3, 5, 4))
    norm.eval()
    assert func.vmap(norm)(jtorch.randn(3, 5, 4)).shape == (3, 5, 4)
