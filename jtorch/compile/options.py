"""What ``jtorch.compile`` may be told: PyTorch's keywords, and those of our own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "interpret")
BACKENDS = ("jtorch", "inductor", "aot_eager", "eager")
POLICIES = (None, "warn", "raise", "eager")
KNOWN_OPTIONS = ("budget", "on_retrace", "verify")

_log = logging.getLogger("jtorch.compile")


@dataclass(frozen=True, slots=True)
class Options:
    """How one function is compiled.

    ``verify_every`` is 0 for never, -1 for the first replay of each plan, else every so many calls.
    ``dynamic``: all sizes of arguments are symbols, so that one plan serves all of them; None: those that are
    marked, and those of which a second one is seen; False: none. So it is with integer arguments, always from
    the second one seen on. ``fullgraph``: whether it is an error that a call cannot be recorded, which runs
    eagerly else; None: as JTORCH_FULLGRAPH says. ``budget`` has, by dtype name, the relative
    error that verification allows where its default does not suit.
    """

    disabled: bool = False
    fullgraph: bool | None = None
    interpreted: bool = False
    verify_every: int = 0
    on_retrace: str | None = None
    max_branches: int = 16
    dynamic: bool | None = None
    budget: Mapping[str, float] = field(default_factory=dict)


def parse(
    fullgraph: bool | None, dynamic: bool | None, backend: Any, mode: str | None,
    options: Mapping[str, Any] | None, disable: bool, verify: str, on_retrace: str | None,
    max_branches: int,
) -> Options:  # fmt: skip
    """The keywords of ``jtorch.compile``, checked. Raises TypeError, ValueError and RuntimeError.

    The modes other than "interpret" ask for speed alone and change nothing.
    """
    if not isinstance(fullgraph, (bool, type(None))) or dynamic not in (None, True, False):
        raise TypeError(f"fullgraph is a bool, dynamic a bool or None; got {fullgraph!r} and {dynamic!r}")
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    given = _checked_options(options or {})
    verify = given.get("verify", verify)
    on_retrace = given.get("on_retrace", on_retrace)
    if not isinstance(max_branches, int) or max_branches < 1:
        raise ValueError(f"max_branches is an int from 1 on, got {max_branches!r}")
    if on_retrace not in POLICIES:
        raise ValueError(f"on_retrace={on_retrace!r}, should be one of: {', '.join(map(str, POLICIES))}")
    return Options(
        disabled=disable or _is_eager(backend),
        fullgraph=fullgraph,
        interpreted=mode == "interpret",
        verify_every=_period(verify),
        on_retrace=on_retrace,
        max_branches=max_branches,
        dynamic=dynamic,
        budget=dict(given.get("budget", {})),
    )


def _checked_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in options:
        if name not in KNOWN_OPTIONS:
            raise RuntimeError(
                f"Unexpected optimization option {name}, known options are {list(KNOWN_OPTIONS)}"
            )
    return options


def _is_eager(backend: Any) -> bool:
    if callable(backend):
        raise NotImplementedError(
            "a backend that is a function takes PyTorch's graphs, which jtorch does not make: leave it out"
        )
    if backend not in BACKENDS:
        raise ValueError(f"Invalid backend: {backend!r}, should be one of: {', '.join(BACKENDS)}")
    if backend not in ("jtorch", "eager"):
        _log.info("backend=%r is PyTorch's; jtorch compiles with its own", backend)
    return backend == "eager"


def _period(verify: str) -> int:
    if verify == "off":
        return 0
    if verify == "first":
        return -1
    word, _, number = str(verify).partition(":")
    if word == "every" and number.isdecimal() and int(number) > 0:
        return int(number)
    raise ValueError(f'verify={verify!r}, should be "off", "first" or "every:N" with N from 1')
