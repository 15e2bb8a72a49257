"""The kernel cache: a second process compiles nothing, and no state of the disk makes a wrong or
failing kernel.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jtorch
from jtorch.native import cache, cache_files
from tests.machine_code import needs_own_linker

ROOT = str(Path(cache.__file__).parents[2])


def kernel_source(number: int) -> str:
    return f"def answer(args):\n    args[0] = {number}\n    return 0\n"


def answer(address: int) -> int:
    block = np.zeros(1, np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(block.ctypes.data) == 0
    return int(block[0])


@pytest.fixture
def fresh(monkeypatch):
    """Forget what this process has loaded, counted and warned about: what a new process knows."""

    def forget() -> cache.Counters:
        monkeypatch.setattr(cache, "_loaded", {})
        monkeypatch.setattr(cache, "counters", cache.Counters())
        monkeypatch.setattr(cache_files, "_warned", set())
        return cache.counters

    forget()
    return forget


@pytest.fixture
def folder(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def the_entry(folder: Path) -> Path:
    (path,) = cache_files.entries(folder)
    return path


def test_first_builds_second_loads_third_is_in_memory(folder, fresh):
    source = kernel_source(11)
    first = cache.get_or_build(source, "answer")
    assert first.was_compiled and answer(first.address) == 11
    assert cache.counters == cache.Counters(hits=0, misses=1, compiled=1)
    fresh()
    second = cache.get_or_build(source, "answer")
    assert not second.was_compiled and answer(second.address) == 11
    assert cache.get_or_build(source, "answer") == second
    assert cache.counters == cache.Counters(hits=1, misses=0, compiled=0)


def test_source_lies_beside_the_entry_and_can_be_read(folder):
    cache.get_or_build(kernel_source(12), "answer")
    assert the_entry(folder).with_suffix(".py").read_text() == kernel_source(12)
    assert the_entry(folder).stem.startswith("jtorch_answer_")


def test_many_with_one_repeated(folder, fresh):
    kernels = [(kernel_source(k), "answer") for k in (21, 22, 21)]
    assert [answer(built.address) for built in cache.get_or_build_many(kernels)] == [21, 22, 21]
    assert cache.counters.compiled == 2
    assert cache.get_or_build_many([]) == []


def test_hand_written_ir_is_cached_too(folder, fresh):
    text = "define i64 @one(ptr %a) {\n  ret i64 0\n}\ndefine i64 @two(ptr %a) {\n  ret i64 2\n}\n"
    assert sorted(cache.get_or_build_ir(text, "pair")) == ["one", "two"]
    fresh()
    assert sorted(cache.get_or_build_ir(text, "pair")) == ["one", "two"]
    assert cache.counters == cache.Counters(hits=1)
    assert the_entry(folder).with_suffix(".ll").read_text() == text


@pytest.mark.slow
@needs_own_linker
def test_a_second_process_compiles_nothing_and_imports_neither_numba_nor_llvm(folder):
    program = (
        "import sys\nfrom jtorch.native import cache\n"
        "from jtorch.native.executor import Executor\n"
        "import numpy as np\n"
        f"cache.get_or_build({kernel_source(31)!r}, 'answer')\n"
        "assert Executor(np.zeros((0, 5), np.int64))() == 0\n"
        "print(cache.counters.compiled, [m for m in ('numba', 'llvmlite') if m in sys.modules])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0].startswith("2 ")
    assert outputs[1].strip() == "0 []"


@pytest.mark.slow
def test_two_processes_fill_it_at_once(folder, fresh):
    program = (
        "import sys\nfrom jtorch.native import cache\n"
        f"source = {kernel_source(0)!r}\n"
        "kernels = [(source.replace('= 0', f'= {k}'), 'answer') for k in range(41, 46)]\n"
        "print(len(cache.get_or_build_many(kernels)))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.communicate() == (b"5\n", b"")
    paths = list(cache_files.entries(folder))
    assert len(paths) == 5
    assert not any(cache_files.find_fault(path.read_bytes()) for path in paths)
    assert not list(folder.glob("*/.*")), "no temporary file is left"


def damage_truncate(content: bytes) -> bytes:
    return content[:-1]


def damage_header_only(content: bytes) -> bytes:
    return content[:40]


def damage_empty(content: bytes) -> bytes:
    return b""


def damage_code(content: bytes) -> bytes:
    return content[:-100] + bytes([content[-100] ^ 1]) + content[-99:]


def damage_key(content: bytes) -> bytes:
    return content[:24] + bytes([content[24] ^ 0x80]) + content[25:]


def damage_longer(content: bytes) -> bytes:
    return content + b"\0"


def damage_format(content: bytes) -> bytes:
    return content[:16] + b"\xff" + content[17:]


def damage_pickle(content: bytes) -> bytes:
    return b"\x80\x04\x95" + bytes(500)


@pytest.mark.parametrize(
    "damage",
    [damage_truncate, damage_header_only, damage_empty, damage_code, damage_key, damage_longer, damage_format,
     damage_pickle],
)  # fmt: skip
def test_damaged_entry_is_compiled_again_with_one_warning(folder, fresh, caplog, damage):
    kernels = [(kernel_source(k), "answer") for k in (51, 52)]
    cache.get_or_build_many(kernels)
    for path in cache_files.entries(folder):
        path.write_bytes(damage(path.read_bytes()))
    fresh()
    with caplog.at_level(logging.WARNING, "jtorch.cache"):
        built = cache.get_or_build_many(kernels)
    assert [(b.was_compiled, answer(b.address)) for b in built] == [(True, 51), (True, 52)]
    assert len(caplog.records) == 1 and "damaged" in caplog.text
    fresh()
    assert not any(b.was_compiled for b in cache.get_or_build_many(kernels)), "the entry was replaced"


def test_another_kernels_entry_under_this_name_is_not_used(folder, fresh, caplog):
    cache.get_or_build(kernel_source(61), "answer")
    mine = the_entry(folder)
    cache.get_or_build(kernel_source(62), "answer")
    (other,) = set(cache_files.entries(folder)) - {mine}
    mine.write_bytes(other.read_bytes())
    fresh()
    assert answer(cache.get_or_build(kernel_source(61), "answer").address) == 61
    assert "another source" in caplog.text


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are POSIX's")


@posix
@pytest.mark.parametrize("which", ["root", "fingerprint"])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_folder_that_others_may_write_is_not_used(folder, fresh, caplog, which, mode):
    cache.get_or_build(kernel_source(71), "answer")
    place = folder if which == "root" else folder / cache_files.fingerprint()
    place.chmod(mode)
    fresh()
    for _ in range(3):
        assert cache.get_or_build(kernel_source(71), "answer").was_compiled
        cache._loaded.clear()
    assert len(caplog.records) == 1 and "others can write" in caplog.text
    assert len(list(cache_files.entries(folder))) == 1, "nothing is stored there either"


@posix
def test_folder_of_another_user_is_not_used(folder, fresh, monkeypatch, caplog):
    cache.get_or_build(kernel_source(72), "answer")
    fresh()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache.get_or_build(kernel_source(72), "answer").was_compiled
    assert "others can write" in caplog.text


@posix
def test_entry_that_others_may_write_or_that_is_a_link_is_not_used(folder, fresh, caplog):
    cache.get_or_build(kernel_source(73), "answer")
    path = the_entry(folder)
    path.chmod(0o622)
    fresh()
    assert cache.get_or_build(kernel_source(73), "answer").was_compiled
    assert path.stat().st_mode & 0o777 == 0o600, "replaced by one of our own"
    moved = path.with_name("elsewhere")
    path.rename(moved)
    path.symlink_to(moved)
    fresh()
    assert cache.get_or_build(kernel_source(73), "answer").was_compiled


@posix
def test_a_pipe_as_an_entry_is_no_entry_and_is_not_waited_for(folder, fresh, capsys):
    cache.get_or_build(kernel_source(75), "answer")
    path = the_entry(folder)
    path.unlink()
    os.mkfifo(path, 0o600)
    fresh()
    assert cache_files.main(["verify"]) == 1 and "no plain file" in capsys.readouterr().out
    built = cache.get_or_build(kernel_source(75), "answer")
    assert built.was_compiled and answer(built.address) == 75
    assert path.is_file(), "replaced by an entry"


@posix
def test_a_user_without_a_home_compiles_without_a_cache(monkeypatch, fresh, caplog):
    monkeypatch.delenv("JTORCH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    cache_files._warned.clear()
    assert answer(cache.get_or_build(kernel_source(76), "answer").address) == 76
    assert answer(cache.get_or_build(kernel_source(77), "answer").address) == 77
    assert [r.message for r in caplog.records if "no home folder" in r.message] == [caplog.records[0].message]


@posix
def test_new_folders_are_private_whatever_the_umask(folder):
    previous = os.umask(0)
    try:
        cache.get_or_build(kernel_source(74), "answer")
    finally:
        os.umask(previous)
    for path in (folder, folder / cache_files.fingerprint(), the_entry(folder)):
        assert path.stat().st_mode & 0o077 == 0


def test_works_without_a_folder(tmp_path, monkeypatch, fresh, caplog):
    obstacle = tmp_path / "file"
    obstacle.write_text("a file where the folder should be")
    monkeypatch.setenv("JTORCH_CACHE", str(obstacle / "kernels"))
    for number in (81, 82):
        assert answer(cache.get_or_build(kernel_source(number), "answer").address) == number
    assert len(caplog.records) == 1


def test_switched_off(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("JTORCH_CACHE", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert answer(cache.get_or_build(kernel_source(85), "answer").address) == 85
    assert not list(tmp_path.iterdir())
    assert cache_files.main(["ls"]) == 0


def test_default_folder_is_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("JTORCH_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_files.root_folder() == tmp_path / "jtorch" / "kernels"


@pytest.mark.parametrize("moment", ["compiling", "storing"])
def test_interrupt_leaves_a_usable_cache(folder, fresh, monkeypatch, moment):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((cache, "_compile") if moment == "compiling" else (Path, "replace")), interrupt)
        with pytest.raises(KeyboardInterrupt):
            cache.get_or_build(kernel_source(91), "answer")
    assert not [path for path in folder.rglob("*") if path.is_file()]
    assert answer(cache.get_or_build(kernel_source(91), "answer").address) == 91
    fresh()
    assert not cache.get_or_build(kernel_source(91), "answer").was_compiled


def test_fingerprint_names_versions_and_cpu(monkeypatch):
    def fingerprint(**changes: object) -> str:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setattr(cache_files, name, value)
            return cache_files.fingerprint.__wrapped__()

    usual = fingerprint()
    assert usual == fingerprint() == cache_files.fingerprint()
    assert usual != fingerprint(_version=lambda package: "0.0.1")
    assert usual != fingerprint(_cpu=lambda: "another CPU")
    assert usual != fingerprint(FORMAT=99)
    for name in ("NUMBA_BOUNDSCHECK", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert usual != cache_files.fingerprint.__wrapped__(), name


def test_versions_equal_the_installed_packages():
    from importlib.metadata import version

    assert [cache_files._version(name) for name in ("numba", "llvmlite")] == [
        version("numba"),
        version("llvmlite"),
    ]


def test_command_lists_verifies_and_clears(folder, capsys):
    cache.get_or_build_many([(kernel_source(k), "answer") for k in (95, 96)])
    assert cache_files.main(["ls"]) == 0
    assert capsys.readouterr().out.count("jtorch_answer_") == 2
    assert cache_files.main(["verify"]) == 0
    (folder / "notes.txt").write_text("somebody's")
    victim = next(iter(cache_files.entries(folder)))
    victim.write_bytes(damage_code(victim.read_bytes()))
    assert cache_files.main(["verify"]) == 1
    assert "wrong checksum" in capsys.readouterr().out
    assert cache_files.main(["clear"]) == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_command_runs_as_a_module(folder):
    result = subprocess.run(
        [sys.executable, "-m", "jtorch.native.cache", "ls"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert "0  bytes in" in result.stdout


@pytest.mark.parametrize("moment", ["opening", "writing", "renaming", "making the folder"])
def test_a_disk_that_is_full_at_any_moment(folder, fresh, monkeypatch, caplog, moment):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    class Full:
        def __init__(self, descriptor: int, mode: str) -> None:
            os.close(descriptor)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            full()

        def write(self, content: bytes) -> int:
            return len(content)

    with monkeypatch.context() as patch:
        place: tuple[Any, str, Any] = {
            "opening": (tempfile, "mkstemp", full),
            "writing": (os, "fdopen", Full),
            "renaming": (Path, "replace", full),
            "making the folder": (Path, "mkdir", full),
        }[moment]
        patch.setattr(*place)
        for number in (83, 84):
            assert answer(cache.get_or_build(kernel_source(number), "answer").address) == number
    assert len(caplog.records) == 1 and "No space left" in caplog.text
    assert not [path for path in folder.rglob("*") if path.is_file()]
    fresh()
    assert cache.get_or_build(kernel_source(83), "answer").was_compiled
    fresh()
    assert not cache.get_or_build(kernel_source(83), "answer").was_compiled


def test_every_flipped_bit_of_a_header_and_many_of_the_code_are_noticed(folder):
    cache.get_or_build(kernel_source(97), "answer")
    content = the_entry(folder).read_bytes()
    assert not cache_files.find_fault(content)
    for at in [*range(92), *range(92, len(content), 61)]:
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            assert cache_files.find_fault(bytes(changed)), (at, bit)
    for length in range(0, len(content), 53):
        assert cache_files.find_fault(content[:length])


def test_ctrl_c_while_a_function_compiles_leaves_function_and_cache_usable(folder, fresh, monkeypatch):
    """At the second of its kernels: the first one is kept."""
    compiled = jtorch.compile(lambda x: (x.exp().sum(0), jtorch.sort(x).values.cumsum(0) * 2.5, x @ x))
    x = jtorch.arange(9.0).reshape(3, 3)
    original, left = cache._compile, [1]

    def interrupted(want: object, text: str) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(want, text)

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled(x)
    kept = len(list(cache_files.entries(folder)))
    assert kept == 1
    for found, expected in zip(compiled(x), compiled.function(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert cache_files.main(["verify"]) == 0
    assert len(list(cache_files.entries(folder))) > kept


def test_where_nobody_tells_the_processor_and_nothing_compiles_there_is_a_folder(monkeypatch):
    def closed(*args, **options):
        raise OSError("no /proc here")

    monkeypatch.setattr(Path, "open", closed)
    for name in ("llvmlite", "llvmlite.binding"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cache_files._cpu() == ""
