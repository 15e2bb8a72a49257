"""CUDA kernels compile to PTX, and the PTX assembles, on a machine without a device or driver."""

from __future__ import annotations

import importlib.util
import re

import pytest

import jtorch
import jtorch.nn.functional as F
from jtorch.native.build import KernelBuildError
from tests.compile.codegen.test_cuda import kernel, kernels

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed (the extra 'cuda')"
)


def compiled(*arguments, **options):
    from jtorch.compile.codegen.cuda_build import compile_ptx

    return compile_ptx(*arguments, **options)


def assemble(ptx: str, arch: str) -> str:
    """Translate PTX to machine code; what the assembler says of registers and spills."""
    nvjitlink = pytest.importorskip(
        "cuda.bindings.nvjitlink", reason="nvJitLink, the assembler, is not installed"
    )
    options = [f"-arch={arch}", "-verbose"]
    linker = nvjitlink.create(len(options), options)
    text = ptx.encode() + b"\0"
    nvjitlink.add_data(linker, nvjitlink.InputType.PTX, text, len(text), "kernel")
    nvjitlink.complete(linker)
    log = bytearray(nvjitlink.get_info_log_size(linker))
    nvjitlink.get_info_log(linker, log)
    nvjitlink.destroy(linker)
    return log.decode()


def _embedding_gradient(ids, g):
    weight = jtorch.zeros(50, 8, requires_grad=True)
    out = F.embedding(ids, weight)
    return jtorch.autograd.grad([out], [weight], [g])[0].clone()


PROGRAMS = {
    "map": (lambda x, r: [(x + r).tanh().relu(), x > r], [jtorch.ones(4, 6), jtorch.ones(6)]),
    "softmax": (lambda x: [x.softmax(-1)], [jtorch.ones(4, 6)]),
    "sum": (lambda x: [x.sum()], [jtorch.ones(4, 6)]),
    "column": (lambda x: [x.sum(0), x.amax(0)], [jtorch.ones(4, 6)]),
    "argmax": (lambda x: [x.argmax(1)], [jtorch.ones(4, 6)]),
    "all": (lambda x: [(x > 0).all()], [jtorch.ones(4, 6)]),
    "gather": (lambda x, i: [x[i] * 2.0], [jtorch.ones(4, 6), jtorch.tensor([1, 2])]),
    "scatter": (_embedding_gradient, [jtorch.zeros(20, dtype=jtorch.int64), jtorch.ones(20, 8)]),
    "random": (lambda: [jtorch.randn(7), jtorch.rand(7)], []),
    "integers": (lambda a, b: [a // b, a % b], [jtorch.arange(6), jtorch.arange(6)]),
    "cat": (lambda x: [jtorch.cat([x, x], 1)[:, ::2]], [jtorch.ones(4, 6)]),
    "float64": (lambda x: [x.exp() / x, x.sin().to(jtorch.float32)], [jtorch.ones(5, dtype=jtorch.float64)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("table", [False, True], ids=["plain", "table"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiles_and_assembles(name, table):
    function, leaves = PROGRAMS[name]
    for k in kernels(function, *leaves):
        ptx = compiled(k, table)
        assert ptx.count(".visible .entry") == 1
        assert ", 0 bytes spill stores" in assemble(ptx, "sm_90" if table else "sm_80")


def test_drivers_of_cuda_12_and_devices_from_8_0_on_take_the_text():
    """A driver refuses a version of PTX that is newer than it is, whatever the text needs; a device refuses a
    target that is newer."""
    ptx = compiled(kernel(lambda x: [x.softmax(-1)], jtorch.ones(4, 6)))
    assert re.findall(r"^\.(?:version|target) .*$", ptx, re.M) == [".version 8.0", ".target sm_80"]


def test_nothing_is_contracted_or_approximated():
    ptx = compiled(kernel(lambda x, y: [x * y + x / y], jtorch.ones(9), jtorch.ones(9)))
    assert "mul.rn.f32" in ptx and "add.rn.f32" in ptx and "div.rn.f32" in ptx
    assert not re.search(r"\bfma\.|\.approx|\.ftz", ptx)


def test_random_numbers_are_not_contracted():
    for k in kernels(lambda: [jtorch.randn(8)]):
        assert not re.search(r"\bfma\.|\.ftz", compiled(k))


def test_the_table_entry_takes_a_table_and_a_phase():
    from jtorch.compile.codegen.cuda_build import entry_name

    k = kernel(lambda x: [x.sum()], jtorch.ones(40))
    ptx = compiled(k, table=True)
    assert f".visible .entry {entry_name(k, True)}(" in ptx
    assert ptx.count(".param .u64") == 2
    assert "ctaid.y" in ptx
    assert not re.search(r"\bld\.f32|\bst\.f32", ptx), "addresses from the table are device memory"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["map", "softmax", "random"])
def test_the_text_does_not_depend_on_what_was_compiled_before(name):
    function, leaves = PROGRAMS[name]
    k = kernels(function, *leaves)[0]
    assert compiled(k) == compiled(k)


def test_cpu_kernels_of_the_same_process_do_not_matter():
    from jtorch.native import jit_names

    jit_names.register()
    assert "ex2.approx" not in compiled(kernel(lambda x: [x.sigmoid()], jtorch.ones(9)))


def test_a_kernel_that_numba_cannot_type_says_which():
    from dataclasses import replace

    k = kernel(lambda x: [x.exp() + 1.0], jtorch.ones(9))
    broken = replace(k, source=k.source.replace("exp_f32(t0)", "exp_f32('one')"))
    with pytest.raises(KernelBuildError, match=r"map_exp_add.*numba-cuda cannot compile it"):
        compiled(broken)
