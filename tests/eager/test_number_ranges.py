"""Python numbers that a dtype cannot hold: PyTorch refuses what fills, bounds, scales or raises elements."""

from __future__ import annotations

import functools
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import jtorch

# name: program of (library, tensor of ones, number)
FILLS = {
    "fill_": lambda L, x, k: x.fill_(k),
    "masked_fill": lambda L, x, k: x.masked_fill(x > 0, k),
    "masked_fill_": lambda L, x, k: x.masked_fill_(x > 0, k),
    "index_fill": lambda L, x, k: x.index_fill(0, L.tensor([0]), k),
    "fill_diagonal_": lambda L, x, k: L.stack([x, x]).fill_diagonal_(k),
    "scatter": lambda L, x, k: x.scatter(0, L.tensor([0]), k),
    "full": lambda L, x, k: L.full((2,), k, dtype=x.dtype),
    "full_like": lambda L, x, k: L.full_like(x, k),
    "new_full": lambda L, x, k: x.new_full((2,), k),
    "constant_": lambda L, x, k: L.nn.init.constant_(x, k),
    "pad": lambda L, x, k: L.nn.functional.pad(x, (1, 1), value=k),
    "threshold": lambda L, x, k: L.nn.functional.threshold(x, 1, k),
    "linspace": lambda L, x, k: L.linspace(0, k, 3, dtype=x.dtype),
    "tensor": lambda L, x, k: L.tensor([k], dtype=x.dtype),
}
ELEMENTS = {
    "item": lambda L, x, k: x.__setitem__(0, k) or x,
    "slice": lambda L, x, k: x.__setitem__(slice(0, 1), k) or x,
    "mask": lambda L, x, k: x.__setitem__(x > 0, k) or x,
    "indices": lambda L, x, k: x.__setitem__([0], k) or x,
    "all": lambda L, x, k: x.__setitem__(..., k) or x,
    "scalar_tensor": lambda L, x, k: L.scalar_tensor(k, dtype=x.dtype),
    "fill_ without dims": lambda L, x, k: x[0].fill_(k),
}
BOUNDS = {
    "clamp": lambda L, x, k: L.clamp(x, k, k),
    "clamp(min)": lambda L, x, k: L.clamp(x, min=k),
    "clamp(max)": lambda L, x, k: x.clamp(max=k),
    "clamp_": lambda L, x, k: x.clamp_(max=k),
    "clamp_min": lambda L, x, k: x.clamp_min(k),
    "clamp_max_": lambda L, x, k: x.clamp_max_(k),
    "clip": lambda L, x, k: x.clip(0, k),
    "hardtanh": lambda L, x, k: L.nn.functional.hardtanh(x, 0, k),
    "where": lambda L, x, k: L.where(x > 0, x, k),
    "where(k, x)": lambda L, x, k: L.where(x > 0, k, x),
    "where(k, k)": lambda L, x, k: L.where(x > 0, k, k),
    "x.where": lambda L, x, k: x.where(x > 0, k),
}
FACTORS = {
    "add": lambda L, x, k: L.add(x, x, alpha=k),
    "add_": lambda L, x, k: x.add_(x.clone(), alpha=k),
    "add a number": lambda L, x, k: L.add(x, 1, alpha=k),
    "sub": lambda L, x, k: L.sub(x, x, alpha=k),
    "rsub": lambda L, x, k: L.rsub(x, x, alpha=k),
    "addcmul": lambda L, x, k: L.addcmul(x, x, x, value=k),
    "addcdiv": lambda L, x, k: L.addcdiv(x, x, x, value=k),
    "addmm(alpha)": lambda L, x, k: L.addmm(x[:2, None], x[:2, None], x[None, :1], alpha=k),
    "addmm(beta)": lambda L, x, k: L.addmm(x[:2, None], x[:2, None], x[None, :1], beta=k),
    "addmv": lambda L, x, k: L.addmv(x, x[:, None], x[:1], alpha=k),
    "addr": lambda L, x, k: L.addr(x[:2, None], x[:2], x[:1], alpha=k),
    "baddbmm": lambda L, x, k: L.baddbmm(*3 * (x[:1, None, None],), alpha=k),
    "pow": lambda L, x, k: x**k,
    "pow_": lambda L, x, k: x.pow_(k),
}
# arithmetic and comparisons refuse nothing: integers wrap around, floats are infinite
FREE = {
    "+": lambda L, x, k: x + k,
    "-": lambda L, x, k: k - x,
    "*": lambda L, x, k: x * k,
    "==": lambda L, x, k: x == k,
    "<": lambda L, x, k: x < k,
    "k ** x": lambda L, x, k: k**x,
}
DTYPES = ("int64", "int32", "int16", "int8", "uint8", "bool", "float16", "bfloat16", "float32", "float64")
NUMBERS: tuple[Any, ...] = (
    3, -1, 300, -200, 70000, 2**31, -(2**31) - 1, 2**40, 1.0, 2.5, -1.5, 300.7, 1e6, 65504.0, 65519.0,
    65520.0, 3.4028236e38, 1e39, -1e39, 1e300, 1e19, math.inf, -math.inf, math.nan, True,
)  # fmt: skip
# PyTorch rounds this factor to bfloat16 before it multiplies
ROUNDED = {("add", 300.7), ("add_", 300.7), ("add a number", 300.7), ("addmv", 300.7), ("addr", 300.7)}


def _outcome(library: Any, program: Any, dtype: str, k: Any) -> Any:
    x = library.ones(2, dtype=getattr(library, dtype))
    try:
        found = program(library, x, k)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        return type(error).__name__
    return str(found.dtype).rpartition(".")[2], repr(found.tolist())


