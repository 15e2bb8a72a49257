"""Names that programs import for annotations, warnings and switches, and that decide nothing."""

from __future__ import annotations

import warnings

import pytest

import jtorch
from jtorch import jit, types
from jtorch.backends import cuda
from jtorch.nn import common_types
from jtorch.utils import deterministic
from tests.ops.support import needs_torch


@needs_torch
def test_sizes_of_layers_have_all_the_names_of_pytorch():
    import torch.nn.common_types as theirs

    names = {n for n in vars(theirs) if n.startswith("_") and n.endswith("_t")}
    assert names <= vars(common_types).keys()


def test_names_of_kinds_of_values():
    assert common_types._size_2_t == int | tuple[int, int]
    assert isinstance(2.5, types._Number) and types._size == jtorch.Size | list[int] | tuple[int, ...]
    assert deterministic.fill_uninitialized_memory is True


def test_warnings_of_scripts_can_be_ignored():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=jit.TracerWarning)
        warnings.filterwarnings("ignore", category=jit.ScriptWarning)
    assert jit.script_if_tracing(len) is len and jit.interface(int) is int


def test_switches_of_kernels_hold_inside_the_block():
    with cuda.sdp_kernel(enable_flash=False, enable_mem_efficient=False):
        assert cuda.math_sdp_enabled() and not cuda.flash_sdp_enabled()
        x = jtorch.ones(1, 2, 2)
        assert jtorch.nn.functional.scaled_dot_product_attention(x, x, x).tolist() == x.tolist()
    assert cuda.flash_sdp_enabled() and cuda.mem_efficient_sdp_enabled()
    with pytest.raises(RuntimeError, match="No viable backend"), cuda.sdp_kernel(False, False):
        pass
