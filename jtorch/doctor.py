"""``python -m jtorch.doctor``: what this machine has, and what it lacks. The first thing to ask a user for.

Plain text for a reader; it needs nothing installed and ends with 0. What cannot be found out is said in its
place, so that one failure hides nothing else.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import jtorch
from jtorch import version
from jtorch.compile.observe import frames
from jtorch.core import config
from jtorch.core.threads import quota
from jtorch.native import cache_files

Rows = Iterator[tuple[str, str]]

DISTRIBUTION = "jtorch-compile"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE")

# module -> what goes without it, or is slower
_OPTIONAL = {
    "numba": "nothing compiles: @jtorch.compile cannot work, and eager pooling is NumPy's",
    "llvmlite": "nothing compiles: @jtorch.compile cannot work, and eager ops take Python's way",
    "scipy_openblas32": "compiled products run on SciPy's BLAS, with the kernels and threads it has",
    "PIL": "no images in other formats than PNG, no transforms of Pillow's images",
    "tqdm": "examples show no progress",
    "rich": "python -m benchmarks does not run",
    "sklearn": "the benchmarks and tests that read its digits do not run",
    "numba_cuda": "kernels for CUDA are written, but not translated",
}
_COST = "every process compiles all of its kernels again"
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl", "asimd", "sve")
_VECTORS = (("avx512f", 64), ("avx2", 32), ("avx", 32), ("sse2", 16), ("asimd", 16))

_TRIAL = """
import json, time, jtorch
start = time.perf_counter()
double = jtorch.compile(lambda x: x * 2 + 1)
same = double(jtorch.arange(5.0)).tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
print(json.dumps([same, time.perf_counter() - start]))
"""


def python() -> Rows:
    name, gil = platform.python_implementation(), getattr(sys, "_is_gil_enabled", lambda: True)()
    yield "version", f"{name} {platform.python_version()}, {platform.architecture()[0]}, {_switched(gil)} GIL"
    yield "program", sys.executable
    yield "system", platform.platform()
    yield "known", f"functions are recorded on CPython {frames.KNOWN}"
    yield "compiling", _compiles()


def _switched(on: bool) -> str:
    return "with" if on else "without"


def _compiles() -> str:
    """Tried in a process of its own: what goes wrong there is told, too."""
    # the modules of this one are those tried, from wherever they came
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", _TRIAL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=found)
    except subprocess.TimeoutExpired:
        return "FAILS: x * 2 + 1 was not done after 300 s"
    if done.returncode:
        told = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"]
        return f"FAILS: {told[-1]}"
    right, seconds = json.loads(done.stdout.splitlines()[-1])
    return f"works: x * 2 + 1 in {seconds:.2f} s" if right else "FAILS: x * 2 + 1 gives other numbers"


def libraries() -> Rows:
    yield "jtorch", f"{version.__version__} in {Path(jtorch.__file__).parent}"
    for name in (DISTRIBUTION, "numpy", "scipy", "numba", "llvmlite", "safetensors", "ml_dtypes"):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "no distribution of that name"


def processor() -> Rows:
    facts = _cpuinfo()
    yield "name", facts.get("model name") or platform.processor() or platform.machine()
    has = {*facts.get("flags", "").split(), *facts.get("Features", "").split()}
    yield "features", " ".join(feature for feature in _FEATURES if feature in has) or "not known"
    width = next((bytes_ for feature, bytes_ in _VECTORS if feature in has), None)
    yield "vectors", f"{width} bytes" if width else "not known"
    yield "LLVM's name", _llvm_name()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield "cores", f"{usable} for this process, {os.cpu_count()} in the machine{_quota()}"


def _cpuinfo() -> dict[str, str]:
    """The first processor of Linux's list; empty elsewhere."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0]
    except OSError:
        return {}
    rows = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in rows}


def _llvm_name() -> str:
    from jtorch.native import loader

    try:
        return str(loader.binding().get_host_cpu_name())
    except ImportError as error:
        return f"not asked: {error}"


def _quota() -> str:
    allowed = quota()
    return "" if allowed is None else f"; its control groups may use {allowed}"


def blas() -> Rows:
    from jtorch.native import blas as compiled

    yield "compiled code", compiled.describe()
    import threadpoolctl

    for pool in threadpoolctl.threadpool_info():
        facts = (pool.get("version"), pool.get("architecture"), f"{pool.get('num_threads')} threads")
        known = ", ".join(str(fact) for fact in facts if fact)
        yield str(pool.get("internal_api")), f"{known} ({Path(str(pool.get('filepath'))).name})"


def threads() -> Rows:
    yield "jtorch", f"{jtorch.get_num_threads()} (jtorch.get_num_threads)"
    for name in THREAD_VARIABLES:
        if name in os.environ:
            yield name, os.environ[name]


def cache() -> Rows:
    root = cache_files.root_folder()
    if root is None:
        yield "folder", f"none (JTORCH_CACHE=0): {_COST}"
        return
    folder, refused = cache_files.try_folder()
    yield "folder", str(root)
    yield "trusted", f"NO: {refused}; {_COST}" if refused else "yes"
    entries = list(cache_files.entries(root))
    own = sum(path.parent == folder for path in entries)
    size = sum(path.stat().st_size for path in entries)
    yield "entries", f"{len(entries)} of {size / 1e6:.1f} MB; {own} for this build and processor"
    damaged = list(cache_files.faults(root))
    yield "damaged", str(len(damaged)) + "".join(f"\n{path}: {fault}" for path, fault in damaged[:3])


def settings() -> Rows:
    changed = [s for s in config.SETTINGS.values() if os.environ.get(s.variable)]
    for setting in changed:
        yield setting.variable, f"{os.environ[setting.variable]}   ({setting.help})"
    if not changed:
        yield "changed", "none"


def missing() -> Rows:
    absent = {name: cost for name, cost in _OPTIONAL.items() if importlib.util.find_spec(name) is None}
    yield from absent.items()
    if not absent:
        yield "packages", "none"


SECTIONS: tuple[Callable[[], Rows], ...] = (
    python, libraries, processor, blas, threads, cache, settings, missing,
)  # fmt: skip


def report() -> str:
    """All sections as text, one fact a line."""
    return "\n\n".join("\n".join([section.__name__, *_lines(section)]) for section in SECTIONS)


def _lines(section: Callable[[], Rows]) -> Iterator[str]:
    try:
        for name, told in section():
            first, *more = told.splitlines() or [""]
            yield f"  {name:20}  {first}"
            yield from (f"  {'':20}  {line}" for line in more)
    except Exception as error:  # whatever is broken here is what the reader is looking for
        yield f"  {'could not tell':20}  {type(error).__name__}: {error}"


if __name__ == "__main__":
    from jtorch.core.command import run

    if sys.argv[1:]:
        print(f"python -m jtorch.doctor takes no arguments, got {' '.join(sys.argv[1:])}", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(run(lambda: print(report()), "python -m jtorch.doctor"))
