"""PTX of a plan's kernels: from this process, the kernel cache, or numba-cuda, which takes 0.15 s for one.

``JTORCH_CUDA_TEXTS`` names a folder that gets each text as well, where there is numba-cuda, and is enough
where there is none: a text is for all devices and machines.
"""

from __future__ import annotations

import functools
import importlib.util
from importlib import metadata
from pathlib import Path

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.cuda import CudaKernel
from jtorch.compile.codegen.cuda_launch import Work
from jtorch.compile.plan.fuse import Style
from jtorch.core.errors import CompileError, CudaError
from jtorch.native import cache, cache_files

NO_COMPILER = (
    "kernels for a CUDA device are compiled by numba-cuda: pip install 'jtorch-compile[cuda]', or "
    "'jtorch-compile[cuda12]' for a driver of CUDA 12"
)
_TEXTS: dict[str, str] = {}  # source of a kernel -> its PTX
_COMPILERS = ("numba-cuda", "nvidia-nvvm", "nvidia-cuda-nvcc-cu12")  # whose versions decide the text, too


def load_texts(code: Code) -> int:
    """Have the PTX of each kernel; how many had to be compiled. Raises CompileError where nothing compiles
    any."""
    missing = [kernel for source, kernel in code.texts().items() if source not in _TEXTS]
    before = cache.counters.compiled
    for kernel in missing:
        try:
            _TEXTS[kernel.source] = _kept_or_compiled(kernel)
        except CudaError as error:
            raise CompileError(str(error)) from None
    return cache.counters.compiled - before


def has_compiler() -> bool:
    """Whether numba-cuda is installed."""
    return importlib.util.find_spec("numba_cuda") is not None


def check_texts() -> None:
    """Raise CudaError where there is no compiler, and no folder of what one has made."""
    if not has_compiler() and _shared() is None:
        raise CudaError(NO_COMPILER)


def _shared() -> Path | None:
    try:
        return cache_files.shared_folder()
    except OSError as error:
        raise CudaError(f"JTORCH_CUDA_TEXTS: {error}") from None


def kept_texts() -> set[Path]:
    """Those of this version in the folder that JTORCH_CUDA_TEXTS names. Raises CudaError for one that cannot
    be made, or trusted."""
    folder = _shared()
    return {p for p in cache_files.entries(folder.parent) if p.parent == folder} if folder else set()


def text_of(kernel: CudaKernel) -> str:
    """The PTX of a kernel that was loaded."""
    return _TEXTS[kernel.source]


def entry_of(kernel: CudaKernel) -> str:
    """Its entry there."""
    from jtorch.compile.codegen.cuda_build import entry_name

    return entry_name(kernel, table=True)


@functools.cache
def _plain_text(source: str, entry: str) -> tuple[str, str]:
    from jtorch.compile.codegen.cuda_build import entry_name

    kernel = CudaKernel(entry, source, (), (), Work(Style.MAP, 0))
    return _kept_or_compiled(kernel, table=False), entry_name(kernel)


def plain_text(kernel: CudaKernel) -> tuple[str, str]:
    """The PTX, and its entry, of a kernel that takes its arguments as they are. Raises CudaError where
    nothing compiles any."""
    return _plain_text(kernel.source, kernel.entry)


def _kept_or_compiled(kernel: CudaKernel, table: bool = True) -> str:
    from jtorch.compile.codegen import cuda_build

    symbol, shared = cuda_build.entry_name(kernel, table), _shared()
    if shared is None:
        return _cached_or_compiled(kernel, table, symbol)
    key = cache_files.digest(symbol.encode(), kernel.source.encode())
    kept = cache_files.read(shared, symbol, key)
    if kept is not None:
        cache.counters.hits += 1
        return kept.decode()
    if not has_compiler():
        raise CudaError(
            f"no text of the kernel {symbol} in {shared}, and no numba-cuda to make one: run the program "
            "once where that is installed, with this version of jtorch, and JTORCH_CUDA_TEXTS set"
        )
    ptx = _cached_or_compiled(kernel, table, symbol)
    cache_files.write(shared, symbol, key, ptx.encode(), kernel.source)
    return ptx


def _cached_or_compiled(kernel: CudaKernel, table: bool, symbol: str) -> str:
    from jtorch.compile.codegen import cuda_build

    if not has_compiler():
        raise CudaError(NO_COMPILER)
    folder = cache_files.open_folder()
    key = cache_files.digest(symbol.encode(), kernel.source.encode(), _compilers().encode())
    kept = cache_files.read(folder, symbol, key) if folder else None
    if kept is not None:
        cache.counters.hits += 1
        return kept.decode()
    cache.counters.misses += 1
    ptx = cuda_build.compile_ptx(kernel, table)
    cache.counters.compiled += 1
    if folder:
        cache_files.write(folder, symbol, key, ptx.encode(), kernel.source)
    return ptx


@functools.cache
def _compilers() -> str:
    """The versions of what is installed of them. A toolkit that lies elsewhere is not told from another one:
    what it writes is right in any case."""
    found = []
    for name in _COMPILERS:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)
