"""Autocast on a CUDA device: what each op gives is of the dtype that PyTorch's dispatcher says.

PyTorch needs no device for that: on fake tensors its ops compute shapes and dtypes alone, and autocast casts
them as it casts others. Here the host computes what is said to lie on the device. The test of this name runs
it, in another process.
"""

from __future__ import annotations

import logging
import warnings

import pytest

import jtorch
from tests.amp.autocast_calls import ON_DEVICE
from tests.amp.by_host import by_host
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

pytestmark = needs_torch
if HAS_TORCH:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

HALVES = ("float16", "bfloat16")
GIVEN = {"float16": ("float32", "bfloat16", "float16", "float64"), "bfloat16": ("bfloat16", "float16")}
REFUSED = ("at::autocast::prioritize", "unsafe to autocast")

# PyTorch says no dtype without a device, or without values
UNKNOWN = {
    "GRU", "GRUCell", "LSTM", "LSTMCell", "MultiheadAttention", "RNN", "RNNCell", "TransformerEncoderLayer",
    "batch_norm", "corrcoef", "cov", "ctc_loss", "gaussian_nll_loss", "lstsq",
}  # fmt: skip
# which take no floats of 16 bits here, autocast or not; nor do PyTorch's, where they have values
NO_HALVES = {
    "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve", "cond", "det", "eigh", "eigvalsh",
    "index_copy", "linalg.cholesky", "linalg.qr", "linalg.svd", "polar", "qr", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorsolve", "view_as_complex",
}  # fmt: skip
# a copy to float32 places of float64, which fake tensors do not look at
DIFFERENT = {("index_copy", "float64"), ("index_put", "float64")}


def theirs(call, lower, given):
    """The dtype of PyTorch's result, "refused" by autocast, or None where it does not say."""
    logging.disable(logging.ERROR)  # about what fails below
    try:
        with FakeTensorMode(), torch.device("cuda"):
            torch.set_autocast_enabled("cuda", True)
            torch.set_autocast_dtype("cuda", getattr(torch, lower))
            result = call(torch, lambda t: t.to(getattr(torch, given)))
    except Exception as error:
        return "refused" if any(text in str(error) for text in REFUSED) else None
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", torch.float16)
        logging.disable(logging.NOTSET)
    return str(result.dtype).partition(".")[2]


def ours(call, lower, given):
    """The same of jtorch's; other errors are "error"."""
    try:
        with jtorch.device("cuda"), jtorch.autocast("cuda", dtype=getattr(jtorch, lower)):
            result = call(jtorch, lambda t: t.to(getattr(jtorch, given)))
    except (RuntimeError, NotImplementedError) as error:
        return "refused" if any(text in str(error) for text in REFUSED) else "error"
    return str(result.dtype).partition(".")[2]


@pytest.mark.slow
@each("name", [pytest.param(name, id=name) for name in ON_DEVICE])
def test_results_on_a_device_have_pytorchs_dtypes(name, monkeypatch):
    compared = 0
    with warnings.catch_warnings(), by_host(monkeypatch):
        warnings.simplefilter("ignore")
        for lower in HALVES:
            for given in GIVEN[lower]:
                expected = theirs(ON_DEVICE[name], lower, given)
                if expected is None or (name, given) in DIFFERENT:
                    continue
                found = ours(ON_DEVICE[name], lower, given)
                if not (found == "error" and name in NO_HALVES and given in HALVES):
                    assert found == expected, f"autocast to {lower}, of {given}"
                compared += 1
    assert bool(compared) is (name not in UNKNOWN)


# kernels of PyTorch's autocast for CUDA that are under no name here, or under another one of the calls
ABSENT = {
    "_convolution", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell", "_thnn_fused_lstm_cell",
    "conv_tbc", "convolution", "cudnn_convolution", "cudnn_convolution_transpose", "frobenius_norm",
    "grid_sampler", "gru_cell", "lstm_cell", "native_layer_norm", "nll_loss2d", "nuclear_norm",
    "rnn_relu_cell", "rnn_tanh_cell",
}  # fmt: skip


def test_every_kernel_of_pytorchs_autocast_for_cuda_is_among_the_calls():
    has, names = torch._C._dispatch_has_kernel_for_dispatch_key, torch._C._dispatch_get_all_op_names()
    kernels = {n.removeprefix("aten::").partition(".")[0] for n in names if has(n, "AutocastCUDA")}
    kernels = {n.removeprefix("linalg_") for n in kernels if "upsample" not in n}  # "interpolate"
    called = {name.partition(" ")[0].removeprefix("linalg.") for name in ON_DEVICE}
    assert kernels - called == ABSENT


def _of_one(path, name):
    """The function under ``name`` of a 4 x 4 matrix of numbers between 1/4 and 3/4."""

    def call(library, c):
        for part in path:
            library = getattr(library, part)
        result = getattr(library, name)(c(jtorch_or_torch(library).rand(4, 4) * 0.5 + 0.25))
        return result[0] if isinstance(result, (tuple, list)) else result

    return call


def jtorch_or_torch(library):
    return jtorch if library.__name__.startswith("jtorch") else torch


@pytest.mark.slow
@each("path", [pytest.param(path, id=".".join(("torch", *path))) for path in ((), ("nn", "functional"))])
def test_every_function_of_one_matrix_gives_pytorchs_dtype(path, monkeypatch):
    """Functions that autocast has no class for are made of others that it has one for, and show nothing of
    that."""
    a, b = jtorch, torch
    for part in path:
        a, b = getattr(a, part), getattr(b, part)
    names = [n for n in sorted({*dir(a)} & {*dir(b)}) if n[0] != "_" and not n.startswith("set_")]
    names = [n for n in names if callable(getattr(b, n)) and not isinstance(getattr(b, n), type)]
    compared, wrong = 0, {}
    with warnings.catch_warnings(), by_host(monkeypatch):
        warnings.simplefilter("ignore")
        for name in names:
            try:
                expected = theirs(_of_one(path, name), "float16", "float16")
                found = ours(_of_one(path, name), "float16", "float16")
            except (AttributeError, TypeError, ValueError, IndexError, AssertionError):
                continue  # it takes something else
            if expected is not None and found != "error":
                compared += 1
                if found != expected:
                    wrong[name] = found, expected
    assert not wrong
    assert compared > (20 if path else 150)
