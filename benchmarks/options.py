"""What the command lines share: options, names with suggestions, paths that are tried early."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.machine import thread_variables


class Parser(argparse.ArgumentParser):
    """One line for what is wrong, with the name that was probably meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def parse(self, given: Sequence[str]) -> argparse.Namespace:
        """Options may stand between names. Exits with 2 for what is unknown."""
        options, rest = self.parse_known_intermixed_args(given)
        if rest:
            known = [name for action in self._actions for name in action.option_strings]
            wrong = next((word for word in rest if word.startswith("-")), rest[0])
            self.error(f"unrecognized arguments: {' '.join(rest)}{did_you_mean(wrong, known)}")
        return options

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def check_names(self, names: Iterable[str], known: Sequence[str], kind: str) -> None:
        """Exit with 2 unless all ``names`` are ``known`` ones, of a ``kind`` that the message names."""
        unknown = [name for name in names if name not in known]
        if unknown:
            meant = did_you_mean(unknown[0], known)
            self.error(f"no {kind} named {', '.join(unknown)}{meant}; there are {', '.join(known)}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` where a known name is much like it, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def output_file(text: str) -> Path:
    """A file that can be written: asked for while arguments are parsed, before an hour of measuring."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent} to write {path.name} into")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} may not be written")
    return path


def share(text: str) -> float:
    """``5%`` as 0.05."""
    try:
        found = float(text.removesuffix("%")) / 100
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"takes a percentage as 5%, not {text}")
    return found


def positive(text: str) -> int:
    """An integer from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"takes a number from 1, not {text}")
    return int(text)


def numbers(text: str) -> list[int]:
    """``16,64`` as integers from 1, each once."""
    return list(dict.fromkeys(positive(part) for part in text.split(",")))


def add_output(p: Parser, markdown: bool = True) -> None:
    p.add_argument(
        "--json", type=output_file, metavar="FILE", help="write machine, settings and all samples here"
    )
    if markdown:
        p.add_argument("--markdown", action="store_true", help="print one table in Markdown")


def add_quick(p: Parser, says: str = "few short samples: shows that it works, no figures") -> None:
    p.add_argument("--quick", action="store_true", help=says)


def add_threads(p: Parser) -> None:
    p.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="for every library; default: each library's own default",
    )


def add_peers(p: Parser, known: str) -> None:
    p.add_argument("--peers", metavar="NAMES", help=f"comma list of {known}; default: those installed")


def peers_of(
    p: Parser, options: argparse.Namespace, known: Sequence[str], default: Sequence[str] | None = None
) -> list[str]:
    """The peers that are asked for; where none are, those of ``default``, or all, that are installed."""
    from benchmarks.peers import installed

    here = installed()

    def is_here(name: str) -> bool:
        return ("jax" if name == "jax" else "torch") in here

    if options.peers is None:
        return [name for name in (known if default is None else default) if is_here(name)]
    names = [name for name in options.peers.split(",") if name]
    p.check_names(names, known, "peer")
    for name in names:
        if not is_here(name):
            p.error(f"{name} is not installed in this environment")
    return names


def needs_rich(p: Parser) -> None:
    """Told before the work where it is absent."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        p.error('the tables need rich: python -m pip install -e ".[bench]"')


def needs_matplotlib(p: Parser) -> None:
    """Told before the work where it is absent."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        p.error('the charts need matplotlib: python -m pip install -e ".[report]"')


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """These variables, for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def threads_and_empty_cache(threads: int | None) -> Iterator[None]:
    """The threads of all libraries, and a kernel cache of this run's own: compiling is measured, not a cache
    from before."""
    with (
        tempfile.TemporaryDirectory() as folder,
        environment({**thread_variables(threads), "JTORCH_CACHE": folder}),
    ):
        yield