@pytest.mark.parametrize("kind", ["FILLS", "ELEMENTS", "BOUNDS", "FACTORS", "FREE"])
def test_what_a_dtype_cannot_hold_is_refused_where_pytorch_does(kind: str) -> None:
    torch = pytest.importorskip("torch")
    failures = []
    for name, program in globals()[kind].items():
        for dtype in DTYPES:
            for k in NUMBERS:
                if (dtype == "bfloat16" and (name, k) in ROUNDED) or (dtype == "bool" and k is True):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy's, of what is infinite
                    want, got = (_outcome(library, program, dtype, k) for library in (torch, jtorch))
                if want != got:
                    failures.append(f"{name} of {dtype} with {k!r}: {got}, want {want}")
    assert not failures, "\n".join(failures)


# what NumPy makes an element of: None is NaN, "1" is 1
NO_NUMBERS: tuple[Any, ...] = (None, "1", [1.0], Fraction(1, 2), np.array(1.0), np.array([None]))
TAKING_NUMBERS = {
    **{name: FILLS[name] for name in FILLS if name not in ("pad", "tensor")},
    "fill": lambda L, x, k: L.fill(x, k),
    "fill_ without dims": lambda L, x, k: x[0].fill_(k),
    "index_fill_": lambda L, x, k: x.index_fill_(0, L.tensor([0]), k),
    "scatter_": lambda L, x, k: x.scatter_(0, L.tensor([0]), k),
    "copy_": lambda L, x, k: x.copy_(k),
    "start": lambda L, x, k: L.linspace(k, 1, 3),
    "logspace": lambda L, x, k: L.logspace(0, k, 3),
    "pad_sequence": lambda L, x, k: L.nn.utils.rnn.pad_sequence([x, x[:1]], padding_value=k),
    "xlogy": lambda L, x, k: L.xlogy(x, k),
    "xlog1py": lambda L, x, k: L.special.xlog1py(x, k),
    "searchsorted": lambda L, x, k: L.searchsorted(x, k),
    "bucketize": lambda L, x, k: L.bucketize(k, x),
}


@pytest.mark.parametrize("name", TAKING_NUMBERS)
@pytest.mark.parametrize("library", ["torch", "jtorch", "compiled"])
def test_what_is_no_number_is_refused(library: str, name: str) -> None:
    module = jtorch if library == "compiled" else pytest.importorskip(library)
    for dtype in ("float32", "int64", "bool", "float16"):
        for k in NO_NUMBERS:
            taken = name in ("xlogy", "xlog1py")  # which take arrays for tensors, as all of arithmetic does
            if isinstance(k, np.ndarray) and (library == "compiled" or (taken and module is jtorch)):
                continue
            x = module.ones(2, dtype=getattr(module, dtype))
            call = functools.partial(TAKING_NUMBERS[name], module, x, k)
            with pytest.raises(TypeError):
                (jtorch.compile(call) if library == "compiled" else call)()
            assert x.tolist() == [1, 1] and x._version == 0


@pytest.mark.parametrize("make", ["tensor", "as_tensor", "asarray"])
def test_arrays_of_objects_and_texts_are_refused(make: str) -> None:
    arrays = (np.array([None]), np.array(None), np.array([1.0], dtype=object), np.array(["1"]))
    for library in (jtorch, pytest.importorskip("torch")):
        for array in arrays:
            for dtype in (None, library.float32, library.int64, library.bool):
                with pytest.raises(TypeError, match="can't convert"):
                    getattr(library, make)(array, dtype=dtype)
                with pytest.raises(TypeError):
                    library.ones(2).new_tensor(array)


def test_refusals_name_the_type() -> None:
    small = jtorch.ones(2, dtype=jtorch.int8)
    for program, sentence in (
        (lambda: small.clamp(max=300), "value cannot be converted to type int8_t without overflow"),
        (
            lambda: jtorch.where(small > 0, small, 300),
            "value cannot be converted to type int8_t without overflow",
        ),
        (lambda: small.add(small, alpha=300), "value cannot be converted to type int8_t without overflow"),
        (lambda: small.int().fill_(math.nan), "value cannot be converted to type int without overflow"),
        (lambda: small.float().fill_(1e39), "value cannot be converted to type float without overflow"),
        (
            lambda: small.half().clamp(min=-1e9),
            "value cannot be converted to type c10::Half without overflow",
        ),
        (lambda: small.half() ** 1e9, "value cannot be converted to type c10::Half without overflow"),
    ):
        with pytest.raises(RuntimeError) as caught:
            program()
        assert str(caught.value) == sentence


def test_a_negative_integer_wraps_around_in_an_unsigned_dtype() -> None:
    x = jtorch.ones(2, dtype=jtorch.uint8)
    assert jtorch.full_like(x, -1).tolist() == [255, 255]
    assert x.clone().fill_(-200).tolist() == [56, 56]
    assert jtorch.linspace(0, -1, 3, dtype=jtorch.uint8).tolist() == [0, 127, 255]
    assert x.masked_fill(x > 0, 2.9).tolist() == [2, 2]


def test_nothing_is_written_where_a_number_is_refused() -> None:
    x = jtorch.ones(2)
    for write in (lambda: x.__setitem__(0, 1e39), lambda: x.fill_(1e39), lambda: x.clamp_(min=1e39)):
        with pytest.raises(RuntimeError, match="type float without overflow"):
            write()
    assert x.tolist() == [1.0, 1.0]
    assert x._version == 0
