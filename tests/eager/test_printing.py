"""``repr`` against PyTorch's, character for character."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.core import dtypes
from tests.ops.support import needs_torch

RNG = np.random.default_rng(0)
ARRAYS = {
    "scalar": np.array(1.5, np.float32),
    "whole": np.arange(6.0, dtype=np.float32).reshape(2, 3),
    "fractions": RNG.standard_normal((2, 3)).astype(np.float32),
    "wide range": np.array([1e-5, 1.0, 123456.0], np.float32),
    "tiny": np.array([1e-5, 2e-5], np.float32),
    "large": np.array([1e9, 2.0], np.float32),
    "whole and wide": np.array([1.0, 5000.0], np.float32),
    "not finite": np.array([np.nan, np.inf, -np.inf, 1.5], np.float32),
    "only not finite": np.array([np.nan, np.inf], np.float32),
    "whole with nan": np.array([np.nan, 1.0, -2.0], np.float32),
    "zeros": np.zeros(3, np.float32),
    "minus zero": np.array([-0.0, 0.5], np.float32),
    "double": RNG.standard_normal(3),
    "half": np.array([0.5, 1.25], np.float16),
    "ints": np.array([[1, -20], [300, 4]]),
    "int32": np.array([1, 2], np.int32),
    "uint8": np.array([[1, 255]], np.uint8),
    "bools": np.array([[True, False]]),
    "empty": np.zeros(0, np.float32),
    "empty ints": np.zeros((0,), np.int64),
    "empty with axes": np.zeros((2, 0, 3), np.float32),
    "empty double": np.zeros((0, 3)),
    "long line": RNG.standard_normal(50).astype(np.float32),
    "three axes": RNG.standard_normal((2, 2, 3)).astype(np.float32),
    "four axes": RNG.standard_normal((2, 1, 2, 2)).astype(np.float32),
    "summarised": np.arange(1001.0, dtype=np.float32),
    "summarised matrix": RNG.standard_normal((50, 50)).astype(np.float32),
    "summarised cube": np.arange(20 * 3 * 40).reshape(20, 3, 40),
    "summarised range": np.concatenate([np.full(5, 1e-7), np.ones(2000)]).astype(np.float32),
}


def _same(ours: object, theirs: object) -> None:
    assert repr(ours).replace("jtorch.", "torch.") == repr(theirs)


@needs_torch
@pytest.mark.parametrize("name", ARRAYS)
def test_prints_as_pytorch(name):
    import torch

    array = ARRAYS[name]
    _same(jtorch.from_numpy(array), torch.from_numpy(array))


@needs_torch
@pytest.mark.parametrize("name", [n for n, a in ARRAYS.items() if a.dtype.kind == "f"])
def test_prints_gradients_as_pytorch(name):
    import torch

    ours = jtorch.tensor(ARRAYS[name], requires_grad=True)
    theirs = torch.tensor(ARRAYS[name], requires_grad=True)
    _same(ours, theirs)
    _same(ours * 2, theirs * 2)
    _same(ours.sum(), theirs.sum())


@needs_torch
@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2}, {"threshold": 5}, {"linewidth": 40}, {"edgeitems": 1, "threshold": 10},
        {"sci_mode": True},
        {"sci_mode": False}, {"profile": "short"}, {"profile": "full"},
    ],
    ids=str,
)  # fmt: skip
def test_print_options(options):
    import torch

    jtorch.set_printoptions(**options)
    torch.set_printoptions(**options)
    try:
        for name in ("wide range", "long line", "summarised", "three axes", "summarised matrix"):
            _same(jtorch.from_numpy(ARRAYS[name]), torch.from_numpy(ARRAYS[name]))
    finally:
        jtorch.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_known_texts():
    assert repr(jtorch.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(jtorch.tensor(3)) == "tensor(3)"
    x = jtorch.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x + 1) == "tensor([2., 2.], grad_fn=<AddBackward0>)"
    assert repr(jtorch.ones(1, dtype=jtorch.float64)) == "tensor([1.], dtype=jtorch.float64)"


TYPES = (
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "int8", "bool", "complex64",
    "complex128",
)  # fmt: skip


def _generated(name: str, seed: int) -> np.ndarray:
    """Numbers of one scale or many, whole or not, with NaN and infinities among them, of 0 to 3 dims."""
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(0 if rng.random() < 0.1 else 1, rng.choice([6, 8, 40])) for _ in range(seed % 4)]
    values = rng.standard_normal(sizes) * 10.0 ** rng.integers(-6, 9)
    if rng.random() < 0.3:
        values = np.round(values)
    if rng.random() < 0.3:
        values = values * 10.0 ** rng.integers(-4, 5, sizes)
    if rng.random() < 0.2:
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
        values = np.where(rng.random(sizes) < 0.2, special, values)
    if name == "bool":
        return np.asarray(values > 0)
    if "int" in name:
        return np.asarray(np.nan_to_num(np.clip(values, 0 if name[0] == "u" else -100, 120))).astype(name)
    if "complex" in name:
        imag = rng.standard_normal(sizes) * 10.0 ** rng.integers(-3, 4)
        return np.asarray(values + 1j * imag).astype(name)
    with np.errstate(over="ignore"):
        return np.asarray(values).astype("float32" if name == "bfloat16" else name)


@needs_torch
@pytest.mark.parametrize("name", TYPES)
def test_generated_tensors_print_as_pytorch(name, monkeypatch):
    import torch

    monkeypatch.setattr(dtypes, "NAMESPACE", "torch")  # a longer name would break lines elsewhere
    for seed in range(20):
        array = _generated(name, seed)
        ours, theirs = jtorch.from_numpy(array), torch.from_numpy(array)
        ours, theirs = ours.to(getattr(jtorch, name)), theirs.to(getattr(torch, name))
        if ours.is_floating_point() and seed % 3 == 0:
            ours, theirs = ours.requires_grad_(), theirs.requires_grad_()
        assert repr(ours) == repr(theirs), f"seed {seed}"


@needs_torch
def test_nothing_but_dots_without_edge_items():
    import torch

    jtorch.set_printoptions(edgeitems=0, threshold=1)
    torch.set_printoptions(edgeitems=0, threshold=1)
    try:
        _same(jtorch.arange(5), torch.arange(5))
    finally:
        jtorch.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_options_in_a_block():
    from jtorch.eager.printing import get_printoptions, printoptions

    before = get_printoptions()
    with printoptions(precision=1):
        assert repr(jtorch.tensor([0.25, 1.0])) == "tensor([0.2, 1.0])"
    assert get_printoptions() == before


@pytest.mark.parametrize("name", ["precision", "threshold", "edgeitems", "linewidth", "sci_mode", "profile"])
def test_options_that_cannot_be_are_refused_and_lose_nothing(name):
    from jtorch.eager.printing import get_printoptions

    before = get_printoptions()
    with pytest.raises((TypeError, ValueError), match=f"set_printoptions.*{name} must be"):
        jtorch.set_printoptions(**({"precision": 2} | {name: "many"}))
    assert get_printoptions() == before


def test_one_switch_names_the_types(monkeypatch):
    monkeypatch.setattr(dtypes, "NAMESPACE", "torch")
    assert repr(jtorch.ones(1, dtype=jtorch.float64)) == "tensor([1.], dtype=torch.float64)"
