"""What the doctor says of this machine is so, and nothing that is broken keeps it from saying the rest."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys

import pytest

import jtorch
from jtorch import doctor
from jtorch.native import cache_files


def told(section):
    return dict(section())


@pytest.mark.slow
def test_it_runs_by_itself_and_has_every_section():
    command = [sys.executable, "-m", "jtorch.doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert heads == [section.__name__ for section in doctor.SECTIONS]
    assert "could not tell" not in done.stdout
    for fact in (platform.python_version(), jtorch.__version__, sys.executable):
        assert fact in done.stdout


@pytest.mark.parametrize(
    "program, says",
    [
        ("print('chatter\\n[true, 1.5]')", "works: x * 2 + 1 in 1.50 s"),
        ("print('[false, 1.5]')", "FAILS: x * 2 + 1 gives other numbers"),
        ("raise KeyError('LOAD')", "FAILS: KeyError: 'LOAD'"),
        ("import os; os._exit(3)", "FAILS: it ended with status 3"),
    ],
)
def test_what_the_trial_of_compiling_gave(monkeypatch, program, says):
    monkeypatch.setattr(doctor, "_TRIAL", program)
    assert doctor._compiles() == says


@pytest.mark.slow
def test_compiling_works_here():
    assert doctor._compiles().startswith("works: x * 2 + 1 in ")


def test_the_quota_is_the_one_that_counts(monkeypatch):
    monkeypatch.setattr(doctor, "quota", lambda: None)
    assert "control groups" not in told(doctor.processor)["cores"]
    monkeypatch.setattr(doctor, "quota", lambda: 3)
    assert told(doctor.processor)["cores"].endswith("; its control groups may use 3")


def test_the_state_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path / "kernels"))
    key = cache_files.digest(b"x")
    for symbol in ("good", "bad"):
        cache_files.write(cache_files.open_folder(), symbol, key, b"code", "text")
    damaged = next(path for path in cache_files.entries(tmp_path / "kernels") if path.stem == "bad")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    facts = told(doctor.cache)
    assert facts["folder"] == str(tmp_path / "kernels") and facts["trusted"] == "yes"
    assert facts["entries"].startswith("2 of 0.0 MB; 2 for this build")
    assert facts["damaged"] == f"1\n{damaged}: wrong checksum"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="whose a folder is, is asked on POSIX")
def test_a_cache_that_others_can_write_costs_compiling(monkeypatch, tmp_path):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("JTORCH_CACHE", str(tmp_path))
    trusted = told(doctor.cache)["trusted"]
    assert trusted.startswith("NO: ") and trusted.endswith("every process compiles all of its kernels again")
    monkeypatch.setenv("JTORCH_CACHE", "0")
    assert told(doctor.cache) == {
        "folder": "none (JTORCH_CACHE=0): every process compiles all of its kernels again"
    }


def test_what_is_missing_and_what_that_costs(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba" else find(name))
    assert "nothing compiles" in told(doctor.missing)["numba"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert told(doctor.missing) == {"packages": "none"}


def test_settings_that_were_changed(monkeypatch):
    for setting in doctor.config.SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)
    assert told(doctor.settings) == {"changed": "none"}
    monkeypatch.setenv("JTORCH_FUEL", "7")
    assert told(doctor.settings)["JTORCH_FUEL"].startswith("7   (at most this many")


def test_a_section_that_fails_says_so_in_its_place(monkeypatch):
    def broken():
        yield "first", "told"
        raise OSError("no such thing")

    monkeypatch.setattr(doctor, "SECTIONS", (broken, doctor.threads))
    lines = doctor.report().splitlines()
    failed = f"  {'could not tell':20}  OSError: no such thing"
    assert lines[:3] == ["broken", f"  {'first':20}  told", failed]
    assert "threads" in lines
