"""The kernel cache as processes see it: whole functions, damaged folders, processes that die."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jtorch.native import cache, cache_files

pytestmark = pytest.mark.slow

ROOT = str(Path(cache.__file__).parents[2])
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are POSIX's")

PROGRAM = """
import sys, warnings
import numpy as np
warnings.simplefilter("error")
import jtorch
from jtorch.native import cache

def f(x, w):
    return ((x @ w).tanh() * 1.5).softmax(-1).sum(0)

x, w = (jtorch.arange(float(n * n)).reshape(n, n) / 7 for n in (4, 4))
f.compiled = jtorch.compile(f)
for n in (4, 3):
    np.testing.assert_allclose(f.compiled(x[:n], w).numpy(), f(x[:n], w).numpy(), rtol=1e-5)
counts = cache.counters
print(counts.compiled, counts.hits, "numba" in sys.modules)
"""


def run_program(text: str = PROGRAM, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **settings}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with the kernels of ``PROGRAM``, to be copied."""
    folder = tmp_path_factory.mktemp("cache") / "kernels"
    result = run_program(JTORCH_CACHE=str(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout.split()[0]) > 0
    return folder


def copy_of(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "copy"))


def test_a_second_process_runs_the_function_and_compiles_nothing(filled):
    result = run_program(JTORCH_CACHE=str(filled))
    assert (result.returncode, result.stderr) == (0, "")
    compiled, hits, numba = result.stdout.split()
    assert (compiled, numba) == ("0", "False") and int(hits) > 0


def test_two_processes_compile_the_function_at_once(tmp_path):
    environment = {**os.environ, "JTORCH_CACHE": str(tmp_path / "kernels")}
    command = [sys.executable, "-c", PROGRAM]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=environment)
        for _ in range(2)
    ]
    for process in processes:
        assert process.communicate()[1] == b"" and process.returncode == 0
    assert run_program(JTORCH_CACHE=str(tmp_path / "kernels")).stdout.startswith("0 ")


def _truncate_all(folder: Path) -> None:
    for path in cache_files.entries(folder):
        path.write_bytes(path.read_bytes()[:-50])


def _flip_a_bit_in_each(folder: Path) -> None:
    for k, path in enumerate(cache_files.entries(folder)):
        content = bytearray(path.read_bytes())
        content[(k * 97) % len(content)] ^= 1 << (k % 8)
        path.write_bytes(bytes(content))


def _open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def _replaced_by_folders(folder: Path) -> None:
    for path in cache_files.entries(folder):
        path.unlink()
        path.mkdir(mode=0o700)


def _exchanged(folder: Path) -> None:
    paths = list(cache_files.entries(folder))
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)


def _fingerprint_is_a_file(folder: Path) -> None:
    place = folder / cache_files.fingerprint()
    shutil.rmtree(place)
    place.write_text("")


DAMAGES = [_truncate_all, _flip_a_bit_in_each, _open_to_all, _replaced_by_folders, _exchanged,
           _fingerprint_is_a_file]  # fmt: skip


@posix
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_costs_one_warning_and_nothing_else(damage, filled, tmp_path):
    folder = copy_of(filled, tmp_path)
    damage(folder)
    result = run_program(JTORCH_CACHE=str(folder))
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[0]) > 0, "compiled again"
    assert result.stderr.count("\n") <= 2 and "kernel cache" in result.stderr, result.stderr


@posix
def test_a_read_only_folder_is_read(filled, tmp_path):
    folder = copy_of(filled, tmp_path)
    for place in (folder / cache_files.fingerprint(), folder):
        place.chmod(0o500)
    try:
        result = run_program(JTORCH_CACHE=str(folder))
    finally:
        for place in (folder, folder / cache_files.fingerprint()):
            place.chmod(0o700)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("0 ")


def test_a_process_killed_while_it_writes_leaves_a_usable_folder(tmp_path):
    """Killed between the bytes of an entry, and between an entry and its name."""
    folder = tmp_path / "kernels"
    for moment in ("mkstemp", "replace"):
        killed = run_program(
            "import os, tempfile\nfrom pathlib import Path\n"
            + {
                "mkstemp": "made = tempfile.mkstemp\n"
                "def die(*a, **k):\n"
                "    descriptor, name = made(*a, **k)\n"
                "    os.write(descriptor, b'jtorch kernel')\n"
                "    os.kill(os.getpid(), 9)\n"
                "tempfile.mkstemp = die\n",
                "replace": "Path.replace = lambda *a: os.kill(os.getpid(), 9)\n",
            }[moment]
            + PROGRAM,
            JTORCH_CACHE=str(folder),
        )
        assert killed.returncode != 0 and not killed.stdout
        assert list(folder.glob("*/.*.part")), "what the killed process left"
        assert not list(cache_files.entries(folder))
    result = run_program(JTORCH_CACHE=str(folder))
    assert (result.returncode, result.stderr) == (0, "")
    assert run_program(JTORCH_CACHE=str(folder)).stdout.startswith("0 ")
    cleared = run_program(
        "from jtorch.native import cache_files; raise SystemExit(cache_files.main(['clear']))",
        JTORCH_CACHE=str(folder),
    )
    assert cleared.returncode == 0 and not list(folder.iterdir())


@posix
def test_the_command_on_every_state_of_the_folder(filled, tmp_path):
    def command(action: str, folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jtorch.native.cache", action], capture_output=True, text=True, cwd=ROOT,
            env={**os.environ, "JTORCH_CACHE": folder}, check=False,
        )  # fmt: skip

    folder = copy_of(filled, tmp_path)
    _flip_a_bit_in_each(folder)
    (folder / cache_files.fingerprint() / "mine.txt").write_text("somebody's")
    assert "bytes in" in command("ls", str(folder)).stdout
    verified = command("verify", str(folder))
    assert verified.returncode == 1 and "wrong checksum" in verified.stdout and not verified.stderr
    assert command("clear", str(folder)).returncode == 0
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["mine.txt"]
    for action in ("ls", "verify", "clear"):
        for place in (str(tmp_path / "nowhere"), "0"):
            result = command(action, place)
            assert (result.returncode, result.stderr) == (0, "")
