"""Autocast: what each op gives is of PyTorch's dtype, and close to its value; PyTorch itself is asked."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import jtorch
from jtorch.core.op import TABLE
from tests.amp.autocast_calls import CALLS
from tests.amp.sixteen_bits_calls import ALL
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

pytestmark = needs_torch
if HAS_TORCH:
    import torch

HALVES = ("bfloat16", "float16")
GIVEN = ("float32", "bfloat16", "float16", "float64")

# (call, type of autocast, type of the arguments) -> what differs, and is meant to
DIFFERENT = {
    # PyTorch's is put together from a decomposition in float32 and a product in 16 bits
    ("linalg.pinv", "bfloat16", "float32"): "float32",
    ("linalg.pinv", "float16", "float32"): "float32",
    # PyTorch has no LSTM for float16 on the CPU unless all of it is, and leaves that of other types
    ("LSTM", "float16", "float32"): "float16",
    ("LSTM", "float16", "bfloat16"): "float16",
    ("LSTM", "bfloat16", "float16"): "bfloat16",
}


def dtype_of(library, call, lower, given):
    """The dtype of the result, or "error"."""
    library.manual_seed(0)
    given = getattr(library, given)
    try:
        with library.autocast("cpu", dtype=getattr(library, lower)):
            result = call(library, lambda t: t.to(given))
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return "error"
    return str(result.dtype).partition(".")[2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@each("name", [name for name in ALL if name not in CALLS or ALL[name] is not CALLS[name]])
def test_everyday_calls_have_them_where_pytorch_computes(name):
    """PyTorch refuses some of two dtypes or 16 bits that are computed here."""
    for lower in HALVES:
        for given in GIVEN:
            theirs = DIFFERENT.get((name, lower, given), dtype_of(torch, ALL[name], lower, given))
            if theirs != "error":
                assert dtype_of(jtorch, ALL[name], lower, given) == theirs, f"autocast to {lower}, of {given}"


@pytest.mark.slow
@each("name", [pytest.param(name, id=name) for name in CALLS])
def test_results_have_pytorchs_dtypes(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lower in HALVES:
            for given in GIVEN:
                ours = dtype_of(jtorch, CALLS[name], lower, given)
                theirs = dtype_of(torch, CALLS[name], lower, given)
                theirs = DIFFERENT.get((name, lower, given), theirs)
                assert ours == theirs, f"autocast to {lower}, of {given}"


# kernels of PyTorch's autocast for the CPU that are under no name here
ABSENT = {
    "_addmm_activation", "_convolution", "_grid_sampler_2d_cpu_fallback", "_lu_with_info",
    "_native_multi_head_attention", "conv_tbc", "cross_entropy_loss", "eig", "eigvals",
    "fake_quantize_per_tensor_affine", "fractional_max_pool2d", "fractional_max_pool3d", "geqrf",
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "householder_product", "lu_solve",
    "mkldnn_rnn_layer", "multilabel_margin_loss_forward", "nll_loss2d", "orgqr", "ormqr",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
    "stft", "triangular_solve",
}  # fmt: skip


def test_every_kernel_of_pytorchs_autocast_is_among_the_calls():
    """PyTorch's dispatcher says which ops its autocast knows on the CPU."""
    has, names = torch._C._dispatch_has_kernel_for_dispatch_key, torch._C._dispatch_get_all_op_names()
    kernels = {n.removeprefix("aten::").partition(".")[0] for n in names if has(n, "AutocastCPU")}
    kernels = {n.removeprefix("linalg_") for n in kernels if not n.startswith("fft_")}
    called = {name.partition(" ")[0].removeprefix("linalg.") for name in CALLS}
    assert kernels - called == ABSENT


VALUES = {
    "linear": (lambda L, x, y: L.nn.functional.linear(x, y), [(5, 7), (3, 7)]),
    "mm then exp": (lambda L, x, y: (x @ y).exp(), [(5, 7), (7, 3)]),
    "conv2d": (lambda L, x, y: L.nn.functional.conv2d(x, y), [(2, 3, 6, 6), (4, 3, 3, 3)]),
    "baddbmm": (lambda L, x, y, z: L.baddbmm(x, y, z), [(2, 3, 4), (2, 3, 5), (2, 5, 4)]),
    "mse_loss": (lambda L, x, y: L.nn.functional.mse_loss(x.mm(y), x.mm(y) * 0.5), [(4, 4), (4, 4)]),
    "prod": (lambda L, x: x.to(L.bfloat16).prod(0), [(5, 2)]),
    "attention": (
        lambda L, q, k, v: L.nn.functional.scaled_dot_product_attention(q, k, v),
        [(2, 5, 4), (2, 5, 4), (2, 5, 4)],
    ),
    "one weight twice": (lambda L, x, w: (x @ w) @ w, [(3, 4), (4, 4)]),
}


@each("name", [pytest.param(name, id=name) for name in VALUES])
def test_values_and_gradients_are_those_of_pytorch(name):
    """To the last place or two of what the 16 bits hold: sums are in another order."""
    call, shapes = VALUES[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    found = []
    for library in (jtorch, torch):
        leaves = [library.tensor(a, requires_grad=True) for a in arrays]
        with library.autocast("cpu", dtype=library.bfloat16):
            out = call(library, *leaves)
        out.sum().backward()
        assert all(leaf.grad.dtype == library.float32 for leaf in leaves)
        found.append([out.detach().float().numpy(), *(leaf.grad.numpy() for leaf in leaves)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2**-6, atol=2**-6 * np.abs(theirs).max())


def test_the_page_names_every_public_op_of_a_class():
    page = (Path(__file__).parents[2] / "docs" / "amp.md").read_text()
    tables = page.partition("On a CUDA device")
    for device, table in (("cpu", tables[0]), ("cuda", tables[2])):
        rows = {
            row.partition(" | ")[0].strip("| "): row for row in table.splitlines() if row.startswith("| ")
        }
        for op in TABLE:
            policy = getattr(op.autocast, device, None)
            if policy is not None and op.public is not None:
                assert f"`{op.public}`" in rows[policy], (device, op)
