"""NVIDIA's assembler takes all kernels of the small networks, and what they need has ceilings."""

from __future__ import annotations

import importlib.util
import subprocess

import pytest

from jtorch.compile.run import cuda_gather, cuda_patch
from tests.cuda import ptxas
from tests.cuda.plans import ptx_of
from tests.cuda.texts import COPY

pytestmark = pytest.mark.skipif(
    ptxas.find() is None, reason=f"ptxas is not installed (the wheel {ptxas.WHEELS[0]})"
)
needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)

# What was measured with ptxas of CUDA 13.5, and some room for other releases. A block has 256 threads, so 255
# registers of each are all of a multiprocessor's 65,536.
REGISTERS = 255
SPILLED = 320  # bytes that a thread stores and loads again, around what a division calls
SHARED = 9216
SPILLING = 8  # kernels, of all


def figures(text: str, architecture: str = "sm_90") -> ptxas.Figures:
    found = ptxas.find()
    assert found is not None
    return ptxas.assembled(found, text, architecture)


@pytest.mark.parametrize("architecture", ptxas.ARCHITECTURES)
def test_texts_written_by_hand_assemble(architecture):
    texts = [cuda_patch.text(1), cuda_patch.text(511)]
    texts += [cuda_gather.text(ndim, itemsize) for ndim in (0, 1, 6) for itemsize in (1, 2, 4, 8)]
    for text in texts:
        found = figures(text, architecture)
        assert found.registers <= 40 and found.spilled == 0 and found.shared == 0 and found.code > 0


def test_a_text_with_a_fault_is_refused():
    with pytest.raises(subprocess.CalledProcessError) as refused:
        figures(COPY.replace("ld.global.f32", "lod.global.f32"))
    assert "lod" in refused.value.stderr


@needs_compiler
@pytest.mark.slow
def test_what_kernels_of_networks_need():
    texts = [ptx_of(kernel) for kernel in ptxas.kernels().values()]
    assert len(texts) > 90
    for architecture in ptxas.ARCHITECTURES:
        found = [figures(text, architecture) for text in texts]
        assert max(f.registers for f in found) <= REGISTERS
        assert max(f.shared for f in found) <= SHARED
        assert max(f.spilled for f in found) <= SPILLED
        assert sum(f.spilled > 0 for f in found) <= SPILLING
