"""What NVIDIA's assembler makes of a text: registers, spills, shared memory, and the size of the code.

python -m tests.cuda.ptxas        # the kernels of the small networks, for devices of three kinds
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jtorch
from jtorch.compile.codegen.cuda import CudaKernel, emit_cuda
from tests.compile.chain import trace
from tests.compile.codegen.cuda_chain import plan_of
from tests.cuda.networks import NETWORKS
from tests.cuda.plans import ptx_of

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12")


class Figures(NamedTuple):
    """Of a kernel: registers of a thread, bytes that a thread spills and has on its stack, shared bytes of a
    block, bytes of code."""

    registers: int
    spilled: int
    stack: int
    shared: int
    code: int


def find() -> str | None:
    """Where ptxas is: in a wheel, or on the path."""
    for wheel in WHEELS:
        try:
            files = metadata.files(wheel) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name == "ptxas" and (path := Path(str(file.locate()))).exists():
                return str(path)
    return shutil.which("ptxas")


def assembled(ptxas: str, text: str, architecture: str) -> Figures:
    """The figures of the one kernel of a text. Raises CalledProcessError where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        command = [ptxas, "-v", f"-arch={architecture}", str(source), "-o", str(made)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr

        def number(pattern: str) -> int:
            return sum(map(int, re.findall(pattern, said)))

        return Figures(
            number(r"Used (\d+) registers"),
            number(r"(\d+) bytes spill (?:stores|loads)"),
            number(r"(\d+) bytes stack frame"),
            number(r"(\d+) bytes smem"),
            _code_bytes(made.read_bytes()),
        )


def _code_bytes(elf: bytes) -> int:
    """The sizes of an ELF file's sections whose names begin with .text, added up."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    entry, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + entry * k) for k in range(count)]
    begin = headers[names][4]
    return sum(size for name, *_, size in headers if elf[begin + name :].startswith(b".text"))


def kernels(networks: Iterable[str] = NETWORKS) -> dict[str, CudaKernel]:
    """Source -> kernel, of training steps of networks that have a plan."""
    found: dict[str, CudaKernel] = {}
    for name in networks:
        program = NETWORKS[name](jtorch)
        found |= emit_cuda(plan_of(trace(program.step, list(program.arguments[0])))).texts()
    return found


def table(figures: Callable[[str, str], Figures], texts: Iterable[str]) -> list[list[Any]]:
    """For each kind of device: how many kernels, most registers, spills, stack, shared memory, most and all
    code."""
    rows = []
    texts = list(texts)
    for architecture in ARCHITECTURES:
        found = [figures(text, architecture) for text in texts]
        most = Figures(*map(max, zip(*found, strict=True)))
        rows.append([architecture, len(found), *most, sum(f.code for f in found)])
    return rows


def main() -> int:
    ptxas = find()
    if ptxas is None:
        print(f"no ptxas on this machine: pip install {WHEELS[0]}", file=sys.stderr)
        return 2
    texts = [ptx_of(kernel) for kernel in kernels().values()]
    print("| device | kernels | registers | spilled | stack | shared | code | code of all |")
    print("|---|" + "---:|" * 7)
    for row in table(lambda text, architecture: assembled(ptxas, text, architecture), texts):
        print(f"| {' | '.join(map(str, row))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
