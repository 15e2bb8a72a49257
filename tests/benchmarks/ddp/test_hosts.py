"""Hosts of network namespaces: their commands, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.ddp import hosts
from benchmarks.ddp.hosts import Hosts, HostsError, Link

ROOT = Path(__file__).parents[3]
LINK = Link(1e9, 50e-6)


def reason():
    """Why no namespaces can be made here; empty where they can."""
    try:
        hosts._check_tools()
        hosts._run("ip", "netns", "add", f"{hosts.PREFIX}{os.getpid()}s")
    except HostsError as error:
        return str(error)
    hosts._remove(f"{hosts.PREFIX}{os.getpid()}s")
    return ""


WHY = reason()
needs_namespaces = pytest.mark.skipif(bool(WHY), reason=WHY or "there are namespaces")


def of_process(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"{hosts.PREFIX}{pid}")]


def test_a_link_says_its_speed():
    assert str(LINK) == "1 Gbit/s, 50 us" and str(Link(1e10, 1e-5)) == "10 Gbit/s, 10 us"


def test_without_the_tools_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(hosts.shutil, "which", lambda tool: None)
    monkeypatch.setattr(hosts.sys, "platform", "linux")
    with pytest.raises(HostsError, match="no ip and no tc"), Hosts(2, LINK):
        pass


@needs_namespaces
def test_hosts_reach_each_other_and_go():
    with Hosts(2, LINK) as made:
        assert len(of_process(os.getpid())) == 3
        shown = hosts._run("tc", "-n", made._names[0], "qdisc", "show", "dev", "eth0")
        assert "tbf" in shown and "1Gbit" in shown
        program = [sys.executable, "-c", "import socket; socket.create_server(('198.18.0.2', 5)).accept()"]
        listening = subprocess.Popen([*hosts._on(made._names[1], "host1"), *program])
        reach = "import socket, time\nfor _ in range(100):\n    try:\n        socket.create_connection("
        reach += "('198.18.0.2', 5)); break\n    except OSError: time.sleep(0.1)"
        hosts._run(*hosts._on(made._names[0], "host0"), sys.executable, "-c", reach)
        assert listening.wait(10) == 0
    assert of_process(os.getpid()) == []


@pytest.mark.slow
@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(number, tmp_path):
    program = (
        "import signal, subprocess, time\nfrom benchmarks.ddp import hosts\n"
        "from benchmarks.ddp.hosts import *\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background ignores it
        "with Hosts(2, Link(1e9, 0)) as made:\n"
        "    name = made._names[0]\n"
        "    left = subprocess.Popen(['ip', 'netns', 'exec', name, 'sleep', '60'])\n"
        "    while str(left.pid) not in hosts._run('ip', 'netns', 'pids', name).split():\n"
        "        time.sleep(0.01)\n"  # not in there yet: nobody could find it
        "    print(left.pid, flush=True)\n    time.sleep(60)\n"
    )
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
        ) as started,
    ):
        inside = int(started.stdout.readline())
        assert len(of_process(started.pid)) == 3
        started.send_signal(number)
        assert started.wait(20) != 0
    if number == signal.SIGKILL:  # the next run removes what it could not
        hosts.remove_left_over()
    assert of_process(started.pid) == []
    deadline = time.monotonic() + 5
    while Path(f"/proc/{inside}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{inside}").exists()
