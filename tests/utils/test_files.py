from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jtorch.utils import files
from jtorch.utils.files import write_atomically


def test_replaces_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch, broken):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "later")
    write_atomically(dangling, b"new")
    assert dangling.is_symlink() and (tmp_path / "later").read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o222])
def test_permissions_stay(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert path.stat().st_mode & 0o777 == mode
    path.chmod(0o600)
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_a_device_and_a_pipe_are_written_to(tmp_path):
    write_atomically(os.devnull, b"new")
    assert not Path(os.devnull).is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"new")
    assert os.read(reader, 10) == b"new" and list(tmp_path.iterdir()) == [pipe]
    os.close(reader)


@pytest.mark.parametrize("name", ["x" * 240, "x" * 252 + ".pt", "\u2603" * 80])
def test_names_as_long_as_the_system_allows(tmp_path, name):
    write_atomically(tmp_path / name, b"new")
    assert (tmp_path / name).read_bytes() == b"new"


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_read_only_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    if os.geteuid() == 0:  # whom the system refuses nothing
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*file'"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="hard links")
def test_another_name_keeps_the_old_content(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"old")
    other.hardlink_to(path)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and other.read_bytes() == b"old"


def left_behind(folder, machine=None, number=None, name="file"):
    """A temporary file that nobody writes any more."""
    numbers = f"{machine or files._machine()}-{number or os.getpid()}-aaaa"
    path = folder / f"{files._stem(name)}{numbers}.tmp"
    path.write_bytes(b"half")
    return path


needs_locks = pytest.mark.skipif(files.fcntl is None, reason="locks of POSIX")


@needs_locks
@pytest.mark.parametrize(
    "number",
    [os.getpid(), os.getppid(), 1, "9" * 20, "\u00b2", "", "x"],
    ids=["own", "parent", "1", "large", "digit", "none", "letter"],
)
def test_what_was_left_is_swept_whatever_its_process_was(tmp_path, number):
    """In a container every process may have the number 1, and a number can be anybody's."""
    path = tmp_path / "file"
    left_behind(tmp_path, number=number or None)
    other = left_behind(tmp_path, name="other")
    elsewhere = left_behind(tmp_path, "ffffffff")
    write_atomically(path, b"new")
    assert set(tmp_path.iterdir()) == {path, other, elsewhere}


def test_names_that_only_look_like_ours(tmp_path):
    stem = files._stem("file")
    for rest in ("", "-", "--", ".tmp", "\u00b2-\u00b2-x.tmp", "-99999999999999999999-x.tmp"):
        (tmp_path / (stem + rest)).write_bytes(b"half")
    (tmp_path / f"{stem}{files._machine()}-folder").mkdir()
    kept = set(tmp_path.iterdir())
    write_atomically(tmp_path / "file", b"new")
    assert set(tmp_path.iterdir()) == kept | {tmp_path / "file"}


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("hours", [1, 25])
def test_age_decides_where_no_lock_tells(tmp_path, monkeypatch, locks, hours):
    if not locks:
        monkeypatch.setattr(files, "fcntl", None)
    elsewhere, here = left_behind(tmp_path, "ffffffff"), left_behind(tmp_path)
    then = time.time() - hours * 3600
    os.utime(elsewhere, (then, then))
    os.utime(here, (then, then))
    write_atomically(tmp_path / "file", b"new")
    assert elsewhere.exists() == (hours == 1)
    assert here.exists() == (hours == 1 and (not locks or files.fcntl is None))


_HOLDS = """
import os, sys, time
from jtorch.utils import files
fsync = os.fsync
def idle(handle):
    print("writing", flush=True)
    sys.stdin.readline()
    fsync(handle)
os.fsync = idle
files.write_atomically(sys.argv[1], b"held")
"""


@pytest.mark.slow
@needs_locks
def test_what_a_living_process_writes_is_not_swept_until_it_is_killed(tmp_path):
    path = tmp_path / "file"
    command = [sys.executable, "-c", _HOLDS, str(path)]
    idle = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in idle:
        process.stdout.readline()
    written = set(tmp_path.iterdir())
    for temporary in written:  # stopped for long: no write for a week
        os.utime(temporary, (1, 1))
    write_atomically(path, b"new")
    assert len(written) == 2 and set(tmp_path.iterdir()) == written | {path}
    idle[0].kill()
    idle[0].communicate()
    idle[1].communicate(b"\n")
    assert path.read_bytes() == b"held"
    write_atomically(path, b"new")
    assert list(tmp_path.iterdir()) == [path]


@needs_locks
def test_a_file_swept_before_its_lock_is_made_again(tmp_path, monkeypatch):
    lock, swept = files._lock, []

    def late(handle, wait):
        if wait and not swept:
            swept.extend(tmp_path.iterdir())
            files._sweep(tmp_path, files._stem("file"))
        return lock(handle, wait)

    monkeypatch.setattr(files, "_lock", late)
    write_atomically(tmp_path / "file", b"new")
    assert len(swept) == 1 and list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_writers_at_once_in_one_process(tmp_path):
    path = tmp_path / "file"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: write_atomically(path, bytes([k]) * 10_000), range(64)))
    assert len(set(path.read_bytes())) == 1 and list(tmp_path.iterdir()) == [path]


_SAVES = """
import sys
from jtorch.utils.files import write_atomically
k = 0
while True:
    write_atomically(sys.argv[1], bytes([k % 256]) * 3_000_000)
    k += 1
    print(k, flush=True)
"""


@pytest.mark.soak
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_fifty_kills_leave_whole_files_and_no_litter(tmp_path):
    path, rng = tmp_path / "file", random.Random(0)
    litter = 0
    for _ in range(50):
        writer = subprocess.Popen([sys.executable, "-c", _SAVES, str(path)], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(rng.random() * 0.05)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 3_000_000 and len(set(content)) == 1
        litter += len(list(tmp_path.iterdir())) - 1
    write_atomically(path, b"new")
    assert list(tmp_path.iterdir()) == [path]
    assert litter > 0, "no kill came in the middle of a write: nothing was tested"
