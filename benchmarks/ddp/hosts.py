"""Hosts made of network namespaces, with a bridge between them and their speed shaped: for root on Linux.

Each host has a name and an address of its own, so Open MPI starts a daemon in each and sends over TCP. The
bridge is in a namespace, too: when the namespaces go, so does everything in them.
Source: ip-netns(8), tc-tbf(8), tc-netem(8).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jtorch.distributed.run import mpiexec

PREFIX = "jtbench"
BURST, PACKETS = 30e-6, 3200  # what passes at once: so many seconds' bytes, of two packets at least


class HostsError(Exception):
    """Namespaces could not be made; the message says what is missing."""


@dataclass(frozen=True)
class Link:
    """The speed of a host's link, each way: bits a second, and seconds that a packet is under way."""

    bits: float
    delay: float

    def __str__(self) -> str:
        return f"{self.bits / 1e9:g} Gbit/s, {self.delay * 1e6:g} us"


class Hosts:
    """``count`` hosts; a context manager, after which nothing is left of them.

    ``delays`` says whether the kernel could delay packets (it has netem). Raises HostsError without the
    privilege, or without ``ip`` and ``tc`` (Debian: iproute2).
    """

    def __init__(self, count: int, link: Link) -> None:
        self.count, self.link = count, link
        self.delays = False
        self._names = [f"{PREFIX}{os.getpid()}h{k}" for k in range(count)]
        self._switch = f"{PREFIX}{os.getpid()}s"
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Hosts:
        _check_tools()
        remove_left_over()
        try:
            self._stack.enter_context(_ends_on_sigterm())
            self._stack.callback(self._remove)
            self._make()
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="jt")))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _make(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        for k, name in enumerate(self._names):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            port = f"port{k}"
            _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                 "netns", self._switch)  # fmt: skip
            _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
            _run("ip", "-n", name, "address", "add", f"{address(k)}/24", "dev", "eth0")
            _run("ip", "-n", name, "link", "set", "eth0", "up")
            self._shape(name)

    def _shape(self, name: str) -> None:
        """A token bucket for the speed, and in it a delay, where the kernel has that.

        Messages that fit into the bucket are not slowed down, and no timer empties a small one often enough.
        """
        tc = ("tc", "-n", name, "qdisc", "add", "dev", "eth0")
        rate, burst = f"{self.link.bits:.0f}bit", str(max(int(self.link.bits / 8 * BURST), PACKETS))
        _run(*tc, "root", "handle", "1:", "tbf", "rate", rate, "burst", burst, "latency", "20ms")
        delay = f"{self.link.delay * 1e6:g}us"
        with contextlib.suppress(HostsError):
            _run(*tc, "parent", "1:1", "handle", "10:", "netem", "delay", delay, "limit", "100000")
            self.delays = True

    def _remove(self) -> None:
        for name in (*self._names, self._switch):
            _remove(name)

    def command(self, program: Sequence[str]) -> list[str]:
        """What starts ``program`` once on each host, by an ``mpiexec`` on the first one.

        Open MPI 5's options; its daemons on the other hosts are started by a script in the place of ssh.
        """
        places = ",".join(f"{address(k)}:1" for k in range(self.count))
        network = f"{address(0).rpartition('.')[0]}.0/24"
        start = [
            *mpiexec("", self.count), "--host", places, "--bind-to", "none",
            "--prtemca", "plm_ssh_agent", str(self._agent()), "--prtemca", "prte_if_include", network,
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", network,
        ]  # fmt: skip
        return [*_on(self._names[0], "host0"), *start, *program]

    def _agent(self) -> Path:
        """A script that is called as ssh is: a host's address, then the command line for its shell."""
        cases = [
            f'  {address(k)}) exec {shlex.join(_on(name, f"host{k}"))} sh -c "$*" ;;'
            for k, name in enumerate(self._names)
        ]
        script = self._folder / "agent"
        script.write_text("\n".join(["#!/bin/sh", "host=$1", "shift", 'case "$host" in', *cases, "esac", ""]))
        script.chmod(0o700)
        return script


def address(host: int) -> str:
    """The address of a host: of a network that is meant for tests of networks (RFC 2544)."""
    return f"198.18.0.{host + 1}"


def _on(namespace: str, name: str) -> list[str]:
    """The beginning of a command that runs in a namespace, under a host name of its own."""
    rename = 'hostname "$0" && exec "$@"'
    return ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", rename, name]


def _check_tools() -> None:
    if not sys.platform.startswith("linux"):
        raise HostsError("network namespaces are Linux's")
    missing = [tool for tool in ("ip", "tc", "unshare", "hostname") if shutil.which(tool) is None]
    if missing:
        raise HostsError(f"no {' and no '.join(missing)} on the PATH (Debian: apt-get install iproute2)")
    if os.geteuid() != 0:
        raise HostsError("making network namespaces needs root")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostsError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _remove(name: str) -> None:
    """End what runs in a namespace, and remove it."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in listed.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def left_over() -> list[str]:
    """Namespaces of runs that are gone: killed by SIGKILL, before they could remove them."""
    found = []
    for line in _run("ip", "netns", "list").splitlines():
        name = line.split()[0]
        pid = name.removeprefix(PREFIX).rstrip("s").partition("h")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            found.append(name)
    return found


def remove_left_over() -> None:
    for name in left_over():
        _remove(name)


@contextlib.contextmanager
def _ends_on_sigterm() -> Iterator[None]:
    """SIGTERM as an exception, as Ctrl-C is one, so that everything is removed."""

    def stop(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
