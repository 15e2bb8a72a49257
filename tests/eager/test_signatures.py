"""NumPy's keywords beside PyTorch's, and the errors of calls that lack an argument."""

from __future__ import annotations

import pytest

import jtorch
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

CALLS = {
    "cumsum_": lambda L, x, i: x.cumsum_(**i("dim")),
    "cumprod_": lambda L, x, i: x.cumprod_(**i("dim")),
    "index_select": lambda L, x, i: x.index_select(**i("dim"), index=L.tensor([1])),
    "function index_select": lambda L, x, i: L.index_select(x, **i("dim"), index=L.tensor([1])),
    "gather": lambda L, x, i: x.gather(**i("dim"), index=L.tensor([[1, 0, 1]])),
    "scatter": lambda L, x, i: x.scatter(**i("dim"), index=L.tensor([[1, 0, 1]]), src=x),
    "scatter value": lambda L, x, i: L.scatter(x, **i("dim"), index=L.tensor([[1, 0, 1]]), value=5.0),
    "scatter_": lambda L, x, i: x.scatter_(**i("dim"), index=L.tensor([[1, 0, 1]]), src=x + 1),
    "scatter_add": lambda L, x, i: x.scatter_add(**i("dim"), index=L.tensor([[1, 0, 1]]), src=x),
    "index_fill_": lambda L, x, i: x.index_fill_(**i("dim"), index=L.tensor([1]), value=5.0),
    "index_add": lambda L, x, i: x.index_add(**i("dim"), index=L.tensor([1]), source=L.ones(1, 3)),
    "index_copy": lambda L, x, i: x.index_copy(**i("dim"), index=L.tensor([1]), source=L.ones(1, 3)),
    "select": lambda L, x, i: x.select(**i("dim"), index=1),
    "narrow": lambda L, x, i: x.narrow(**i("dim"), start=0, length=1),
    "renorm": lambda L, x, i: L.renorm(x, p=2, **i("dim"), maxnorm=1.0),
    "norm": lambda L, x, i: L.linalg.norm(x, **i("dim", "keepdim")),
    "vector_norm": lambda L, x, i: L.linalg.vector_norm(x, **i("dim", "keepdim")),
    "matrix_norm": lambda L, x, i: L.linalg.matrix_norm(x, **i("keepdim")),
    "vecdot": lambda L, x, i: L.linalg.vecdot(x, x, **i("dim")),
    "size": lambda L, x, i: L.tensor(x.size(**i("dim"))),
    "stride": lambda L, x, i: L.tensor(x.stride(**i("dim"))),
}
VALUES, NUMPYS = {"dim": 0, "keepdim": True}, {"dim": "axis", "keepdim": "keepdims"}


def _called(L, name: str, names: dict[str, str]) -> list:
    x = L.arange(1.0, 7.0).reshape(2, 3)
    return CALLS[name](L, x, lambda *chosen: {names.get(n, n): VALUES[n] for n in chosen}).tolist()


@pytest.mark.parametrize("name", CALLS)
def test_numpys_keywords_stand_for_pytorchs(name: str) -> None:
    assert _called(jtorch, name, NUMPYS) == _called(jtorch, name, {})


@needs_torch
@pytest.mark.parametrize("name", CALLS)
def test_pytorch_takes_them_too(name: str) -> None:
    found, expected = jtorch.tensor(_called(jtorch, name, NUMPYS)), torch.tensor(_called(torch, name, NUMPYS))
    assert found.shape == expected.shape
    assert found.flatten().tolist() == pytest.approx(expected.flatten().tolist())


X = jtorch.ones(2, 3)
MISSING = {
    "flip": (lambda: jtorch.flip(X), r'flip\(\) missing 1 required positional arguments: "dims"'),
    "method flip": (lambda: X.flip(), r'flip\(\) missing 1 required positional arguments: "dims"'),
    "gather": (lambda: X.gather(0), r'missing 1 required positional arguments: "index"'),
    "gather by keyword": (lambda: X.gather(index=X), r'missing 1 required positional arguments: "dim"'),
    "index_select": (lambda: X.index_select(), r'missing 2 required positional argument: "dim", "index"'),
}


@pytest.mark.parametrize("name", MISSING)
def test_an_argument_that_is_missing_is_named(name: str) -> None:
    call, sentence = MISSING[name]
    with pytest.raises(TypeError, match=sentence):
        call()


def test_no_dims_are_dims_to_flip() -> None:
    assert X.flip(()).tolist() == X.flip(dims=[]).tolist() == X.tolist()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_are_no_bools(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"\"{name}_out_cpu\" not implemented for 'Bool'"):
        getattr(X > 0, name)(0, dtype=jtorch.bool)
    assert getattr(X > 0, name)(0).dtype is jtorch.int64
