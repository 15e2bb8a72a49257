"""``jtorch.fft`` against PyTorch and NumPy: values, dtypes, gradients of both orders, sentences."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.autograd import gradcheck, gradgradcheck
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.oracle import compare
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5))
Z = X + 1j * RNG.standard_normal((2, 3, 5))
NORMS = (None, "backward", "ortho", "forward")
OF_REALS = ("rfft", "ihfft")
LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = tuple(f"{name}{n}" for name in LINES for n in ("2", "n"))

CALLS = (
    {
        f"{name} {kind} {named}": (lambda L, x, f=name, o=named: getattr(L.fft, f)(x, **o), array)
        for name in LINES
        for kind, array in (("real", X), ("complex", Z))
        for named in (
            *({"norm": norm} for norm in NORMS), {"n": 4}, {"n": 7, "dim": 1}, {"dim": 0}, {"n": 1}, {"n": 8},
        )
        if kind == "real" or name not in OF_REALS
    }
    | {
        f"{name} {kind} {named}": (lambda L, x, f=name, o=named: getattr(L.fft, f)(x, **o), array)
        for name in MANY
        for kind, array in (("real", X), ("complex", Z))
        for named in (
            *({"norm": norm} for norm in NORMS), {"s": (4, 6)}, {"s": (3, -1), "dim": (1, 0)},
            {"dim": (2, 0)}, {"dim": (-2,)}, {"s": (2, 7), "norm": "ortho"},
        )
        if kind == "real" or name[:-1] not in OF_REALS
    }
    | {
        "fftn of ints": (lambda L, x: L.fft.fftn(x), np.arange(6).reshape(2, 3)),
        "rfft of bools": (lambda L, x: L.fft.rfft(x), np.array([True, False, True])),
        "fftn of a number": (lambda L, x: L.fft.fftn(x, dim=()), np.array(2.0)),
        "fftshift": (lambda L, x: L.fft.fftshift(x), X),
        "fftshift dims": (lambda L, x: L.fft.fftshift(x, (0, -1)), X),
        "ifftshift": (lambda L, x: L.fft.ifftshift(x), X),
        "ifftshift dim": (lambda L, x: L.fft.ifftshift(x, dim=2), Z),
        "of a view": (lambda L, x: L.fft.rfft(x.transpose(0, 2).flip(1)[::2]), X),
        "there and back": (lambda L, x: L.fft.irfft(L.fft.rfft(x) * L.fft.rfft(x.flip(-1)), n=5), X),
    }
)  # fmt: skip


@needs_torch
@each("name", CALLS)
def test_equals_pytorch(name):
    call, array = CALLS[name]
    compare(call, jtorch, torch, [array], rtol=1e-10, atol=1e-11)
    if array.dtype.kind in "fc":
        narrow = array.astype(np.complex64 if array.dtype.kind == "c" else np.float32)
        compare(call, jtorch, torch, [narrow], rtol=1e-4, atol=2e-5)


@needs_torch
@each("name", ["fft", "ifftn", "rfft", "rfft2", "irfft", "irfftn", "hfft"])
def test_names_of_nodes_are_pytorchs(name):
    array = X if name.startswith("r") else Z
    compare(lambda L, x: getattr(L.fft, name)(x), jtorch, torch, [array], names=True, rtol=1e-10)


@each("name", [f"{i}{r}fft{n}" for i in ("", "i") for r in ("", "r") for n in ("", "2", "n")])
def test_equals_numpy(name):
    array = X if name.startswith("r") else Z
    for norm in NORMS[1:]:
        expected = getattr(np.fft, name)(array, norm=norm)
        found = getattr(jtorch.fft, name)(jtorch.tensor(array), norm=norm)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)


@each("name", [*LINES, *MANY])
def test_gradients_of_both_orders_are_those_of_finite_differences(name):
    array = X if name.rstrip("2n") in OF_REALS else Z
    x = jtorch.tensor(array[0, :, :4].copy(), requires_grad=True)
    assert gradcheck(getattr(jtorch.fft, name), (x,))
    assert gradgradcheck(getattr(jtorch.fft, name), (x,))


@needs_torch
def test_second_gradients_are_pytorchs():
    def penalty(L, x):
        x = L.tensor(x, requires_grad=True)
        spectrum = L.fft.irfft2(L.fft.rfft2(x) ** 3)
        (g,) = L.autograd.grad((spectrum**2).sum(), x, create_graph=True)
        (g**2).sum().backward()
        return x.grad.numpy()

    np.testing.assert_allclose(penalty(jtorch, X), penalty(torch, X), rtol=1e-9)


@needs_torch
@each("n", [0, 1, 2, 5, 8])
def test_frequencies(n):
    for d in (1.0, 0.25):
        for kind in ("float32", "float64", "float16"):
            for name in ("fftfreq", "rfftfreq"):
                made = [getattr(L.fft, name)(n, d, dtype=getattr(L, kind)) for L in (jtorch, torch)]
                np.testing.assert_array_equal(*(m.numpy() for m in made), strict=True)
    assert jtorch.fft.fftfreq(n, requires_grad=True).requires_grad
    out = jtorch.empty(n)
    assert jtorch.fft.fftfreq(n, out=out) is out


def test_out_takes_the_result():
    out = jtorch.empty(0, dtype=jtorch.complex64)
    x = jtorch.tensor([1.0, 2.0, 4.0])
    assert jtorch.fft.fft(x, out=out) is out
    np.testing.assert_array_equal(out.numpy(), jtorch.fft.fft(input=x).numpy())


BAD = {
    "no elements": lambda L: L.fft.fft(L.ones(3), n=0),
    "of nothing": lambda L: L.fft.rfft(L.ones(0)),
    "a number": lambda L: L.fft.fft(L.tensor(1.0)),
    "norm": lambda L: L.fft.ifft(L.ones(3), norm="x"),
    "half": lambda L: L.fft.fft(L.ones(3).half()),
    "bfloat16": lambda L: L.fft.irfft(L.ones(3).bfloat16()),
    "frequencies of ints": lambda L: L.fft.fftfreq(4, dtype=L.int64),
    "complex frequencies": lambda L: L.fft.rfftfreq(4, dtype=L.complex64),
    "negative frequencies": lambda L: L.fft.fftfreq(-1),
    "rfft of complex": lambda L: L.fft.rfft(L.ones(3) + 0j),
    "ihfft of complex": lambda L: L.fft.ihfft(L.ones(3) + 0j),
    "rfft2 of complex": lambda L: L.fft.rfft2(L.ones(3, 3) + 0j),
    "too few dims": lambda L: L.fft.fft2(L.ones(3)),
    "too many sizes": lambda L: L.fft.fftn(L.ones(3, 3), s=(2, 2, 2)),
    "sizes and dims": lambda L: L.fft.fftn(L.ones(3, 3), s=(2, 2), dim=(0,)),
    "twice": lambda L: L.fft.fftn(L.ones(3, 3), dim=(0, 0)),
    "nowhere": lambda L: L.fft.rfftn(L.ones(3, 3), dim=()),
    "back from nowhere": lambda L: L.fft.irfftn(L.ones(3, 3), dim=()),
    "one back": lambda L: L.fft.irfft(L.ones(1)),
    "one by one back": lambda L: L.fft.irfft2(L.ones(1, 1)),
    "dim": lambda L: L.fft.fft(L.ones(3), dim=2),
    "float": lambda L: L.fft.fft(L.ones(3), n=2.5),
    "no tensor": lambda L: L.fft.fft("a"),
    "shift": lambda L: L.fft.fftshift(L.arange(5.0), dim=3),
}


@needs_torch
@each("name", BAD)
def test_refuses_in_pytorchs_words(name):
    with pytest.raises((RuntimeError, IndexError, TypeError)) as theirs:
        BAD[name](torch)
    with pytest.raises(type(theirs.value)) as ours:
        BAD[name](jtorch)
    assert str(ours.value) == str(theirs.value)


def test_an_empty_batch_has_an_empty_spectrum():
    assert jtorch.fft.rfft(jtorch.ones(0, 4)).shape == (0, 3)
    assert jtorch.fft.irfft(jtorch.ones(0, 4)).shape == (0, 6)
    assert jtorch.fft.fft2(jtorch.ones(2, 0, 4, 3), dim=(2, 3)).dtype is jtorch.complex64


def test_a_compiled_function_names_the_line_of_the_complex_numbers():
    def energy(x):
        return jtorch.fft.rfft(x).abs().sum()

    with pytest.raises(
        CompileError, match=r"test_fourier.py:\d+ in energy: compiled code has no complex64 tensors"
    ):
        jtorch.compile(energy, fullgraph=True)(jtorch.ones(4))


def test_a_compiled_function_goes_on_as_plain_python(as_users_run_it):
    @jtorch.compile
    def energy(x):
        return (jtorch.fft.rfft(x * 2).abs() ** 2).sum()

    x = jtorch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    with pytest.warns(jtorch.errors.EagerWarning, match="complex64"):
        out = energy(x)
    out.backward()
    np.testing.assert_allclose(out.item(), (np.abs(np.fft.rfft([2.0, -4.0, 6.0])) ** 2).sum(), rtol=1e-6)
    assert x.grad.shape == (3,)


def test_frequencies_are_there_in_compiled_functions():
    compiled = jtorch.compile(lambda x: jtorch.fft.fftshift(x * jtorch.fft.fftfreq(5)), fullgraph=True)
    x = jtorch.arange(5.0)
    np.testing.assert_array_equal(
        compiled(x).numpy(), np.fft.fftshift(np.arange(5) * np.fft.fftfreq(5)).astype("f")
    )
