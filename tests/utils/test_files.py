from __future__ import annotations

import os
import random
import subprocess
import sys
import time
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
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_permissions_stay(tmp_path, mode):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o777 == mode


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


@pytest.mark.skipif(os.name != "posix", reason="looks for processes as POSIX does")
def test_what_a_killed_process_left_is_swept_and_what_a_living_one_writes_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path, stem = tmp_path / "file", files._stem("file")
    left = tmp_path / f"{stem}{files._machine()}-{gone.pid}-aaaa.tmp"
    alive = tmp_path / f"{stem}{files._machine()}-{os.getppid()}-aaaa.tmp"
    elsewhere = tmp_path / f"{stem}ffffffff-{gone.pid}-aaaa.tmp"
    other = tmp_path / f"{files._stem('other')}{files._machine()}-{gone.pid}-aaaa.tmp"
    for file in (left, alive, elsewhere, other):
        file.write_bytes(b"half")
    write_atomically(path, b"new")
    assert set(tmp_path.iterdir()) == {path, alive, elsewhere, other}


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
